// The functions that Python calls, and which path they take.

#include "gmm.h"

#include <vector>

#include "../../base/csrc/guarded.h"

namespace {

// The paths that this machine has, from the slowest to the fastest.
std::vector<const Path *> FindPaths() {
  std::vector<const Path *> paths = {&kPortable};
#ifdef __x86_64__
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2")) paths.push_back(&kAvx2);
  if (__builtin_cpu_supports("avx512f")) paths.push_back(&kAvx512);
#endif
  return paths;
}

const std::vector<const Path *> kPaths = FindPaths();
const Path *path = kPaths.back();

}  // namespace

extern "C" {

// Take path `number`, 0 the slowest, in place of the fastest.  Returns how many this machine has.
int64_t gmm_take_path(int64_t number) noexcept {
  const int64_t count = kPaths.size();
  if (0 <= number && number < count) path = kPaths[number];
  return count;
}

// The product of a [rows, depth] and b [depth, columns].  Returns 0, or -1 if memory is short.
int32_t gmm_multiply(int64_t rows, int64_t columns, int64_t depth, const MatrixView *a,
                     const MatrixView *b, double *product) {
  return Guarded<int32_t>(-1, [&] {
    path->multiply(rows, columns, depth, *a, *b, product);
    return 0;
  });
}

// x: frames [frames, depth], their squares and a one.  Pdf p has the Gaussians first[p] to
// first[p + 1], of which `slopes` [Gaussians, depth] gives the log of weight times density.  Writes
// the log-likelihoods [frames, pdfs] and, unless it is null, the posteriors [frames, Gaussians] of
// the Gaussians of each pdf.  Returns 0, or -1 if memory is short.
int32_t gmm_score(int64_t frames, int64_t depth, const float *x, int64_t pdfs,
                  const int64_t *first, const double *slopes, float *log_likelihoods,
                  float *posteriors) {
  return Guarded<int32_t>(-1, [&] {
    path->score(frames, depth, x, pdfs, first, slopes, log_likelihoods, posteriors);
    return 0;
  });
}

// The natural logarithms of positive, normal numbers.
void gmm_log(int64_t count, const double *x, double *logs) noexcept {
  path->take_logs(count, x, logs);
}

// linear_algebra.eliminate, of `count` matrices [size, width].
void gmm_eliminate(int64_t count, int64_t size, int64_t width, double *work,
                   double *pivots) noexcept {
  path->eliminate(count, size, width, work, pivots);
}

// row_updates.update_rows, of transform [dim, width] in place.  inverses: [dim, width, dim]; offsets
// and linear: [dim, width], or null without a linear term.  Returns 0, 1 if a matrix is singular, or -1 if memory is short.
int32_t gmm_update_rows(int64_t dim, int64_t width, double count, const double *inverses,
                        const double *offsets, const double *linear, int64_t iterations,
                        double *transform) {
  return Guarded<int32_t>(-1, [&] {
    return !path->update_rows(dim, width, count, inverses, offsets, linear, iterations, transform);
  });
}

// clusterable.refine, of `points` [count, 1 + 2 dim] between two `clusters` in at most `rounds`
// rounds; `floor` is that of variances, `constant` what each frame's spread has besides.  Returns 0,
// or -1 if memory is short.
int32_t gmm_refine(int64_t count, int64_t dim, double floor, double constant, int64_t rounds,
                   const double *points, double *clusters, int64_t *assigned, float *gain) {
  return Guarded<int32_t>(-1, [&] {
    *gain = path->refine(count, dim, floor, constant, rounds, points, clusters, assigned);
    return 0;
  });
}

// What compiled.py compares with what it knows.
const char *gmm_description() noexcept {
  static const std::string text = Interface()
                                      .Struct<MatrixViewFields>()
                                      .Function(NAMED(gmm_take_path))
                                      .Function(NAMED(gmm_multiply))
                                      .Function(NAMED(gmm_score))
                                      .Function(NAMED(gmm_log))
                                      .Function(NAMED(gmm_eliminate))
                                      .Function(NAMED(gmm_update_rows))
                                      .Function(NAMED(gmm_refine))
                                      .text();
  return text.c_str();
}

}  // extern "C"

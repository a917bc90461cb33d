// Products of matrices, log-likelihoods of mixtures and transforms that are estimated row by row: the
// twin of products.py, likelihood.py, linear_algebra.py and row_updates.py.
//
// Each sum is made in the order of its terms, and each product and sum is rounded to double, so that
// vectors of any width give the same bits.  Only sums that stand beside each other share a vector.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "../../base/csrc/elementary.h"
#include "../../base/csrc/guarded.h"
#include "../../base/csrc/interface.h"

// The same code for several instruction sets, of which that of the processor is taken when the
// library is loaded.  The tests build it for one of them.
#ifndef FOR_EVERY_PROCESSOR
#if defined(__x86_64__) && defined(__gnu_linux__)
#define FOR_EVERY_PROCESSOR __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define FOR_EVERY_PROCESSOR
#endif
#endif
#define INLINE inline __attribute__((always_inline))

extern "C" {

struct MatrixView {  // as NumPy has it: bytes from row to row and from column to column
  const char *data;
  int64_t row, column;
  int64_t is_single;  // float32, otherwise float64
};
DESCRIBE(MatrixView, data, row, column, is_single);

}  // extern "C"

namespace {

constexpr int kLanes = 8;   // sums in a vector
constexpr int kRows = 6;    // whose vectors of sums are in registers together
constexpr int kPanels = 4;  // vectors of frames for which a row is read once
constexpr int64_t kPairwise = 128;  // terms of which NumPy makes one block
constexpr double kEpsilon = 0x1p-52;
constexpr int64_t kDepth = 256;  // terms of each sum that are in the cache together
using Vec = double __attribute__((vector_size(kLanes * 8)));
using Place = double __attribute__((vector_size(kLanes * 8), aligned(8), may_alias));  // of a Vec

INLINE Place *Vectors(std::vector<double> &values) {
  return reinterpret_cast<Place *>(values.data());
}

INLINE int64_t RoundUp(int64_t size, int64_t unit) { return (size + unit - 1) / unit * unit; }

// sums[r] += row r times the columns of a panel [depth, kLanes], term by term.
template <int kCount>
INLINE void Add(int64_t depth, const double *rows, int64_t stride, const Place *panel, Place *sums,
                int64_t step) {
  Vec sum[kCount];
  for (int r = 0; r < kCount; ++r) sum[r] = sums[r * step];
  for (int64_t k = 0; k < depth; ++k)
    for (int r = 0; r < kCount; ++r) sum[r] += rows[r * stride + k] * panel[k];
  for (int r = 0; r < kCount; ++r) sums[r * step] = sum[r];
}

// The same for any number of rows up to kRows.
INLINE void AddSome(int64_t count, int64_t depth, const double *rows, int64_t stride,
                    const Place *panel, Place *sums, int64_t step) {
  switch (count) {
    case 1: return Add<1>(depth, rows, stride, panel, sums, step);
    case 2: return Add<2>(depth, rows, stride, panel, sums, step);
    case 3: return Add<3>(depth, rows, stride, panel, sums, step);
    case 4: return Add<4>(depth, rows, stride, panel, sums, step);
    case 5: return Add<5>(depth, rows, stride, panel, sums, step);
    default: return Add<kRows>(depth, rows, stride, panel, sums, step);
  }
}

template <class Number>
INLINE double At(const MatrixView &of, int64_t i, int64_t j) {
  return *reinterpret_cast<const Number *>(of.data + i * of.row + j * of.column);
}

INLINE double At(const MatrixView &of, int64_t i, int64_t j) {
  return of.is_single ? At<float>(of, i, j) : At<double>(of, i, j);
}

FOR_EVERY_PROCESSOR
void Multiply(int64_t rows, int64_t columns, int64_t depth, const MatrixView &a,
              const MatrixView &b, double *product) {
  const int64_t panels = RoundUp(columns, kLanes) / kLanes;
  const int64_t stride = std::min(depth, kDepth);
  std::vector<double> left(rows * stride), panel(stride * kLanes), sums(rows * panels * kLanes);
  for (int64_t from = 0; from < depth; from += kDepth) {
    const int64_t some = depth - from < kDepth ? depth - from : kDepth;
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t k = 0; k < some; ++k) left[i * stride + k] = At(a, i, from + k);
    for (int64_t p = 0; p < panels; ++p) {
      for (int64_t k = 0; k < some; ++k)
        for (int lane = 0; lane < kLanes; ++lane) {
          const int64_t j = p * kLanes + lane;
          panel[k * kLanes + lane] = j < columns ? At(b, from + k, j) : 0;
        }
      for (int64_t i = 0; i < rows; i += kRows)
        AddSome(rows - i, some, left.data() + i * stride, stride, Vectors(panel),
                Vectors(sums) + i * panels + p, panels);
    }
  }
  for (int64_t i = 0; i < rows; ++i)
    std::memcpy(product + i * columns, sums.data() + i * panels * kLanes, columns * sizeof(double));
}

// Terms of a sum of exponentials [count], `step` apart: subtracts the largest and replaces each by
// its exponential.  Gives their sum and the largest.
INLINE void Exponentiate(int64_t count, Place *terms, int64_t step, Vec *largest, Vec *total) {
  Vec most = terms[0], sum{};
  for (int64_t g = 1; g < count; ++g) most = terms[g * step] > most ? terms[g * step] : most;
  for (int64_t g = 0; g < count; ++g) sum += terms[g * step] = elementary::Exp(terms[g * step] - most);
  *largest = most, *total = sum;
}

// The frames from `frame` in panels [kPanels][depth], those that are not there 0.
INLINE void Pack(int64_t frame, int64_t frames, int64_t depth, const float *x, Place *panels) {
  for (int64_t at = 0; at < kPanels * kLanes; ++at)
    for (int64_t k = 0; k < depth; ++k)
      panels[at / kLanes * depth + k][at % kLanes] =
          frame + at < frames ? x[(frame + at) * depth + k] : 0;
}

FOR_EVERY_PROCESSOR
void Score(int64_t frames, int64_t depth, const float *x, int64_t pdfs, const int64_t *first,
           const double *slopes, float *log_likelihoods, float *posteriors) {
  int64_t most = 0;
  for (int64_t pdf = 0; pdf < pdfs; ++pdf) most = std::max(most, first[pdf + 1] - first[pdf]);
  std::vector<double> packed(kPanels * depth * kLanes), terms(most * kPanels * kLanes);
  Place *panels = Vectors(packed), *scores = Vectors(terms);
  for (int64_t frame = 0; frame < frames; frame += kPanels * kLanes) {
    Pack(frame, frames, depth, x, panels);
    const int64_t there = std::min<int64_t>(kPanels, RoundUp(frames - frame, kLanes) / kLanes);
    for (int64_t pdf = 0; pdf < pdfs; ++pdf) {
      const int64_t count = first[pdf + 1] - first[pdf];
      const double *rows = slopes + first[pdf] * depth;
      std::fill(terms.begin(), terms.begin() + count * kPanels * kLanes, 0.0);
      for (int64_t g = 0; g < count; g += kRows)
        for (int p = 0; p < there; ++p)
          AddSome(count - g, depth, rows + g * depth, depth, panels + p * depth,
                  scores + g * kPanels + p, kPanels);
      for (int p = 0; p < there; ++p) {
        Vec largest, total;
        Exponentiate(count, scores + p, kPanels, &largest, &total);
        const Vec found = largest + elementary::Log(total);
        for (int lane = 0; lane < kLanes; ++lane) {
          const int64_t t = frame + p * kLanes + lane;
          if (t >= frames) break;
          log_likelihoods[t * pdfs + pdf] = static_cast<float>(found[lane]);
          if (posteriors == nullptr) continue;
          for (int64_t g = 0; g < count; ++g)  // rounded as Kaldi's, which are 0 where its are
            posteriors[t * first[pdfs] + first[pdf] + g] =
                static_cast<float>(scores[g * kPanels + p][lane]) /
                static_cast<float>(total[lane]);
        }
      }
    }
  }
}

FOR_EVERY_PROCESSOR
void TakeLogs(int64_t count, const double *x, double *logs) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    Vec some;
    std::memcpy(&some, x + i, sizeof some);
    some = elementary::Log(some);
    std::memcpy(logs + i, &some, sizeof some);
  }
  for (; i < count; ++i) logs[i] = elementary::Log(x[i]);
}

// The sum of a[i] * b[i] in the order of NumPy's pairwise summation: eight sums side by side, and
// above 128 terms the sums of both halves.
INLINE double DotBlock(int64_t count, const double *a, const double *b) {
  const int64_t whole = count / kLanes * kLanes;
  double total = -0.0;
  if (whole > 0) {
    Vec sums = Vec{} - 0.0;
    for (int64_t i = 0; i < whole; i += kLanes)
      sums += *reinterpret_cast<const Place *>(a + i) * *reinterpret_cast<const Place *>(b + i);
    total = ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
  }
  for (int64_t i = whole; i < count; ++i) total += a[i] * b[i];
  return total;
}

double Dot(int64_t count, const double *a, const double *b) {
  if (count <= kPairwise) return DotBlock(count, a, b);
  const int64_t half = count / 2 / kLanes * kLanes;
  return Dot(half, a, b) + Dot(count - half, a + half, b + half);
}

// Makes a matrix [size, width] start with the unit matrix, by Gauss and Jordan's elimination with
// the largest element of a column as the pivot.
INLINE void EliminateOne(int64_t size, int64_t width, double *work, double *pivots) {
  for (int64_t i = 0; i < size; ++i) {
    int64_t largest = i;
    for (int64_t j = i + 1; j < size; ++j)
      if (std::abs(work[j * width + i]) > std::abs(work[largest * width + i])) largest = j;
    double *row = work + i * width;
    if (largest != i) std::swap_ranges(row, row + width, work + largest * width);
    const double pivot = pivots[i] = row[i];
    for (int64_t k = i; k < width; ++k) row[k] /= pivot;
    for (int64_t j = 0; j < size; ++j) {
      double *other = work + j * width;
      const double factor = j == i ? 0 : other[i];
      for (int64_t k = i; k < width; ++k) other[k] -= factor * row[k];
    }
  }
}

FOR_EVERY_PROCESSOR
void Eliminate(int64_t count, int64_t size, int64_t width, double *work, double *pivots) {
  for (int64_t b = 0; b < count; ++b)
    EliminateOne(size, width, work + b * size * width, pivots + b * size);
}

// Writes the inverse [dim, dim] of the first columns of a matrix [dim, width]; whether there is one.
INLINE bool Invert(int64_t dim, int64_t width, const double *matrix, double *inverse) {
  std::vector<double> work(dim * 2 * dim), pivots(dim);
  double most = 0;
  for (int64_t i = 0; i < dim; ++i) {
    for (int64_t j = 0; j < dim; ++j)
      most = std::max(most, std::abs(work[i * 2 * dim + j] = matrix[i * width + j]));
    work[i * 2 * dim + dim + i] = 1;
  }
  EliminateOne(dim, 2 * dim, work.data(), pivots.data());
  for (int64_t i = 0; i < dim; ++i) {
    if (!(std::abs(pivots[i]) > dim * kEpsilon * most)) return false;
    std::copy_n(&work[i * 2 * dim + dim], dim, inverse + i * dim);
  }
  return true;
}

// linear_algebra.replace_row.
INLINE void ReplaceRow(int64_t dim, int64_t row, const double *change, double *inverse,
                       double *column, double *moved) {
  std::fill(moved, moved + dim, -0.0);
  for (int64_t i = 0; i < dim; ++i) {
    column[i] = inverse[i * dim + row];
    for (int64_t j = 0; j < dim; ++j) moved[j] += change[i] * inverse[i * dim + j];
  }
  const double whole = 1 + moved[row];
  for (int64_t j = 0; j < dim; ++j) moved[j] /= whole;
  for (int64_t i = 0; i < dim; ++i)
    for (int64_t j = 0; j < dim; ++j) inverse[i * dim + j] -= column[i] * moved[j];
}

// row_updates.best_step.
double BestStep(double e1, double e2, double count) {
  const double root = std::sqrt(e2 * e2 + 4 * e1 * count);
  const auto gain = [&](double alpha) {
    return count * elementary::Log(std::abs(alpha * e1 + e2)) - alpha * alpha * e1 / 2;
  };
  const double above = (root - e2) / (2 * e1), below = (-root - e2) / (2 * e1);
  return gain(below) > gain(above) ? below : above;
}

FOR_EVERY_PROCESSOR
bool UpdateRows(int64_t dim, int64_t width, double count, const double *inverses,
                const double *offsets, const double *linear, int64_t iterations,
                double *transform) {
  std::vector<double> inverse(dim * dim), cofactors(dim), column(dim), moved(dim), change(dim);
  std::vector<double> direction(width);
  for (int64_t iteration = 0; iteration < iterations; ++iteration) {
    if (!Invert(dim, width, transform, inverse.data())) return false;
    for (int64_t row = 0; row < dim; ++row) {
      for (int64_t j = 0; j < dim; ++j) cofactors[j] = inverse[j * dim + row];
      const double *scatter = inverses + row * width * dim;
      for (int64_t k = 0; k < width; ++k) direction[k] = Dot(dim, scatter + k * dim, cofactors.data());
      const double e1 = Dot(dim, direction.data(), cofactors.data());
      if (!(e1 > 0)) return false;
      const double step =
          linear == nullptr
              ? std::sqrt(count / e1)
              : BestStep(e1, Dot(width, direction.data(), linear + row * width), count);
      double *old = transform + row * width;
      for (int64_t k = 0; k < width; ++k) {
        double best = direction[k] * step;
        if (linear != nullptr) best += offsets[row * width + k];
        if (k < dim) change[k] = best - old[k];
        old[k] = best;
      }
      ReplaceRow(dim, row, change.data(), inverse.data(), column.data(), moved.data());
    }
  }
  return true;
}

}  // namespace

extern "C" {

// The product of a [rows, depth] and b [depth, columns].  Returns 0, or -1 if memory is short.
int32_t gmm_multiply(int64_t rows, int64_t columns, int64_t depth, const MatrixView *a,
                     const MatrixView *b, double *product) {
  return Guarded<int32_t>(-1, [&] {
    Multiply(rows, columns, depth, *a, *b, product);
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
    Score(frames, depth, x, pdfs, first, slopes, log_likelihoods, posteriors);
    return 0;
  });
}

// The natural logarithms of positive, normal numbers.
void gmm_log(int64_t count, const double *x, double *logs) noexcept { TakeLogs(count, x, logs); }

// linear_algebra.eliminate, of `count` matrices [size, width].
void gmm_eliminate(int64_t count, int64_t size, int64_t width, double *work,
                   double *pivots) noexcept {
  Eliminate(count, size, width, work, pivots);
}

// row_updates.update_rows, of transform [dim, width] in place.  inverses: [dim, width, dim]; offsets
// and linear: [dim, width], or null without a linear term.  Returns 0, 1 if a matrix is singular, or -1 if memory is short.
int32_t gmm_update_rows(int64_t dim, int64_t width, double count, const double *inverses,
                        const double *offsets, const double *linear, int64_t iterations,
                        double *transform) {
  return Guarded<int32_t>(-1, [&] {
    return !UpdateRows(dim, width, count, inverses, offsets, linear, iterations, transform);
  });
}

// What compiled.py compares with what it knows.
const char *gmm_description() noexcept {
  static const std::string text = Interface()
                                      .Struct<MatrixViewFields>()
                                      .Function(NAMED(gmm_multiply))
                                      .Function(NAMED(gmm_score))
                                      .Function(NAMED(gmm_log))
                                      .Function(NAMED(gmm_eliminate))
                                      .Function(NAMED(gmm_update_rows))
                                      .text();
  return text.c_str();
}

}  // extern "C"

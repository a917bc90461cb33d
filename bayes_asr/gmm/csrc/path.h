// Products of matrices, log-likelihoods of mixtures, transforms that are estimated row by row and
// clusters of two: the twin of linear_algebra.py, likelihood.py, row_updates.py and clusterable.py,
// for one instruction set.
//
// Each sum is made in the order of its terms, and each product and sum is rounded to double, so that
// vectors of any width give the same bits.  Only sums that stand beside each other share a vector.

#pragma once

#include "../../base/csrc/elementary.h"
#include "common.h"

namespace {

constexpr int kVectors = LANES < 8 ? 2 : 1;    // of a panel
constexpr int kPanel = kVectors * LANES;       // sums that are made beside each other
constexpr int kRows = 6;                       // whose panels of sums are in registers together
constexpr int kFrames = 32;                    // for which a row is read once
constexpr int64_t kPairwise = 128;  // terms of which NumPy makes one block
constexpr double kEpsilon = 0x1p-52;
constexpr int64_t kDepth = 256;  // terms of each sum that are in the cache together
using Vec = double __attribute__((vector_size(LANES * 8)));
using Place __attribute__((aligned(8), may_alias)) = Vec;  // where a Vec is in memory
static_assert(alignof(Place) == 8, "arrays are aligned as their numbers are");

INLINE const Place *Vectors(const double *values) { return reinterpret_cast<const Place *>(values); }
INLINE Place *Vectors(double *values) { return reinterpret_cast<Place *>(values); }

INLINE int64_t RoundUp(int64_t size, int64_t unit) { return (size + unit - 1) / unit * unit; }

// sums[r] [kPanel] += row r times the columns of a panel [depth, kPanel], term by term.
template <int kCount>
INLINE void Add(int64_t depth, const double *rows, int64_t stride, const double *panel,
                double *sums, int64_t step) {
  Vec sum[kCount][kVectors];
  for (int r = 0; r < kCount; ++r)
    for (int v = 0; v < kVectors; ++v) sum[r][v] = Vectors(sums + r * step)[v];
  for (int64_t k = 0; k < depth; ++k)
    for (int r = 0; r < kCount; ++r)
      for (int v = 0; v < kVectors; ++v)
        sum[r][v] += rows[r * stride + k] * Vectors(panel + k * kPanel)[v];
  for (int r = 0; r < kCount; ++r)
    for (int v = 0; v < kVectors; ++v) Vectors(sums + r * step)[v] = sum[r][v];
}

// The same for any number of rows up to kRows.
INLINE void AddSome(int64_t count, int64_t depth, const double *rows, int64_t stride,
                    const double *panel, double *sums, int64_t step) {
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

void Multiply(int64_t rows, int64_t columns, int64_t depth, const MatrixView &a,
              const MatrixView &b, double *product) {
  const int64_t width = RoundUp(columns, kPanel), stride = std::min(depth, kDepth);
  std::vector<double> left(rows * stride), panel(stride * kPanel), sums(rows * width);
  for (int64_t from = 0; from < depth; from += kDepth) {
    const int64_t some = depth - from < kDepth ? depth - from : kDepth;
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t k = 0; k < some; ++k) left[i * stride + k] = At(a, i, from + k);
    for (int64_t column = 0; column < width; column += kPanel) {
      for (int64_t k = 0; k < some; ++k)
        for (int lane = 0; lane < kPanel; ++lane) {
          const int64_t j = column + lane;
          panel[k * kPanel + lane] = j < columns ? At(b, from + k, j) : 0;
        }
      for (int64_t i = 0; i < rows; i += kRows)
        AddSome(rows - i, some, left.data() + i * stride, stride, panel.data(),
                sums.data() + i * width + column, width);
    }
  }
  for (int64_t i = 0; i < rows; ++i)
    std::copy_n(sums.data() + i * width, columns, product + i * columns);
}

// Terms of sums of exponentials [count, LANES], kFrames apart: subtracts the largest and replaces
// each by its exponential.  Gives their sums and the largest.
INLINE void Exponentiate(int64_t count, double *terms, Vec *largest, Vec *total) {
  Vec most = Vectors(terms)[0], sum{};
  for (int64_t g = 1; g < count; ++g) {
    const Vec term = Vectors(terms + g * kFrames)[0];
    most = term > most ? term : most;
  }
  for (int64_t g = 0; g < count; ++g) {
    Place &term = Vectors(terms + g * kFrames)[0];
    sum += term = elementary::Exp(term - most);
  }
  *largest = most, *total = sum;
}

// The frames from `frame` in panels [kFrames / kPanel][depth, kPanel], those that are not there 0.
INLINE void Pack(int64_t frame, int64_t frames, int64_t depth, const float *x, double *panels) {
  for (int64_t at = 0; at < kFrames; ++at)
    for (int64_t k = 0; k < depth; ++k)
      panels[(at / kPanel * depth + k) * kPanel + at % kPanel] =
          frame + at < frames ? x[(frame + at) * depth + k] : 0;
}

void Score(int64_t frames, int64_t depth, const float *x, int64_t pdfs, const int64_t *first,
           const double *slopes, float *log_likelihoods, float *posteriors) {
  int64_t most = 0;
  for (int64_t pdf = 0; pdf < pdfs; ++pdf) most = std::max(most, first[pdf + 1] - first[pdf]);
  std::vector<double> panels(depth * kFrames), scores(most * kFrames);
  for (int64_t frame = 0; frame < frames; frame += kFrames) {
    Pack(frame, frames, depth, x, panels.data());
    const int64_t there = std::min<int64_t>(kFrames, frames - frame);
    for (int64_t pdf = 0; pdf < pdfs; ++pdf) {
      const int64_t count = first[pdf + 1] - first[pdf];
      const double *rows = slopes + first[pdf] * depth;
      std::fill_n(scores.begin(), count * kFrames, 0.0);
      for (int64_t g = 0; g < count; g += kRows)
        for (int64_t at = 0; at < there; at += kPanel)
          AddSome(count - g, depth, rows + g * depth, depth, &panels[at * depth],
                  &scores[g * kFrames + at], kFrames);
      for (int64_t at = 0; at < there; at += LANES) {
        Vec largest, total;
        Exponentiate(count, &scores[at], &largest, &total);
        const Vec found = largest + elementary::Log(total);
        for (int64_t lane = 0; lane < LANES && at + lane < there; ++lane) {
          const int64_t t = frame + at + lane;
          log_likelihoods[t * pdfs + pdf] = static_cast<float>(found[lane]);
          if (posteriors == nullptr) continue;
          for (int64_t g = 0; g < count; ++g)  // rounded as Kaldi's, which are 0 where its are
            posteriors[t * first[pdfs] + first[pdf] + g] =
                static_cast<float>(scores[g * kFrames + at + lane]) /
                static_cast<float>(total[lane]);
        }
      }
    }
  }
}

void TakeLogs(int64_t count, const double *x, double *logs) {
  int64_t i = 0;
  for (; i + LANES <= count; i += LANES)
    Vectors(logs + i)[0] = elementary::Log(Vec(Vectors(x + i)[0]));
  for (; i < count; ++i) logs[i] = elementary::Log(x[i]);
}

// The sum of a[i] * b[i] in the order of NumPy's pairwise summation: eight sums side by side, and
// above 128 terms the sums of both halves.
INLINE double DotBlock(int64_t count, const double *a, const double *b) {
  const int64_t whole = count / 8 * 8;
  double total = -0.0;
  if (whole > 0) {
    double sums[8];
    std::fill_n(sums, 8, -0.0);
    for (int64_t i = 0; i < whole; i += 8)
      for (int lane = 0; lane < 8; ++lane) sums[lane] += a[i + lane] * b[i + lane];
    total = ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
  }
  for (int64_t i = whole; i < count; ++i) total += a[i] * b[i];
  return total;
}

double Dot(int64_t count, const double *a, const double *b) {
  if (count <= kPairwise) return DotBlock(count, a, b);
  const int64_t half = count / 2 / 8 * 8;
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

// clusterable.objective of one cluster [1 + 2 dim].
class Objective {
 public:
  Objective(int64_t dim, double floor, double constant)
      : dim_(dim), floor_(floor), constant_(constant),
        spreads_(dim), floored_(dim), logs_(dim), ones_(dim, 1.0) {}

  float operator()(const double *cluster) {
    const double count = cluster[0], frames = count > 0 ? count : 1;
    for (int64_t d = 0; d < dim_; ++d) {
      const double mean = cluster[1 + d] / frames;
      const double variance = cluster[1 + dim_ + d] / frames - mean * mean;
      floored_[d] = variance < floor_ ? floor_ : variance;
      spreads_[d] = variance / floored_[d];
    }
    TakeLogs(dim_, floored_.data(), logs_.data());
    for (int64_t d = 0; d < dim_; ++d) spreads_[d] += logs_[d];
    const double spread = Dot(dim_, spreads_.data(), ones_.data()) + constant_;
    return static_cast<float>(count > 0 ? -0.5 * spread * frames : 0.0);
  }

 private:
  const int64_t dim_;
  const double floor_, constant_;
  std::vector<double> spreads_, floored_, logs_, ones_;
};

// clusterable.refine.
float Refine(int64_t count, int64_t dim, double floor, double constant, int64_t rounds,
             const double *points, double *clusters, int64_t *assigned) {
  const int64_t width = 1 + 2 * dim;
  Objective objective(dim, floor, constant);
  std::vector<double> joined(width), without(width);
  float now[] = {objective(clusters), objective(clusters + width)}, total = 0;
  bool moved = true;
  for (int64_t round = 0; round < rounds && moved; ++round) {
    moved = false;
    for (int64_t i = 0; i < count; ++i) {
      const double *point = points + i * width;
      const int64_t from = assigned[i], to = 1 - from;
      for (int64_t k = 0; k < width; ++k) {
        without[k] = clusters[from * width + k] - point[k];
        joined[k] = clusters[to * width + k] + point[k];
      }
      const float after_without = objective(without.data()), after_joined = objective(joined.data());
      const float gain = after_joined + after_without - now[to] - now[from];
      if (!(gain > 0)) continue;
      total += gain;
      std::copy_n(without.data(), width, clusters + from * width);
      std::copy_n(joined.data(), width, clusters + to * width);
      now[from] = after_without, now[to] = after_joined;
      assigned[i] = to;
      moved = true;
    }
  }
  return total;
}

}  // namespace

const Path PATH = {Multiply, Score, TakeLogs, Eliminate, UpdateRows, Refine};

// What Python hands to products, likelihoods and transforms, and the functions of a path.

#pragma once

#include <cstdint>

#include "../../base/csrc/interface.h"

extern "C" {

struct MatrixView {  // as NumPy has it: bytes from row to row and from column to column
  const char *data;
  int64_t row, column;
  int64_t is_single;  // float32, otherwise float64
};
DESCRIBE(MatrixView, data, row, column, is_single);

}  // extern "C"

struct Path {
  void (*multiply)(int64_t rows, int64_t columns, int64_t depth, const MatrixView &a,
                   const MatrixView &b, double *product);
  void (*score)(int64_t frames, int64_t depth, const float *x, int64_t pdfs, const int64_t *first,
                const double *slopes, float *log_likelihoods, float *posteriors);
  void (*take_logs)(int64_t count, const double *x, double *logs);
  void (*eliminate)(int64_t count, int64_t size, int64_t width, double *work, double *pivots);
  bool (*update_rows)(int64_t dim, int64_t width, double count, const double *inverses,
                      const double *offsets, const double *linear, int64_t iterations,
                      double *transform);
  float (*refine)(int64_t count, int64_t dim, double floor, double constant, int64_t rounds,
                  const double *points, double *clusters, int64_t *assigned);
};

extern const Path kPortable, kAvx2, kAvx512;

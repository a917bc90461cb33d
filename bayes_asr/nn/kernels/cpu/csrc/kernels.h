// What Python hands to recurrences, products and losses: sizes, strides in elements and plain
// pointers.  library.py repeats the structs, and compares them when it loads the library.
//
// Legend: B sequences, T time steps, N frames, D directions, H units, G gates, X = G * H, P coefficients
// (cells.h), E further derivatives ("extras" there).

#pragma once

#include <cstdint>

#include "../../../../base/csrc/interface.h"

constexpr int kMaxGates = 4, kMaxStates = 2;

extern "C" {

enum Storage : int64_t { kFloat32, kBfloat16 };  // of factors and of all that has frames

// What the library says of a unit, a row of the table in cells.h.
struct UnitRow {
  const char *name;
  int64_t gates, states, extras;
  int64_t coefficients;  // but for those of its activation
  int64_t resets;        // whether V multiplies something else than h for the last gate
  int64_t recurs;        // whether there is a V
};
DESCRIBE(UnitRow, name, gates, states, extras, coefficients, resets, recurs);

struct ActivationRow {
  const char *name;
  int64_t coefficients;
};
DESCRIBE(ActivationRow, name, coefficients);

struct Job {
  int64_t unit, activation;  // numbers of rows of the tables in cells.h
  int64_t storage, threads;
  int64_t B, T, D, H, G, P, E;
  int64_t sets;  // of recurrent weights and coefficients: D, or 1 where the directions share them
  const int64_t *sizes;               // [T] sequences alive
  const int64_t *starts;              // [T] first frame
  const int64_t *lengths;             // [B]
  const int64_t *backwards;           // [D] whether a direction reads time backwards
  const float *V;                     // [sets, H, X], null where a unit has none
  const float *coefficients;          // [sets, P, H]
  const void *terms;                  // [N, D or 1, X]
  int64_t terms_frame;                // stride of a frame
  int64_t terms_direction;            // of a direction, 0 where they share terms
  const float *mask;                  // [B, D, H] or null
  const float *initial[kMaxStates];  // [B, D, H] of each state
  void *h;                            // [N, D, H]
  // What the way back reads; null where there will be none.  Each frame has, for each gate, the
  // derivative by its pre-activation, which becomes the gradient of that; and E further
  // derivatives, those by the P coefficients before the others.
  void *slopes;    // [N, D, X]
  void *extras;    // [N, D, E, H]
  void *before;    // [N, D, H] the old h, which V multiplied
  void *restored;  // [N, D, H] what V multiplied for the last gate, where the unit resets
  int64_t slopes_frame, slopes_direction, before_frame, before_direction;
  const void *arriving;            // [N, D, H] gradient of h
  float *by_initial[kMaxStates];  // [B, D, H] gradients of the initial states
  float *by_coefficients;          // [B, D, P, H] gradients of the coefficients, added to zeros
};
DESCRIBE(Job, unit, activation, storage, threads, B, T, D, H, G, P, E, sets, sizes, starts, lengths,
         backwards, V, coefficients, terms, terms_frame, terms_direction, mask, initial, h, slopes,
         extras, before, restored, slopes_frame, slopes_direction, before_frame, before_direction,
         arriving, by_initial, by_coefficients);

// left * right + bias: [rows, inner] x [inner, columns].  Strides are of a row and of a column; one
// of the two is 1, that of a column where the right side is bfloat16, unless it has one element.
struct Product {
  int64_t threads, storage;  // of the left side, and of the right one when it is multiplied
  int64_t rows, inner, columns;
  const void *left;
  int64_t left_row, left_column;
  const void *right;
  int64_t right_storage, right_row, right_column;
  const float *bias;  // [columns] or null
  void *result;       // [rows, columns]
  int64_t result_storage;
};
DESCRIBE(Product, threads, storage, rows, inner, columns, left, left_row, left_column, right,
         right_storage, right_row, right_column, bias, result, result_storage);

// The cross entropy of labels and the softmax of outputs.
struct CrossEntropyJob {
  int64_t threads, storage, rows, outputs;
  const void *logits;     // [rows, outputs]
  const int64_t *labels;  // [rows]
  void *gradient;         // [rows, outputs], times `scale`; or null
  float *losses;          // [rows] in nats
  uint8_t *wrong;         // [rows] whether the first of the largest outputs is not the label's
  double scale;
};
DESCRIBE(CrossEntropyJob, threads, storage, rows, outputs, logits, labels, gradient, losses, wrong,
         scale);

void kernels_keep_mask(const uint64_t *keys, int64_t sequences, uint64_t first, int64_t size,
                       uint64_t least, float *mask) noexcept;

}  // extern "C"

inline int64_t BytesOf(int64_t storage) { return storage == kBfloat16 ? 2 : 4; }

// The code of one instruction set.
struct Path {
  void (*forward)(const Job &);
  void (*backward)(const Job &);
  void (*multiply)(const Product &);
  void (*cross_entropy)(const CrossEntropyJob &);
};

extern const Path kPortable;
#ifdef __x86_64__
extern const Path kAvx2, kAvx512;
#if defined __clang__ || __GNUC__ >= 10
#define COMPILES_BF16  // GCC 9 knows no such instructions
extern const Path kAvx512Bf16;
#endif
#if defined __linux__ && (defined __clang__ ? __clang_major__ >= 12 : __GNUC__ >= 11)
#define COMPILES_AMX
extern const Path kAmxBf16;
#endif
#endif

inline int64_t FrameOf(const Job &job, int64_t t, int64_t b, int64_t d) {
  return job.starts[job.backwards[d] ? job.lengths[b] - 1 - t : t] + b;
}

// What multiplies rows by a packed matrix: vectors, or the tiles of AMX.

#pragma once

#include "product.h"

namespace {

// Vectors, which need nothing.
template <class Store>
struct Multiplier {
  struct InUse {};
  static constexpr bool kAmx = false;
  static constexpr int kRows = ::kRows, kDenseRows = ::kRows, kWords = 1;
  static void Multiply(const Left &left, const Packed<Store> &matrix, int64_t set, int64_t p,
                       Vec *sums) {
    ::Multiply(left, matrix, set, p, sums);
  }
};

#ifdef AMX_PRODUCTS
// Tiles of 16 rows of 16 words; up to 16 or 32 rows are multiplied as one or two of them, whole.
// So rows behind the last one must be readable, and `sums` has room for theirs, which nobody reads.
// The words that fill up a row must be zeros: others may be NaN, which zeros of the matrix keep.
template <>
struct Multiplier<Bfloat16> {
  static constexpr bool kAmx = true;
  static constexpr int kRows = 16, kDenseRows = 32, kWords = 16;

  // The shapes of the tiles of a thread.  oneDNN sets its own before each of its products.
  struct InUse {
    InUse() {
      // Constant, since GCC takes the first 8 bytes alone for what is read.
      static constexpr struct {
        uint8_t palette = 1, start = 0, reserved[14] = {};
        uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
        uint8_t rows[16] = {kRows, kRows, kRows, kRows, kRows, kRows, kRows, kRows};
      } kShapes;
      _tile_loadconfig(&kShapes);
    }
    ~InUse() { _tile_release(); }
  };

  static void Multiply(const Left &left, const Packed<Bfloat16> &matrix, int64_t set, int64_t p,
                       Vec *sums) {
    constexpr int64_t vector = sizeof(Vec), pair = kPair * vector;
    asm volatile("" ::: "memory");  // GCC does not know that loads of tiles read
    const int64_t sums_row = matrix.vectors() * vector;
    const char *above = left.first, *below = above + kRows * left.row;
    const uint32_t *panel = matrix.panel(set, p);
    for (int v = 0; v < matrix.vectors(); v += kPair, sums += kPair) {
      _tile_zero(0);
      _tile_zero(1);
      _tile_zero(2);
      _tile_zero(3);
      for (int64_t k = 0; k < matrix.words(); k += kWords, panel += kWords * kPair * LANES) {
        _tile_loadd(6, panel, pair);
        _tile_loadd(7, panel + LANES, pair);
        _tile_loadd(4, above + k * left.word, left.row);
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        if (left.rows <= kRows) continue;
        _tile_loadd(5, below + k * left.word, left.row);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
      }
      _tile_stored(0, sums, sums_row);
      _tile_stored(1, sums + 1, sums_row);
      if (left.rows <= kRows) continue;
      _tile_stored(2, sums + kRows * matrix.vectors(), sums_row);
      _tile_stored(3, sums + kRows * matrix.vectors() + 1, sums_row);
    }
  }
};
#endif

}  // namespace

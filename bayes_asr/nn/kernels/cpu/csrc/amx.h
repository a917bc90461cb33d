// What multiplies the rows of a time step: vectors, or the matrix tiles of AMX.

#pragma once

#include "product.h"

namespace {

// Vectors, which need nothing.
template <class Store>
struct Unit {
  struct InUse {};
  static constexpr int kRows = ::kRows, kRowsBehind = 0, kWords = 1;
  static void Multiply(const Left &left, const Packed<Store> &matrix, int64_t set, int64_t p,
                       Vec *sums) {
    ::Multiply(left, matrix, set, p, sums);
  }
};

#ifdef AMX_PRODUCTS
// Tiles of 16 rows of 16 words.  All of them are multiplied whatever rows there are, so that those
// behind the last one must be readable; what becomes of them is not used.
template <>
struct Unit<Bfloat16> {
  static constexpr int kRows = 16, kRowsBehind = kRows, kWords = 16;

  // The shapes of the tiles of a thread.  oneDNN sets its own before each of its products.
  struct InUse {
    InUse() {
      struct {
        uint8_t palette = 1, start = 0, reserved[14] = {};
        uint16_t row_bytes[16] = {};
        uint8_t rows[16] = {};
      } shapes;
      for (int tile = 0; tile <= 4; ++tile) {
        shapes.row_bytes[tile] = kWords * sizeof(uint32_t);
        shapes.rows[tile] = kRows;
      }
      _tile_loadconfig(&shapes);
    }
    ~InUse() { _tile_release(); }
  };

  static void Multiply(const Left &left, const Packed<Bfloat16> &matrix, int64_t set, int64_t p,
                       Vec *sums) {
    constexpr int64_t vector = sizeof(Vec), pair = kPair * vector;
    asm volatile("" ::: "memory");  // GCC does not know that loads of tiles read
    const uint32_t *panel = matrix.panel(set, p);
    for (int v = 0; v < matrix.vectors(); v += kPair) {
      _tile_zero(0);
      _tile_zero(1);
      for (int64_t k = 0; k < matrix.words(); k += kWords, panel += kWords * kPair * LANES) {
        _tile_loadd(2, left.first + k * left.word, left.row);
        _tile_loadd(3, panel, pair);
        _tile_dpbf16ps(0, 2, 3);
        _tile_loadd(4, panel + LANES, pair);
        _tile_dpbf16ps(1, 2, 4);
      }
      _tile_stored(0, sums + v, matrix.vectors() * vector);
      _tile_stored(1, sums + v + 1, matrix.vectors() * vector);
    }
  }
};
#endif

}  // namespace

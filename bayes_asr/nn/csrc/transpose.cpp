// The transpose of a matrix in several threads; torch's copy takes one.

#include <algorithm>

#include "common.h"

namespace {

constexpr int64_t kBlock = 16;  // a cache line of floats
constexpr int kQuad = 4;

// T: unsigned integers of the size of the numbers.
template <class T>
struct Transpose {
  typedef T Quad __attribute__((vector_size(kQuad * sizeof(T))));

  const T *from;
  int64_t rows, columns;
  T *to;

  // The share of one thread: some blocks of columns.
  void operator()(int thread, int threads) const {
    const int64_t blocks = (columns + kBlock - 1) / kBlock;
    for (int64_t i = blocks * thread / threads; i < blocks * (thread + 1) / threads; ++i) {
      const int64_t c = i * kBlock, width = std::min(kBlock, columns - c);
      for (int64_t r = 0; r < rows; r += kBlock) {
        const int64_t height = std::min(kBlock, rows - r);
        if (width == kBlock && height == kBlock) {
          Whole(r, c);
        } else {
          Part(r, height, c, width);
        }
      }
    }
  }

  // A whole block, while the next one is fetched, whose rows are too far apart to be foreseen.
  void Whole(int64_t first_row, int64_t first_column) const {
    const T *in = from + first_row * columns + first_column;
    T *out = to + first_column * rows + first_row;
    const int64_t next = std::min(2 * kBlock, rows - first_row);
    for (int64_t r = kBlock; r < next; ++r) __builtin_prefetch(in + r * columns);
    for (int64_t c = 0; c < kBlock; c += kQuad) {
      for (int64_t r = 0; r < kBlock; r += kQuad) {
        Quad x[kQuad];
        for (int i = 0; i < kQuad; ++i) std::memcpy(&x[i], in + (r + i) * columns + c, sizeof x[i]);
        for (int i = 0; i < kQuad; ++i) {
          const Quad column = {x[0][i], x[1][i], x[2][i], x[3][i]};
          std::memcpy(out + (c + i) * rows + r, &column, sizeof column);
        }
      }
    }
  }

  void Part(int64_t first_row, int64_t height, int64_t first_column, int64_t width) const {
    for (int64_t c = first_column; c < first_column + width; ++c) {
      for (int64_t r = first_row; r < first_row + height; ++r) {
        to[c * rows + r] = from[r * columns + c];
      }
    }
  }
};

template <class T>
void Run(const void *from, int64_t rows, int64_t columns, void *to, int64_t threads) {
  const Transpose<T> body{static_cast<const T *>(from), rows, columns, static_cast<T *>(to)};
  Team(static_cast<int>(threads)).Run(body);
}

}  // namespace

extern "C" void recurrence_transpose(int64_t storage, const void *from, int64_t rows,
                                     int64_t columns, void *to, int64_t threads) {
  const auto run = storage == kBfloat16 ? Run<uint16_t> : Run<uint32_t>;
  run(from, rows, columns, to, threads);
}

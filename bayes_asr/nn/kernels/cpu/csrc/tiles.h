// How the work of a time step is cut: into tiles of some rows times one panel.  A row is a sequence
// in a direction, row b * D + d of buffers [B, D, ...]; what it becomes does not depend on the rows
// beside it, nor on the number of threads.

#pragma once

#include "product.h"
#include "multiplier.h"

namespace {

struct Tile {
  int64_t set, panel;
  int64_t first, step, count;  // rows first, first + step, ...
  int64_t ahead;               // rows that tiles before it take of the same panel
};

class Tiles {
 public:
  static constexpr int64_t kAll = -1;

  // Of at most `height` rows, of one direction or of all.
  Tiles(const Job &job, int64_t height, int64_t sets, int64_t panels, int64_t alive,
        int64_t direction)
      : first_(direction == kAll ? 0 : direction),
        sets_(sets),
        step_(direction == kAll && sets == 1 ? 1 : job.D),
        panels_(panels),
        rows_(alive * job.D / step_),
        blocks_((rows_ + height - 1) / height) {
    count = (direction == kAll ? sets : 1) * panels * blocks_;
  }
  Tile operator[](int64_t i) const {
    const int64_t block = i % blocks_, ahead = rows_ * block / blocks_;
    const int64_t direction = first_ + i / blocks_ / panels_;
    return {direction % sets_, i / blocks_ % panels_,
            direction + ahead * step_, step_,
            rows_ * (block + 1) / blocks_ - ahead, ahead};
  }

  int64_t count;

 private:
  int64_t first_, sets_, step_, panels_, rows_, blocks_;
};

// Rows [B, D, numbers] of the left side of products.
template <class Store>
struct Rows {
  using Number = typename Store::Number;
  int64_t stride = 0;  // numbers of a row, in cache lines that no other row shares
  Buffer<uint32_t> words;

  Rows() = default;
  Rows(const Job &job, int64_t numbers)
      : stride((numbers + kLine - 1) / kLine * kLine),
        words((job.B + kBehind) * job.D * stride / Store::kPerWord) {}
  Number *at(int64_t row) const { return reinterpret_cast<Number *>(words.get()) + row * stride; }

 private:
  static constexpr int64_t kLine = 64 / sizeof(Number);
  // Sequences behind the last one that tiles read; rows may be those of every other direction.
  static constexpr int64_t kBehind = Multiplier<Store>::kAmx ? Multiplier<Store>::kRows : 0;
};

// The products of a tile; rows from `alive` sequences on are zeros.
template <class Store>
void MultiplyTile(const Job &job, const Tile &tile, const Rows<Store> &rows,
                  const Packed<Store> &matrix, int64_t alive, Vec *sums) {
  const int64_t live =
      std::clamp<int64_t>(alive * job.D / tile.step - tile.ahead, 0, tile.count);
  if (live > 0) {
    const int64_t row = tile.step * rows.stride * sizeof(typename Store::Number);
    const Left some{reinterpret_cast<const char *>(rows.at(tile.first)), row, sizeof(uint32_t),
                    matrix.words(), static_cast<int>(live)};
    Multiplier<Store>::Multiply(some, matrix, tile.set, tile.panel, sums);
  }
  for (int64_t i = live * matrix.vectors(); i < tile.count * matrix.vectors(); ++i) sums[i] = Vec{};
}

}  // namespace

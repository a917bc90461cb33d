// How the work of a time step is cut: into tiles of some rows times one panel.  Included once by
// each path.  A row is a sequence in a direction; a tile never depends on the number of threads.

struct Tile {
  int64_t set, first_row, rows, panel;
};

struct Place {
  int64_t b, d, row;  // row of buffers [B, D, ...]
};

class Tiles {
 public:
  Tiles(const Job &job, int64_t sets, int64_t panels, int64_t alive)
      : panels_(panels), rows_(Rows(job, sets, alive)), blocks_((rows_ + kRows - 1) / kRows) {
    count = sets * panels * blocks_;
  }
  Tile operator[](int64_t i) const {
    const int64_t block = i % blocks_, first = rows_ * block / blocks_;
    return {i / blocks_ / panels_, first, rows_ * (block + 1) / blocks_ - first,
            i / blocks_ % panels_};
  }
  // Rows of `alive` sequences: both directions of one set of weights, or one.
  static int64_t Rows(const Job &job, int64_t sets, int64_t alive) {
    return sets == 1 ? alive * job.D : alive;
  }

  int64_t count;

 private:
  int64_t panels_, rows_, blocks_;
};

inline Place PlaceOf(const Job &job, int64_t sets, int64_t set, int64_t row) {
  if (sets > 1) return {row, set, row * job.D + set};
  const uint32_t b = static_cast<uint32_t>(row) / static_cast<uint32_t>(job.D);  // 64 bits are slow
  return {b, row - b * job.D, row};
}

// Rows [B, D, numbers] of the left side of products.
template <class Store>
struct Rows {
  using Number = typename Store::Number;
  int64_t stride = 0;  // numbers of a row
  Buffer<uint32_t> words;

  Rows() = default;
  Rows(const Job &job, int64_t numbers)
      : stride((numbers + Store::kPerWord - 1) / Store::kPerWord * Store::kPerWord),
        words(job.B * job.D * stride / Store::kPerWord) {}
  Number *at(int64_t row) const { return reinterpret_cast<Number *>(words.get()) + row * stride; }
};

// The products of a tile; rows from `alive` sequences on are zeros.
template <class Store>
void MultiplyTile(const Job &job, const Tile &tile, const Rows<Store> &rows,
                  const Packed<Store> &matrix, int64_t alive, Vec *sums) {
  const int64_t sets = matrix.sets(), left = Tiles::Rows(job, sets, alive) - tile.first_row;
  const int64_t live = left < 0 ? 0 : left < tile.rows ? left : tile.rows;
  const int64_t words = rows.stride / Store::kPerWord;
  const int64_t first = PlaceOf(job, sets, tile.set, tile.first_row).row;
  if (live > 0) {
    Multiply(rows.words.get() + first * words, (sets == 1 ? 1 : job.D) * words,
             static_cast<int>(live), matrix, matrix.panel(tile.set, tile.panel), sums);
  }
  for (int64_t i = live * matrix.vectors(); i < tile.rows * matrix.vectors(); ++i) sums[i] = Vec{};
}

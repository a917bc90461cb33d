// Products of many frames.  Included once by each path.
//
// The right side is packed into panels, in parts of the sum that leave a panel in the cache.  Some
// blocks of rows, which stay there too, meet all panels of a stripe before the next ones come.

template <class Store>
class Dense {
 public:
  // The part of the sum from `first` on, of at most kPart words, added to those before it.
  Dense(const Product &product, int64_t first)
      : product_(product),
        first_(first),
        right_(SourceOf(product, first), 1),
        blocks_((product.rows + kRows - 1) / kRows),
        stripes_(std::min(right_.panels(), 1 + kShares * product.threads / Groups())),
        team_(static_cast<int>(product.threads)) {}

  static void Run(const Product &product) {
    int64_t first = 0;
    do {
      Dense part(product, first);
      part.team_.Run(part);
      first += PartOf(product);
    } while (first < product.inner);
  }

  // The share of one thread; who is slower takes less of the tiles.
  void operator()(int thread, int threads) {
    right_.Fill(thread, threads);
    team_.Meet();
    for (int64_t i; (i = next_.fetch_add(1, std::memory_order_relaxed)) < Groups() * stripes_;) {
      const int64_t group = i / stripes_ * kGroup, stripe = i % stripes_;
      for (int64_t p = right_.panels() * stripe / stripes_;
           p < right_.panels() * (stripe + 1) / stripes_; ++p) {
        for (int64_t b = group; b < std::min(group + kGroup, blocks_); ++b) Block(b, p);
      }
    }
  }

 private:
  static constexpr int64_t kPart = 1152;  // words: panels of up to 144 KiB
  static constexpr int64_t kGroup = 4;    // blocks of rows
  static constexpr int64_t kShares = 8;   // of work for each thread, at least

  int64_t Groups() const { return (blocks_ + kGroup - 1) / kGroup; }

  // Numbers of a part: all where sums cannot be kept in the result.
  static int64_t PartOf(const Product &product) {
    if (product.result_storage == kBfloat16) return product.inner;
    const int64_t parts = product.inner / Store::kPerWord / kPart + 1;
    const int64_t words = (product.inner / parts + Store::kPerWord) / Store::kPerWord;
    return words * Store::kPerWord;
  }

  static Source SourceOf(const Product &product, int64_t first) {
    const char *right = static_cast<const char *>(product.right);
    return {right + first * product.right_row * BytesOf(product.right_storage),
            product.right_storage,
            std::min(PartOf(product), product.inner - first),
            1,
            product.columns,
            product.right_row,
            0,
            product.right_column,
            0};
  }

  void Block(int64_t block, int64_t p) const {
    constexpr int64_t bytes = sizeof(typename Store::Number);
    const int64_t row = product_.rows * block / blocks_;
    const int count = static_cast<int>(product_.rows * (block + 1) / blocks_ - row);
    const int64_t stride = product_.inner * bytes, words = right_.K() / Store::kPerWord;
    const char *left = static_cast<const char *>(product_.left) + row * stride + first_ * bytes;
    const uint32_t *panel = right_.panel(0, p);
    Vec sums[kRows * kPair];
    Multiply(left, stride, words, count, right_, panel, sums);
    if (words < right_.words()) {
      AddLast(left + words * sizeof(uint32_t), stride, count, panel + words * kPair * LANES, sums);
    }
    for (int r = 0; r < count; ++r) {
      for (int v = 0; v < kPair; ++v) {
        Put(row + r, p * right_.units() + v * LANES, sums[r * kPair + v]);
      }
    }
  }

  // The last number of an odd sum, which has no pair.
  static void AddLast(const char *left, int64_t stride, int count, const uint32_t *panel,
                      Vec *sums) {
    for (int r = 0; r < count; ++r) {
      uint32_t a = 0;
      __builtin_memcpy(&a, left + r * stride, sizeof(typename Store::Number));
      for (int v = 0; v < kPair; ++v) {
        Word column;
        __builtin_memcpy(&column, panel + v * LANES, sizeof column);
        sums[r * kPair + v] = Store::MultiplyAdd(a, column, sums[r * kPair + v]);
      }
    }
  }

  INLINE void Put(int64_t row, int64_t column, Vec sum) const {
    const int64_t at = row * product_.columns + column, left = product_.columns - column;
    if (left <= 0) return;
    if (first_ > 0) {
      sum += Float32::Load(static_cast<const float *>(product_.result) + at, left);
    } else if (product_.bias) {
      sum += Float32::Load(product_.bias + column, left);
    }
    if (product_.result_storage == kBfloat16) {
      Bfloat16::Store(static_cast<uint16_t *>(product_.result) + at, sum, left);
    } else {
      Float32::Store(static_cast<float *>(product_.result) + at, sum, left);
    }
  }

  const Product &product_;
  const int64_t first_;
  Packed<Store> right_;
  const int64_t blocks_, stripes_;
  std::atomic<int64_t> next_{0};
  Team team_;
};

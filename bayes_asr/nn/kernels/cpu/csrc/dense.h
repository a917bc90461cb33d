// Products of many frames.
//
// The right side is packed into panels, in parts of the sum that leave a panel in the cache.  A few
// blocks of rows, which stay there too, meet all panels of a stripe before the next ones come.  A
// left side that is stored by columns, as in a sum over frames, or that tiles are to read, is
// packed block by block.

#pragma once

#include "multiplier.h"

namespace {

template <class Store>
class Dense {
 public:
  static void Run(const Product &product) {
    int64_t first = 0;
    do {
      Dense part(product, first);
      part.team_.Run(part);
      first += PartOf(product);
    } while (first < product.inner);
  }

  // The share of one thread; who is slower takes less of the work.
  void operator()(int thread, int threads) {
    const typename Multiplier<Store>::InUse in_use;
    right_.Fill(thread, threads);
    team_.Meet();
    uint32_t *packed = packed_.get() + thread * PackedWords();
    for (int64_t i; (i = next_.fetch_add(1, std::memory_order_relaxed)) < Groups() * stripes_;) {
      const int64_t group = i / stripes_ * kGroup, stripe = i % stripes_;
      const int64_t behind = std::min(group + kGroup, blocks_);
      if (Packs() && right_.K()) Pack(group, behind, packed);
      for (int64_t p = right_.panels() * stripe / stripes_;
           p < right_.panels() * (stripe + 1) / stripes_; ++p) {
        for (int64_t b = group; b < behind; ++b) {
          Block(b, p, packed + (b - group) * packed_block_);
        }
      }
    }
  }

 private:
  using Number = typename Store::Number;
  static constexpr bool kAmx = Multiplier<Store>::kAmx;
  static constexpr int64_t kRows = Multiplier<Store>::kDenseRows;
  static constexpr int64_t kPart = 1728;  // words: panels of up to 216 KiB
  // Blocks, which share what they read of the right side; of tiles three cache lines of a column.
  static constexpr int64_t kGroup = kAmx ? 3 : 8;
  // Of the work for each thread, where there are as many panels; a left side that is packed is so
  // anew for each, so that it has fewer.
  static constexpr int64_t kShares = 16, kSharesToPack = 4;
  // Words; rows of an odd number of lines meet in many sets of the cache.
  static constexpr int64_t kLine = 16;

  // The part of the sum from `first` on, added to those before it.
  Dense(const Product &product, int64_t first)
      : product_(product),
        first_(first),
        right_(SourceOf(product, first), 1, Multiplier<Store>::kWords),
        blocks_((product.rows + kRows - 1) / kRows),
        stripes_(std::min(right_.panels(), 1 + (Packs() ? kSharesToPack : kShares) *
                                                   product.threads /
                                                   std::max<int64_t>(Groups(), 1))),
        packed_row_(kAmx ? (right_.words() / kLine | 1) * kLine : 1),
        packed_word_(kAmx ? 1 : kRows),
        packed_block_(PackedBlock(kRows * (kAmx ? packed_row_ : right_.words()))),
        packed_(Packs() ? product.threads * PackedWords() : 0, kUnset),
        team_(static_cast<int>(product.threads)) {}

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

  bool ByColumns() const { return product_.left_column != 1; }
  bool Packs() const { return kAmx || ByColumns(); }
  int64_t Groups() const { return (blocks_ + kGroup - 1) / kGroup; }
  int64_t FirstOf(int64_t block) const { return product_.rows * block / blocks_; }
  const Number *LeftAt(int64_t row, int64_t k) const {
    return static_cast<const Number *>(product_.left) + row * product_.left_row +
           (first_ + k) * product_.left_column;
  }

  // Lines of cache; stores of vectors go one beyond the rows of a block.
  static int64_t PackedBlock(int64_t words) { return (words + LANES + kLine - 1) / kLine * kLine; }
  int64_t PackedWords() const { return kGroup * packed_block_; }

  // The blocks of a group, each of words [words, kRows], for AMX [kRows, packed_row_].
  void Pack(int64_t group, int64_t behind, uint32_t *to) const {
    if constexpr (kAmx) {
      for (int64_t b = group; b < behind; ++b, to += packed_block_) {
        if (ByColumns()) {
          PackColumns(b, to);
        } else {
          PackRows(b, to);
        }
      }
    } else {
      for (int64_t k = 0; k < right_.K(); k += Store::kPerWord, to += kRows) {
        for (int64_t b = group; b < behind; ++b) {
          for (int64_t r = 0; r < kRows; r += LANES) {
            StoreSome(to + (b - group) * packed_block_ + r, WordOf(FirstOf(b) + r, k), LANES);
          }
        }
      }
    }
  }

  void PackRows(int64_t block, uint32_t *to) const {
    const int64_t filled = right_.K() * sizeof(Number), all = right_.words() * sizeof(uint32_t);
    for (int64_t row = FirstOf(block); row < FirstOf(block + 1); ++row, to += packed_row_) {
      std::memcpy(to, LeftAt(row, 0), filled);
      std::memset(reinterpret_cast<char *>(to) + filled, 0, all - filled);
    }
  }

  void PackColumns(int64_t block, uint32_t *to) const {
    const int64_t first = FirstOf(block);
    for (int64_t word = 0; word < right_.words(); word += LANES) {
      for (int64_t r = 0; r < kRows; r += LANES) {
        Word square[LANES];
        for (int i = 0; i < LANES; ++i) {
          square[i] = WordOf(first + r, (word + i) * Store::kPerWord);
        }
        Transpose(square);
        for (int i = 0; i < LANES; ++i) {
          StoreSome(to + (r + i) * packed_row_ + word, square[i], LANES);
        }
      }
    }
  }

  // The word of number k of a vector of rows; what lies outside is zeros.
  INLINE Word WordOf(int64_t row, int64_t k) const {
    constexpr int64_t kAhead = 32;
    typename Store::Numbers numbers[Store::kPerWord] = {};
    for (int i = 0; i < Store::kPerWord && k + i < right_.K(); ++i) {
      const Number *from = LeftAt(row, k + i);
      __builtin_prefetch(from + kAhead * product_.left_column);
      numbers[i] = LoadSome<typename Store::Numbers>(from, product_.rows - row);
    }
    return Store::Joined(numbers);
  }

  void Block(int64_t block, int64_t p, const uint32_t *packed) const {
    constexpr int64_t word = sizeof(uint32_t);
    const int64_t row = FirstOf(block);
    const int rows = static_cast<int>(FirstOf(block + 1) - row);
    const Left left =
        Packs() ? Left{reinterpret_cast<const char *>(packed), packed_row_ * word,
                       packed_word_ * word, right_.words(), rows}
                    : Left{reinterpret_cast<const char *>(LeftAt(row, 0)),
                           product_.left_row * static_cast<int64_t>(sizeof(Number)), word,
                           right_.K() / Store::kPerWord, rows};
    Vec sums[kRows * kPair];
    Multiplier<Store>::Multiply(left, right_, 0, p, sums);
    if (left.words < right_.words()) AddLast(left, right_.panel(0, p), sums);
    for (int r = 0; r < rows; ++r) {
      for (int v = 0; v < kPair; ++v) {
        Put(row + r, p * right_.units() + v * LANES, sums[r * kPair + v]);
      }
    }
  }

  // The last number of an odd sum, which has no pair.
  static void AddLast(const Left &left, const uint32_t *panel, Vec *sums) {
    for (int r = 0; r < left.rows; ++r) {
      uint32_t a = 0;
      __builtin_memcpy(&a, left.first + r * left.row + left.words * left.word, sizeof(Number));
      for (int v = 0; v < kPair; ++v) {
        Word column;
        __builtin_memcpy(&column, panel + (left.words * kPair + v) * LANES, sizeof column);
        sums[r * kPair + v] = Store::AddProduct(a, column, sums[r * kPair + v]);
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
  const int64_t packed_row_, packed_word_, packed_block_;  // words from one to the next
  Buffer<uint32_t> packed_;                                // [threads, PackedWords()]
  std::atomic<int64_t> next_{0};
  Team team_;
};

}  // namespace

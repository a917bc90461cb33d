// Products of some rows and a matrix that was packed into panels.
//
// A panel has a few vectors of columns, ordered as the cell wants to find their sums: all gates of
// LANES units side by side, or two vectors of units where there is one gate.  Its words lie in the
// order in which the product reads them, vectors in pairs.

#pragma once

#include "vector.h"

namespace {

constexpr int kRows = ROWS;       // of a product of vectors, at most
constexpr int kTile = kMaxGates;  // vectors of a panel, at most
constexpr int kPair = 2;          // vectors that are read at a time
constexpr int kNear = 4;          // rows that one pointer reaches
constexpr int kAhead = 1024;      // words: a page, behind whose end the machine foresees nothing

// A matrix of K rows: element (k, unit of gate g) is `k * row + g * gate + unit * column` numbers
// behind the first, plus `set` for the weights of another direction.
// The numbers are float32 or those of the product.  column is 1, or row is where they are float32,
// unless there is one row or unit.
struct Source {
  const void *first;
  int64_t storage, K, gates, units, row, gate, column, set;
};

template <class Store>
class Packed {
 public:
  // at_once: words that a product takes together; zeros fill up the last of them.
  Packed(const Source &source, int64_t sets, int64_t at_once = 1) : source_(source), sets_(sets) {
    vectors_ = (static_cast<int>(source.gates) + kPair - 1) / kPair * kPair;
    panels_ = (source.units + units() - 1) / units();
    const int64_t numbers = Store::kPerWord * at_once;
    words_ = (source.K + numbers - 1) / numbers * at_once;
    data_ = Buffer<uint32_t>(sets * panels_ * vectors_ * words_ * LANES, kUnset);
  }

  int64_t sets() const { return sets_; }
  int64_t K() const { return source_.K; }
  int64_t panels() const { return panels_; }
  int64_t words() const { return words_; }
  int vectors() const { return vectors_; }
  int gates() const { return static_cast<int>(source_.gates); }
  int64_t units() const { return vectors_ / source_.gates * LANES; }  // of a panel
  // Whether the second vector of a pair is zeros.
  bool is_half(int64_t p) const {
    return source_.gates == 1 && source_.units - p * units() <= LANES;
  }
  uint32_t *panel(int64_t set, int64_t p) const {
    return data_.get() + (set * panels_ + p) * vectors_ * words_ * LANES;
  }

  // Fill the share of one thread.
  void Fill(int thread, int threads) {
    const int64_t all = source_.K ? sets_ * panels_ : 0;
    for (int64_t i = all * thread / threads; i < all * (thread + 1) / threads; ++i) {
      FillPanel(i / panels_, i % panels_);
    }
  }

 private:
  // The units of one vector of a panel.
  struct Units {
    const char *first;  // of these units, in the first row
    int64_t count;      // LANES or less; others are zeros
  };

  void FillPanel(int64_t set, int64_t p) {
    uint32_t *to = panel(set, p);
    for (int first = 0; first < vectors_; first += kPair, to += kPair * words_ * LANES) {
      Units pair[kPair];
      for (int v = 0; v < kPair; ++v) pair[v] = UnitsOf(set, p, first + v);
      if (source_.storage != kFloat32) {
        ByRows<typename Store::Numbers>(pair, to);
      } else if (source_.column == 1) {
        ByRows<Vec>(pair, to);
      } else {
        for (int v = 0; v < kPair; ++v) ByColumns(pair[v], to + v * LANES);
      }
    }
  }

  Units UnitsOf(int64_t set, int64_t p, int v) const {
    const int64_t gate = v % source_.gates, unit = p * units() + v / source_.gates * LANES;
    const int64_t number = set * source_.set + gate * source_.gate + unit * source_.column;
    return {static_cast<const char *>(source_.first) + number * BytesOf(source_.storage),
            std::clamp<int64_t>(source_.units - unit, 0, LANES)};
  }

  // The words of units that follow one another in memory, those of a row as in Row.
  template <class Row>
  void ByRows(const Units *pair, uint32_t *to) const {
    using Number = typename std::remove_reference<decltype(Row{}[0])>::type;
    constexpr int64_t kRowsAhead = 16;  // further than what the machine foresees
    for (int64_t k = 0; k < words_ * Store::kPerWord; k += Store::kPerWord) {
      for (int v = 0; v < kPair; ++v, to += LANES) {
        const Number *from = reinterpret_cast<const Number *>(pair[v].first) + k * source_.row;
        Row rows[Store::kPerWord] = {};
        for (int i = 0; i < Store::kPerWord; ++i, from += source_.row) {
          if (k + i < source_.K) rows[i] = LoadSome<Row>(from, pair[v].count);
          __builtin_prefetch(from + kRowsAhead * source_.row);
          __builtin_prefetch(from + kRowsAhead * source_.row + LANES - 1);
        }
        const Word words = Store::Joined(rows);
        __builtin_memcpy(to, &words, sizeof words);
      }
    }
  }

  // The words of units of which each has its numbers one after the other: vectors of each are read
  // and transposed, and the next units fetched in the order in which they lie without gaps.
  void ByColumns(const Units &some, uint32_t *to) const {
    constexpr int64_t kBlock = LANES * Store::kPerWord;
    const float *from = reinterpret_cast<const float *>(some.first);
    const float *ahead = from + LANES * source_.column;
    int64_t k = 0;
    for (; k + kBlock <= source_.K && some.count == LANES; k += kBlock) {
      Word square[LANES];
#pragma GCC unroll 16
      for (int unit = 0; unit < LANES; ++unit, ahead += kBlock) {
        square[unit] = Store::Consecutive(from + unit * source_.column + k);
        __builtin_prefetch(ahead);
        __builtin_prefetch(ahead + kBlock - 1);
      }
      Transpose(square);
#pragma GCC unroll 16
      for (int i = 0; i < LANES; ++i, to += kPair * LANES) {
        __builtin_memcpy(to, &square[i], sizeof square[i]);
      }
    }
    for (; k < words_ * Store::kPerWord; k += Store::kPerWord, to += kPair * LANES) {
      Vec rows[Store::kPerWord] = {};
      for (int i = 0; i < Store::kPerWord && k + i < source_.K; ++i) {
        for (int64_t unit = 0; unit < some.count; ++unit) {
          rows[i][unit] = from[unit * source_.column + k + i];
        }
      }
      const Word words = Store::Joined(rows);
      __builtin_memcpy(to, &words, sizeof words);
    }
  }

  Source source_;
  int64_t sets_, panels_, words_;
  int vectors_;
  Buffer<uint32_t> data_;
};

// The left side of a product: some rows of whole words.
struct Left {
  const char *first;
  int64_t row, word;  // bytes from one to the next
  int64_t words;
  int rows;
};

// sums[r][c] = sum over k of word k of row r times those of the first C of a pair of vectors; 0 for
// the others.
template <class Store, int R, int C>
void MultiplyRows(const Left &left, const uint32_t *panel, Vec *sums, int sums_stride) {
  Vec sum[R][kPair] = {};
  const int64_t row = left.row, word = left.word;
  // A pointer for a few rows each: one for all wants more registers than there are.
  constexpr int kPointers = (R + kNear - 1) / kNear;
  const char *some[kPointers];
  for (int i = 0; i < kPointers; ++i) some[i] = left.first + i * kNear * row;
  for (int64_t k = 0; k < left.words; ++k, panel += kPair * LANES) {
    Word columns[C];
#pragma GCC unroll 2
    for (int c = 0; c < C; ++c) {
      __builtin_memcpy(&columns[c], panel + c * LANES, sizeof(Word));
      __builtin_prefetch(panel + c * LANES + kAhead);
    }
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      uint32_t a;
      __builtin_memcpy(&a, some[r / kNear] + r % kNear * row, sizeof a);  // it may be a float
#pragma GCC unroll 2
      for (int c = 0; c < C; ++c) sum[r][c] = Store::AddProduct(a, columns[c], sum[r][c]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < kPointers; ++i) {
      some[i] += word;
      asm("" : "+r"(some[i]));  // or GCC makes them one
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
    for (int c = 0; c < kPair; ++c) sums[r * sums_stride + c] = sum[r][c];
  }
}

using RowsProduct = void (*)(const Left &, const uint32_t *, Vec *, int);

template <class Store, int C, int... R>
inline RowsProduct ChooseRows(int rows, std::integer_sequence<int, R...>) {
  static constexpr RowsProduct kOf[] = {MultiplyRows<Store, R + 1, C>...};
  return kOf[rows - 1];
}

// sums[r][v] for all vectors of a panel.
template <class Store>
void Multiply(const Left &left, const Packed<Store> &matrix, int64_t set, int64_t p, Vec *sums) {
  constexpr std::make_integer_sequence<int, kRows> kNumbers{};
  const int vectors = matrix.vectors();
  const RowsProduct product = matrix.is_half(p) ? ChooseRows<Store, 1>(left.rows, kNumbers)
                                                : ChooseRows<Store, kPair>(left.rows, kNumbers);
  const uint32_t *panel = matrix.panel(set, p);
  for (int v = 0; v < vectors; v += kPair, panel += kPair * LANES * matrix.words()) {
    product(left, panel, sums + v, vectors);
  }
}

}  // namespace

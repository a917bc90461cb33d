// Products of some rows and a matrix that was packed into panels.  Included once by each path.
//
// A panel has a few vectors of columns, ordered as the cell wants to find their sums: all gates of
// LANES units side by side, or two vectors of units where there is one gate.  Its words lie in the
// order in which the product reads them, vectors in pairs.

constexpr int kTile = kMaxGates;  // vectors of a panel, at most
constexpr int kPair = 2;          // vectors that are read at a time

// A matrix of K rows: element (k, unit of gate g) is `k * row + g * gate + unit * column` numbers
// behind the first, plus `set` for the weights of another direction.  gates: 1, 2 or 4, so that a
// panel has whole pairs.
// The numbers are float32 or those of the product.
struct Source {
  const void *first;
  int64_t storage, K, gates, units, row, gate, column, set;
};

template <class Store>
class Packed {
 public:
  Packed(const Source &source, int64_t sets) : source_(source), sets_(sets) {
    vectors_ = source.gates == 1 ? kPair : source.gates;
    const int64_t a_panel = LANES * vectors_ / source.gates;
    panels_ = (source.units + a_panel - 1) / a_panel;
    words_ = (source.K + Store::kPerWord - 1) / Store::kPerWord;
    data_ = Buffer<uint32_t>(sets * panels_ * vectors_ * words_ * LANES, kUnset);
  }

  int64_t sets() const { return sets_; }
  int64_t K() const { return source_.K; }
  int64_t panels() const { return panels_; }
  int64_t words() const { return words_; }
  int vectors() const { return vectors_; }
  int gates() const { return static_cast<int>(source_.gates); }
  int64_t units() const { return LANES * vectors_ / source_.gates; }  // of a panel
  const uint32_t *panel(int64_t set, int64_t p) const {
    return data_.get() + (set * panels_ + p) * vectors_ * words_ * LANES;
  }

  // Fill the share of one thread.
  void Fill(int thread, int threads) {
    const int64_t all = sets_ * panels_;
    for (int64_t i = all * thread / threads; i < all * (thread + 1) / threads; ++i) {
      FillPanel(i / panels_, i % panels_);
    }
  }

 private:
  void FillPanel(int64_t set, int64_t p) {
    uint32_t *to = const_cast<uint32_t *>(panel(set, p));
    for (int pair = 0; pair < vectors_; pair += kPair) {
      for (int64_t k = 0; k < words_ * Store::kPerWord; k += Store::kPerWord) {
        for (int v = pair; v < pair + kPair; ++v, to += LANES) {
          const int64_t gate = v % source_.gates, unit = p * units() + v / source_.gates * LANES;
          const Word words = source_.storage == kFloat32
                                 ? Words<Vec>(set, gate, unit, k)
                                 : Words<typename Store::Numbers>(set, gate, unit, k);
          __builtin_memcpy(to, &words, sizeof words);
        }
      }
    }
  }

  const char *At(int64_t set, int64_t gate, int64_t unit, int64_t k) const {
    const int64_t number = set * source_.set + gate * source_.gate + unit * source_.column +
                           k * source_.row;
    return static_cast<const char *>(source_.first) + number * BytesOf(source_.storage);
  }

  // Of LANES units the numbers of a word, which lie in memory as in Row.
  template <class Row>
  INLINE Word Words(int64_t set, int64_t gate, int64_t unit, int64_t k) const {
    Row rows[Store::kPerWord];
#pragma GCC unroll 2
    for (int i = 0; i < Store::kPerWord; ++i) {
      rows[i] = LanesOf<Row>(set, gate, unit, k + i);
      Prefetch(set, gate, unit, k + i);
    }
    return Store::Joined(rows);
  }

  // LANES units of a row, zeros outside of the matrix.
  template <class Row>
  INLINE Row LanesOf(int64_t set, int64_t gate, int64_t unit, int64_t k) const {
    using Number = typename std::remove_reference<decltype(Row{}[0])>::type;
    const int64_t left = k < source_.K ? source_.units - unit : 0;
    const Number *from = reinterpret_cast<const Number *>(At(set, gate, unit, k));
    if (source_.column == 1) return LoadSome<Row>(from, left);
    Row units{};
    if (left < LANES) {
      for (int lane = 0; lane < left; ++lane) units[lane] = from[lane * source_.column];
    } else {
#pragma GCC unroll 16
      for (int lane = 0; lane < LANES; ++lane) units[lane] = from[lane * source_.column];
    }
    return units;
  }

  // What follows in the memory of the source is too far away to be foreseen by the machine: a
  // later row, or the units of the next panel, of which a cache line holds LANES rows or more.
  INLINE void Prefetch(int64_t set, int64_t gate, int64_t unit, int64_t k) const {
    constexpr int64_t kRowsAhead = 16;
    if (source_.column == 1) {
      const char *from = At(set, gate, unit, k + kRowsAhead);
      __builtin_prefetch(from);
      __builtin_prefetch(from + LANES * BytesOf(source_.storage) - 1);
    } else if (k % LANES == 0) {
      for (int64_t i = 0; i < LANES; ++i) __builtin_prefetch(At(set, gate, unit + units() + i, k));
    }
  }

  Source source_;
  int64_t sets_, panels_, words_;
  int vectors_;
  Buffer<uint32_t> data_;
};

// The left side of a product: some rows, at most kRows, of whole words.
struct Left {
  const char *first;
  int64_t row, word;  // bytes from one to the next
  int64_t words;
  int rows;
};

// sums[r][c] = sum over k of word k of row r times those of a pair of vectors.
template <class Store, int R>
void MultiplyRows(const Left &left, const uint32_t *panel, Vec *sums, int sums_stride) {
  Vec sum[R][kPair] = {};
  const char *rows = left.first;
  const int64_t row = left.row, word = left.word;
  for (int64_t k = 0; k < left.words; ++k, rows += word, panel += kPair * LANES) {
    Word columns[kPair];
#pragma GCC unroll 2
    for (int c = 0; c < kPair; ++c) __builtin_memcpy(&columns[c], panel + c * LANES, sizeof(Word));
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      uint32_t a;
      __builtin_memcpy(&a, rows + r * row, sizeof a);  // it may be a float
#pragma GCC unroll 2
      for (int c = 0; c < kPair; ++c) sum[r][c] = Store::MultiplyAdd(a, columns[c], sum[r][c]);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
    for (int c = 0; c < kPair; ++c) sums[r * sums_stride + c] = sum[r][c];
  }
}

using RowsProduct = void (*)(const Left &, const uint32_t *, Vec *, int);

template <class Store, int... R>
inline RowsProduct ChooseRows(int rows, std::integer_sequence<int, R...>) {
  static constexpr RowsProduct kOf[] = {MultiplyRows<Store, R + 1>...};
  return kOf[rows - 1];
}

// sums[r][v] for all vectors of a panel.
template <class Store>
void Multiply(const Left &left, const Packed<Store> &matrix, const uint32_t *panel, Vec *sums) {
  using Numbers = std::make_integer_sequence<int, kRows>;
  const int vectors = matrix.vectors();
  const RowsProduct product = ChooseRows<Store>(left.rows, Numbers{});
  for (int v = 0; v < vectors; v += kPair, panel += kPair * LANES * matrix.words()) {
    product(left, panel, sums + v, vectors);
  }
}

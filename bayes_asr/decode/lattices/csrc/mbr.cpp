// Expected errors of a hypothesis, the twin of mbr.py: expected_errors; same steps, in sums up to
// their order.

#include "mbr.h"

#include <algorithm>
#include <vector>

#include "../../../base/csrc/guarded.h"

namespace {

const double kDelta = 1.0e-5f;  // for a word against nothing: a substitution wins ties
enum Choice : char { kMatch = 1, kPass = 2, kSkip = 3 };

// Rows [length + 1] of a hypothesis: one of each node, one of each arc.
class ErrorSums {
 public:
  ErrorSums(const TableView &table, const int64_t *hypothesis, int64_t length, double *occupancy,
            double *begin, double *end)
      : table_(table), hypothesis_(hypothesis), width_(length + 1), occupancy_(occupancy),
        begin_(begin), end_(end), row_(width_), total_(width_ + 1),
        choice_(table.num_arcs * width_), alpha_(table.num_nodes * width_, 0) {}

  double Forward() {
    for (int64_t q = 1; q < width_; ++q) alpha_[q] = alpha_[q - 1] + (hypothesis_[q - 1] > 0);
    for (int64_t arc = 0; arc < table_.num_arcs; ++arc) {
      EditRow(arc);
      double *target = &alpha_[table_.target[arc] * width_];
      for (int64_t q = 0; q < width_; ++q) target[q] += table_.posterior[arc] * row_[q];
    }
    return alpha_.back();
  }

  // Derivatives of the risk, which tell how often each word stands at each position.
  void Backward() {
    beta_.swap(alpha_);
    std::fill(beta_.begin(), beta_.end(), 0);
    beta_.back() = 1;
    for (int64_t layer = table_.num_layers; layer-- > 0;)
      for (int64_t arc = table_.bounds[layer]; arc < table_.bounds[layer + 1]; ++arc) PassBack(arc);
    std::copy_n(beta_.begin(), width_, row_.begin());
    const std::vector<char> skips(width_, kSkip);
    CarryBack(skips.data());
    for (int64_t q = 0; q < width_; ++q) occupancy_[q] += row_[q];
  }

 private:
  // The expected errors of an arc up to each position, and the choices made there.
  void EditRow(int64_t arc) {
    const double *costs = &alpha_[table_.source[arc] * width_];
    char *choice = &choice_[arc * width_];
    const int32_t word = table_.word[arc];
    const double passing = word > 0 ? 1.0 + kDelta : 0;
    row_[0] = costs[0] + passing;
    choice[0] = kPass;
    for (int64_t q = 1; q < width_; ++q) {
      const int64_t here = hypothesis_[q - 1];
      const double match = costs[q - 1] + (word != here), pass = costs[q] + passing;
      const double skip = row_[q - 1] + (here > 0), least = std::min(match, pass);
      choice[q] = least > skip ? kSkip : match <= pass ? kMatch : kPass;
      row_[q] = std::min(least, skip);
    }
  }

  void PassBack(int64_t arc) {
    const double *after = &beta_[table_.target[arc] * width_];
    double *before = &beta_[table_.source[arc] * width_];
    const char *choice = &choice_[arc * width_];
    const int64_t word = table_.word[arc] * width_;
    const double from = table_.begin[arc], to = table_.end[arc];
    for (int64_t q = 0; q < width_; ++q) row_[q] = table_.posterior[arc] * after[q];
    CarryBack(choice);
    for (int64_t q = 0; q < width_; ++q) {
      const int64_t at = choice[q] == kMatch ? word + q : q;
      if (choice[q] == kPass) {
        before[q] += row_[q];
        continue;
      }
      if (choice[q] == kMatch) before[q - 1] += row_[q];
      occupancy_[at] += row_[q];
      begin_[at] += row_[q] * (choice[q] == kMatch ? from : to);
      end_[at] += row_[q] * to;
    }
  }

  // Adds to each position of row_ what comes from the next one, as long as that one skips.
  void CarryBack(const char *choice) {
    total_[width_] = 0;
    for (int64_t q = width_; q-- > 0;)
      total_[q] = q + 1 < width_ ? total_[q + 1] + row_[q] : row_[q];
    int64_t following = width_;
    for (int64_t q = width_; q-- > 0;) {
      row_[q] = std::max(total_[q] - total_[following], 0.0);
      if (choice[q] != kSkip) following = q;
    }
  }

  const TableView &table_;
  const int64_t *hypothesis_;
  const int64_t width_;
  double *occupancy_, *begin_, *end_;
  std::vector<double> row_, total_;
  std::vector<char> choice_;
  std::vector<double> alpha_, beta_;
};

}  // namespace

extern "C" {

// hypothesis [length]: indices of words.  Writes the risk, and adds to zeros [words, length + 1] how
// often each word stands at each position, and the sums of the times at which it begins and ends.
// Returns 0, or -1 if memory is short.
int32_t lattices_expected_errors(const TableView *table, const int64_t *hypothesis, int64_t length,
                                 double *risk, double *occupancy, double *begin, double *end) {
  return Guarded<int32_t>(-1, [&] {
    ErrorSums sums(*table, hypothesis, length, occupancy, begin, end);
    *risk = sums.Forward();
    sums.Backward();
    return 0;
  });
}

}  // extern "C"

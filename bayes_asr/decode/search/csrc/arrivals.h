// The tokens that arrive at a frame.

#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace search {

constexpr int32_t kBuckets = 1000;

// The states of a growing frame, and the order in which Kaldi's hash list would hold them: buckets
// by first use, within a bucket by insertion.
class Arrivals {
 public:
  explicit Arrivals(int32_t num_states) : place_(num_states, -1) { Resize(kBuckets); }

  void Resize(size_t buckets) {
    if (buckets > last_.size()) last_.resize(buckets, -1);
  }

  const std::vector<int32_t> &states() const { return states_; }

  void Clear() {
    for (int32_t state : states_) {
      place_[state] = -1;
      last_[Bucket(state)] = -1;
    }
    states_.clear();
  }

  int32_t Find(int32_t state) const { return place_[state]; }

  int32_t Add(int32_t state) {
    const int32_t token = static_cast<int32_t>(states_.size());
    states_.push_back(state);
    place_[state] = token;
    int32_t &last = last_[Bucket(state)];
    if (token == 0) {
      next_.clear();
      head_ = tail_ = token;
      next_.push_back(-1);
    } else {
      const int32_t before = last < 0 ? tail_ : last;
      next_.push_back(next_[before]);
      next_[before] = token;
      if (before == tail_) tail_ = token;
    }
    last = token;
    return token;
  }

  // The tokens in list order.
  void List(std::vector<int32_t> *order) const {
    order->clear();
    for (int32_t token = states_.empty() ? -1 : head_; token >= 0; token = next_[token])
      order->push_back(token);
  }

 private:
  size_t Bucket(int32_t state) const {
    return static_cast<size_t>(state) < last_.size() ? state : state % last_.size();
  }

  std::vector<int32_t> states_;
  std::vector<int32_t> place_;  // of each graph state: its token, or -1
  std::vector<int32_t> last_;   // of each bucket: the token inserted last, or -1
  std::vector<int32_t> next_;   // of each token: the one after it in the list
  int32_t head_ = -1, tail_ = -1;
};

}  // namespace search

// The tokens that arrive at a frame.

#pragma once

#include "frame.h"

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

  size_t buckets() const { return last_.size(); }

  void Clear(Frame *frame) {
    for (int32_t state : frame->state) {
      place_[state] = -1;
      last_[Bucket(state)] = -1;
    }
  }

  int32_t Find(int32_t state) const { return place_[state]; }

  int32_t Add(Frame *frame, int32_t state, float cost) {
    const int32_t token = static_cast<int32_t>(frame->size());
    frame->state.push_back(state);
    frame->cost.push_back(cost);
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
  void List(size_t count, std::vector<int32_t> *order) const {
    order->clear();
    for (int32_t token = count ? head_ : -1; token >= 0; token = next_[token])
      order->push_back(token);
  }

 private:
  size_t Bucket(int32_t state) const {
    return static_cast<size_t>(state) < last_.size() ? state : state % last_.size();
  }

  std::vector<int32_t> place_;  // of each graph state: its token, or -1
  std::vector<int32_t> last_;   // of each bucket: the token inserted last, or -1
  std::vector<int32_t> next_;   // of each token: the one after it in the list
  int32_t head_ = -1, tail_ = -1;
};

}  // namespace search

// A graph that is composed with a grammar while it is searched: pairs of their states.

#pragma once

#include <algorithm>
#include <limits>

#include "../../../base/csrc/elementary.h"
#include "frame.h"

namespace search {

struct Pair {
  int32_t place;    // in HCL
  int32_t history;  // in G

  uint64_t key() const {
    return static_cast<uint64_t>(static_cast<uint32_t>(place)) << 32 |
           static_cast<uint32_t>(history);
  }
};

inline size_t Scatter(uint64_t key) { return (key * 0x9E3779B97F4A7C15ull) >> 24; }

// The pairs of a growing frame, in the order in which they arrive.
class PairArrivals {
 public:
  PairArrivals() : slots_(kLeast) {}

  void Resize(size_t) {}  // of Kaldi's hash list, whose order nothing asks for here

  const std::vector<Pair> &states() const { return states_; }

  void Clear() {
    states_.clear();
    if (++round_ == 0) slots_.assign(slots_.size(), {});
    round_ = std::max(round_, 1u);
  }

  int32_t Find(Pair state) const {
    const Slot &slot = slots_[Place(state.key())];
    return slot.round == round_ ? slot.token : -1;
  }

  int32_t Add(Pair state) {
    const int32_t token = static_cast<int32_t>(states_.size());
    states_.push_back(state);
    if (2 * states_.size() > slots_.size()) Grow();
    slots_[Place(state.key())] = {state.key(), token, round_};
    return token;
  }

  void List(std::vector<int32_t> *order) const {
    order->resize(states_.size());
    for (size_t token = 0; token < states_.size(); ++token) (*order)[token] = token;
  }

 private:
  static constexpr size_t kLeast = 4096;  // slots, a power of two

  struct Slot {
    uint64_t key = 0;
    int32_t token = 0;
    uint32_t round = 0;  // in which the slot was taken; only those of this round count
  };

  // Where a key is, or where it would be put.
  size_t Place(uint64_t key) const {
    const size_t mask = slots_.size() - 1;
    size_t place = Scatter(key) & mask;
    while (slots_[place].round == round_ && slots_[place].key != key) place = (place + 1) & mask;
    return place;
  }

  void Grow() {
    slots_.assign(2 * slots_.size(), {});
    for (size_t token = 0; token + 1 < states_.size(); ++token) {
      const uint64_t key = states_[token].key();
      slots_[Place(key)] = {key, static_cast<int32_t>(token), round_};
    }
  }

  std::vector<Pair> states_;
  std::vector<Slot> slots_;
  uint32_t round_ = 1;
};

class OnTheFly {
 public:
  using State = Pair;
  static constexpr bool kLooksAhead = true;

  OnTheFly(const GraphView &graph, const GrammarView &grammar)
      : graph_(graph), grammar_(grammar), known_(kLeast) {}

  const GraphView &graph() const { return graph_; }
  State start() const { return {graph_.start, grammar_.start}; }
  float Final(State state) const {
    return graph_.final[state.place] + grammar_.final[state.history];
  }
  PairArrivals MakeArrivals() const { return {}; }
  bool HasEpsilons(State state) const {
    return graph_.epsilon.offsets[state.place] < graph_.epsilon.offsets[state.place + 1];
  }

  // What G will add until the next label is read or the path ends: -log of the sum over all that
  // can be; infinite where G has no arc of them.
  float Ahead(State state) {
    const int32_t set = grammar_.set[state.place];
    if (set == grammar_.everything) return grammar_.ahead[state.history];
    const uint64_t key = Pair{set, state.history}.key();
    Known *known = &known_[Place(key)];
    if (known->key != key) {
      if (2 * ++count_ > known_.size()) known = Grow(key);
      *known = {key, Sum(set, state.history)};
    }
    return known->ahead;
  }

  template <class Visit>
  void Emitting(State state, float ahead, Visit visit) {
    Each(graph_.emitting, grammar_.emitting, state, ahead, visit);
  }

  template <class Visit>
  void Epsilons(State state, float ahead, Visit visit) {
    Each(graph_.epsilon, grammar_.epsilon, state, ahead, visit);
  }

 private:
  static constexpr size_t kLeast = 1 << 14, kMost = 1 << 23;  // places, powers of two

  struct Known {
    uint64_t key = ~0ull;
    float ahead = 0;
  };

  // Arcs without label leave G where it is; a label is read by all arcs of G that have it.
  template <class Visit>
  void Each(const ArcsView &arcs, const int32_t *labels, State state, float ahead, Visit visit) {
    const int32_t set = grammar_.set[state.place];
    for (int64_t at = arcs.offsets[state.place]; at < arcs.offsets[state.place + 1]; ++at) {
      const int32_t arc = static_cast<int32_t>(at), label = labels[at];
      Pair next{arcs.nextstate[at], state.history};
      if (label == 0) {
        visit(arc, arcs.weight[at], next, grammar_.set[next.place] == set ? ahead : Ahead(next));
        continue;
      }
      for (int64_t word = Find(label, grammar_.offsets[state.history], state.history);
           word < grammar_.offsets[state.history + 1] && grammar_.label[word] == label; ++word) {
        next.history = grammar_.nextstate[word];
        visit(arc, arcs.weight[at] + grammar_.weight[word], next, Ahead(next));
      }
    }
  }

  // The first arc of a history from `begin` on whose label is not less.
  int64_t Find(int32_t label, int64_t begin, int32_t history) const {
    const int32_t *end = grammar_.label + grammar_.offsets[history + 1];
    return std::lower_bound(grammar_.label + begin, end, label) - grammar_.label;
  }

  float Sum(int32_t set, int32_t history) const {
    const bool ends = grammar_.ends[set] && grammar_.final[history] < kInfinity;
    double chance = ends ? elementary::Exp(-static_cast<double>(grammar_.final[history])) : 0;
    bool any = ends;
    int64_t arc = grammar_.offsets[history];
    const int64_t end = grammar_.offsets[history + 1];
    for (int64_t span = grammar_.spans[set]; span < grammar_.spans[set + 1]; ++span) {
      arc = Find(grammar_.first[span], arc, history);
      if (arc == end) break;
      for (; arc < end && grammar_.label[arc] <= grammar_.last[span]; ++arc) {
        chance += grammar_.chance[arc];
        any = true;
      }
    }
    if (!any) return kInfinity;
    return -elementary::Log(std::max(chance, std::numeric_limits<double>::min()));
  }

  size_t Place(uint64_t key) const {
    const size_t mask = known_.size() - 1;
    size_t place = Scatter(key) & mask;
    while (known_[place].key != key && known_[place].key != ~0ull) place = (place + 1) & mask;
    return place;
  }

  // Makes room, or forgets all when there is enough of it; returns where `key` goes.
  Known *Grow(uint64_t key) {
    const bool forget = known_.size() == kMost;
    std::vector<Known> before(forget ? kLeast : 2 * known_.size());
    before.swap(known_);
    count_ = 1;
    for (const Known &known : before) {
      if (forget || known.key == ~0ull) continue;
      known_[Place(known.key)] = known;
      ++count_;
    }
    return &known_[Place(key)];
  }

  const GraphView &graph_;
  const GrammarView &grammar_;
  std::vector<Known> known_;
  size_t count_ = 0;
};

}  // namespace search

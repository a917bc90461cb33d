// A composed graph whose phrases of hotwords cost less: pairs of its states and those of a phrase.

#pragma once

#include "on_the_fly.h"

namespace search {

class Boosted {
 public:
  using State = Pair;
  static constexpr bool kLooksAhead = false;

  Boosted(const GraphView &graph, const HotwordsView &hotwords)
      : graph_(graph), hotwords_(hotwords) {}

  const GraphView &graph() const { return graph_; }
  State start() const { return {graph_.start, 0}; }
  float Final(State state) const {
    return graph_.final[state.place] + hotwords_.final[state.history];
  }
  float Ahead(State) const { return 0; }
  PairArrivals MakeArrivals() const { return {}; }
  bool HasEpsilons(State state) const {
    return graph_.epsilon.offsets[state.place] < graph_.epsilon.offsets[state.place + 1];
  }

  template <class Visit>
  void Emitting(State state, float, Visit visit) const {
    Each(graph_.emitting, state, visit);
  }

  template <class Visit>
  void Epsilons(State state, float, Visit visit) const {
    Each(graph_.epsilon, state, visit);
  }

 private:
  template <class Visit>
  void Each(const ArcsView &arcs, State state, Visit visit) const {
    for (int64_t arc = arcs.offsets[state.place]; arc < arcs.offsets[state.place + 1]; ++arc) {
      Pair next{arcs.nextstate[arc], state.history};
      float weight = arcs.weight[arc];
      if (const int32_t word = arcs.olabel[arc]; word > 0) {
        const int64_t step =
            static_cast<int64_t>(state.history) * hotwords_.num_classes + hotwords_.word_class[word];
        next.history = hotwords_.nextstate[step];
        weight += hotwords_.weight[step];
      }
      visit(static_cast<int32_t>(arc), weight, next, 0.0f);
    }
  }

  const GraphView &graph_;
  const HotwordsView &hotwords_;
};

}  // namespace search

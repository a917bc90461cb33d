// A graph that has been composed: the states of HCLG.

#pragma once

#include "arrivals.h"
#include "frame.h"

namespace search {

class Composed {
 public:
  using State = int32_t;
  static constexpr bool kLooksAhead = false;

  explicit Composed(const GraphView &graph) : graph_(graph) {}

  const GraphView &graph() const { return graph_; }
  State start() const { return graph_.start; }
  float Final(State state) const { return graph_.final[state]; }
  float Ahead(State) const { return 0; }
  Arrivals MakeArrivals() const { return Arrivals(graph_.num_states); }
  bool HasEpsilons(State state) const {
    return graph_.epsilon.offsets[state] < graph_.epsilon.offsets[state + 1];
  }

  // Calls visit(arc, weight, next state, what is ahead of it) for the arcs of a state.
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
    for (int64_t arc = arcs.offsets[state]; arc < arcs.offsets[state + 1]; ++arc)
      visit(static_cast<int32_t>(arc), arcs.weight[arc], arcs.nextstate[arc], 0.0f);
  }

  const GraphView &graph_;
};

}  // namespace search

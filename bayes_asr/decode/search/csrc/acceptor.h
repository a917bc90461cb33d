// Acceptors: what is determinized.

#pragma once

#include <algorithm>
#include <limits>

#include "lattice.h"

namespace determinize {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr float kNone = std::numeric_limits<float>::infinity();

struct Arc {
  int32_t label;
  int32_t tid;
  float graph;
  float acoustic;
  int32_t next;
};

// Rows of a lattice whose labels are to be made deterministic; final costs infinite for none.
struct Acceptor {
  std::vector<std::vector<Arc>> arcs;
  std::vector<float> final_graph, final_acoustic;

  int32_t AddState() {
    arcs.emplace_back();
    final_graph.push_back(kNone);
    final_acoustic.push_back(kNone);
    return static_cast<int32_t>(arcs.size()) - 1;
  }
  bool IsFinal(int32_t state) const { return final_graph[state] < kNone; }
};

inline double Cost(float graph, float acoustic) {
  return static_cast<double>(graph) + static_cast<double>(acoustic);
}

// Reachable states in topological order, depth first; arcs of `rows` lead to arc.next.
template <class Row>
std::vector<int32_t> TopologicalOrder(const std::vector<Row> &rows) {
  std::vector<int32_t> finished, stack{0};
  std::vector<size_t> place(rows.size(), 0);
  std::vector<char> opened(rows.size(), 0);
  opened[0] = 1;
  while (!stack.empty()) {
    const int32_t state = stack.back();
    if (place[state] == rows[state].size()) {
      finished.push_back(state);
      stack.pop_back();
      continue;
    }
    const int32_t next = rows[state][place[state]++].next;
    if (next < 0 || opened[next]) continue;
    opened[next] = 1;
    stack.push_back(next);
  }
  std::reverse(finished.begin(), finished.end());
  return finished;
}

// Numbers states in topological order; those that cannot be reached go.
void SortStates(Acceptor *acceptor);

// The least cost from each state to an end.
std::vector<double> BackwardCosts(const Acceptor &acceptor);

// Drops arcs and ends that no path within the beam uses.
void PruneAcceptor(double beam, Acceptor *acceptor);

}  // namespace determinize

// Acceptors in topological order, and pruned.

#include "acceptor.h"

namespace determinize {

void SortStates(Acceptor *acceptor) {
  const std::vector<int32_t> order = TopologicalOrder(acceptor->arcs);
  std::vector<int32_t> number(acceptor->arcs.size(), -1);
  for (size_t state = 0; state < order.size(); ++state) number[order[state]] = state;
  Acceptor sorted;
  for (const int32_t state : order) {
    const int32_t made = sorted.AddState();
    sorted.arcs[made].swap(acceptor->arcs[state]);
    for (Arc &arc : sorted.arcs[made]) arc.next = number[arc.next];
    sorted.final_graph[made] = acceptor->final_graph[state];
    sorted.final_acoustic[made] = acceptor->final_acoustic[state];
  }
  *acceptor = std::move(sorted);
}

std::vector<double> BackwardCosts(const Acceptor &acceptor) {
  std::vector<double> costs(acceptor.arcs.size());
  for (size_t state = costs.size(); state-- > 0;) {
    costs[state] = Cost(acceptor.final_graph[state], acceptor.final_acoustic[state]);
    for (const Arc &arc : acceptor.arcs[state])
      costs[state] = std::min(costs[state], Cost(arc.graph, arc.acoustic) + costs[arc.next]);
  }
  return costs;
}

void PruneAcceptor(double beam, Acceptor *acceptor) {
  const std::vector<double> backward = BackwardCosts(*acceptor);
  const double cutoff = backward[0] + beam;
  std::vector<double> forward(acceptor->arcs.size(), kInfinity);
  forward[0] = 0;
  for (size_t state = 0; state < forward.size(); ++state) {
    std::vector<Arc> &row = acceptor->arcs[state];
    for (const Arc &arc : row)
      forward[arc.next] =
          std::min(forward[arc.next], forward[state] + Cost(arc.graph, arc.acoustic));
    row.erase(std::remove_if(row.begin(), row.end(),
                             [&](const Arc &arc) {
                               return forward[state] + Cost(arc.graph, arc.acoustic) +
                                          backward[arc.next] >
                                      cutoff;
                             }),
              row.end());
    if (forward[state] + Cost(acceptor->final_graph[state], acceptor->final_acoustic[state]) >
        cutoff)
      acceptor->final_graph[state] = acceptor->final_acoustic[state] = kNone;
  }
  SortStates(acceptor);
}

}  // namespace determinize

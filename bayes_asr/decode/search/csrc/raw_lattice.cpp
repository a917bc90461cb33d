// The tokens and links that are left, as a lattice.

#include "trellis.h"

namespace search {

std::vector<int32_t> EpsilonOrder(const Frame &frame) {
  std::vector<int32_t> depth(frame.size(), 0), order(frame.size());
  for (bool changed = !frame.inner.empty(); changed;) {
    changed = false;
    for (const Link &link : frame.inner)
      if (depth[link.target] < depth[link.source] + 1) {
        depth[link.target] = depth[link.source] + 1;
        changed = true;
      }
  }
  for (size_t token = 0; token < order.size(); ++token) order[token] = token;
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return depth[a] < depth[b]; });
  return order;
}

void BuildLattice(const GraphView &graph, const std::vector<Frame> &frames,
                  const std::vector<float> &ending, RawLattice *lattice) {
  std::vector<std::vector<int32_t>> number(frames.size());
  int32_t states = 0;
  size_t arcs = 0;
  for (size_t t = 0; t < frames.size(); ++t) {
    number[t].resize(frames[t].size());
    for (int32_t token : EpsilonOrder(frames[t])) number[t][token] = states++;
    arcs += frames[t].inner.size() + frames[t].outer.size();
  }
  auto for_each_link = [&](auto visit) {
    for (size_t t = 0; t < frames.size(); ++t) {
      for (const Link &link : frames[t].inner) visit(t, t, link, graph.epsilon);
      for (const Link &link : frames[t].outer) visit(t, t + 1, link, graph.emitting);
    }
  };
  lattice->offsets.assign(states + 1, 0);
  for_each_link([&](size_t t, size_t, const Link &link, const ArcsView &) {
    ++lattice->offsets[number[t][link.source] + 1];
  });
  for (int32_t state = 0; state < states; ++state)
    lattice->offsets[state + 1] += lattice->offsets[state];
  std::vector<int64_t> place(lattice->offsets.begin(), lattice->offsets.end() - 1);
  for (auto *column : {&lattice->ilabel, &lattice->olabel, &lattice->nextstate})
    column->resize(arcs);
  lattice->graph.resize(arcs);
  lattice->acoustic.resize(arcs);
  for_each_link([&](size_t t, size_t after, const Link &link, const ArcsView &from) {
    const int64_t arc = place[number[t][link.source]]++;
    const bool emits = after != t;
    lattice->ilabel[arc] = emits ? from.ilabel[link.arc] : 0;
    lattice->olabel[arc] = from.olabel[link.arc];
    lattice->graph[arc] = link.graph;
    lattice->acoustic[arc] = emits ? link.acoustic - frames[t].offset : 0;
    lattice->nextstate[arc] = number[after][link.target];
  });
  lattice->final_graph.assign(states, kInfinity);
  lattice->final_acoustic.assign(states, kInfinity);
  for (size_t token = 0; token < ending.size(); ++token) {
    const int32_t state = number.back()[token];
    lattice->final_graph[state] = ending[token];
    if (ending[token] < kInfinity) lattice->final_acoustic[state] = 0;
  }
}

}  // namespace search

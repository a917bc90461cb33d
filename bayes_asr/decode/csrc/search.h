// Token passing, the twin of tokens.py and lattice.py: same rules, same order, same results.

#pragma once

#include <algorithm>

#include "arrivals.h"

namespace search {

struct Cutoff {
  float cutoff;
  float beam;
};

class Search {
 public:
  Search(const GraphView &graph, const OptionsView &options)
      : graph_(graph), options_(options), arrivals_(graph.num_states) {
    frames_.emplace_back();
    arrivals_.Add(&frames_.back(), graph.start, 0);
    Close(&frames_.back(), nullptr, options.beam);
  }

  // Consumes one frame of scaled log-likelihoods; false when no token survives it.
  bool Advance(const float *loglikes);

  void DropLast() {
    frames_.pop_back();
    frames_.back().outer.clear();
  }

  size_t num_frames() const { return frames_.size() - 1; }

  // Prunes with the final costs, which come out in `ending`; true if a final state was reached.
  bool Finish(bool complete, std::vector<float> *ending);

  const std::vector<Frame> &frames() const { return frames_; }

 private:
  float Emit(Frame *last, Frame *frame, const float *loglikes, Cutoff chosen);
  void Close(Frame *frame, Frame *before, float cutoff);
  void FollowEpsilons(Frame *frame, float cutoff);
  void Prune();

  float Excess(const Link &link, float graph, const Frame &frame, const Frame &after) const {
    const float through = (frame.cost[link.source] + link.acoustic) + graph;
    return std::max(after.extra[link.target] + (through - after.cost[link.target]), 0.0f);
  }
  void UpdateExtra(Frame *frame, const Frame *after, std::vector<float> *least);
  void DropLinks(Frame *frame, const Frame *after);
  void DropTokens(Frame *frame, Frame *before, std::vector<float> *ending);

  const GraphView &graph_;
  const OptionsView &options_;
  Arrivals arrivals_;
  std::vector<Frame> frames_;
  std::vector<float> scratch_, known_;
  std::vector<int32_t> order_, rank_, stack_;
};

struct RawLattice {
  std::vector<int64_t> offsets;
  std::vector<int32_t> ilabel, olabel, nextstate;
  std::vector<float> graph, acoustic, final_graph, final_acoustic;
};

void BuildLattice(const GraphView &graph, const std::vector<Frame> &frames,
                  const std::vector<float> &ending, RawLattice *lattice);

}  // namespace search

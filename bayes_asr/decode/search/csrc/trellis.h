// The frames of an utterance, and what is dropped of them; the twin of tokens.py: prune, finish.

#pragma once

#include <algorithm>

#include "frame.h"

namespace search {

class Trellis {
 public:
  explicit Trellis(const OptionsView &options) : options_(options), frames_(1) {}

  void DropLast() {
    frames_.pop_back();
    frames_.back().outer.clear();
  }

  size_t num_frames() const { return frames_.size() - 1; }

  const std::vector<Frame> &frames() const { return frames_; }

 protected:
  // Drops what no path within the lattice beam of any token of the last frame can use.
  void Prune();

  // Prunes with `ending`, what it costs to end in each token of the last frame.
  void PruneToEnds(std::vector<float> *ending);

  const OptionsView &options_;
  std::vector<Frame> frames_;
  std::vector<float> scratch_;
  std::vector<int32_t> rank_;

 private:
  float Excess(const Link &link, const Frame &frame, const Frame &after) const {
    const float through = (frame.cost[link.source] + link.acoustic) + link.graph;
    return std::max(after.extra[link.target] + (through - after.cost[link.target]), 0.0f);
  }
  void UpdateExtra(Frame *frame, const Frame *after, std::vector<float> *least);
  void DropLinks(Frame *frame, const Frame *after);
  void DropTokens(Frame *frame, Frame *before, std::vector<float> *ending);

  std::vector<float> known_;
};

struct RawLattice {
  std::vector<int64_t> offsets;
  std::vector<int32_t> ilabel, olabel, nextstate;
  std::vector<float> graph, acoustic, final_graph, final_acoustic;
};

void BuildLattice(const GraphView &graph, const std::vector<Frame> &frames,
                  const std::vector<float> &ending, RawLattice *lattice);

}  // namespace search

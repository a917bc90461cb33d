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

// The best path so far, as PathView has it.
struct BestPath {
  std::vector<int32_t> word, frame, tid;
  int64_t fixed = 0;
};

void Trace(const GraphView &graph, const std::vector<Frame> &frames, BestPath *path);

// The tokens of a frame in an order in which its epsilon links lead forward, by depth.
std::vector<int32_t> EpsilonOrder(const Frame &frame);

void BuildLattice(const GraphView &graph, const std::vector<Frame> &frames,
                  const std::vector<float> &ending, RawLattice *lattice);

}  // namespace search

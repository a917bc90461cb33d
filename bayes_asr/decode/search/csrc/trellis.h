// The frames of an utterance, what is dropped of them, and the pieces that are over; the twin of
// tokens.py: prune, finish, and of search.py.

#pragma once

#include <algorithm>
#include <deque>
#include <memory>

#include "frame.h"

namespace search {

struct RawLattice {
  std::vector<int64_t> offsets;
  std::vector<int32_t> ilabel, olabel, nextstate;
  std::vector<float> graph, acoustic, final_graph, final_acoustic;
};

// A piece of a lattice, as ChunkView has it.
struct Chunk {
  RawLattice lattice;
  std::vector<int32_t> entry, origin, exit;
  std::vector<double> ahead;
};

// A part of a path, and what lies before it.
struct Stretch {
  std::shared_ptr<const Stretch> before;
  std::vector<int32_t> word, frame, tid;
};

// How paths come to a token in which a piece begins: whether any near the best one does, the words
// that those have in common, and whether these are all of their words; the best path and its cost.
struct Way {
  bool arrives = false;
  std::vector<int32_t> common;
  bool whole = true;
  float cost = 0;
  std::shared_ptr<const Stretch> best;
};

// The ways into the first frame that is kept, its number, and how many words all ways begin with,
// which are not among those that they have in common.
struct Past {
  std::vector<Way> ways;
  int64_t frame = 0;
  int64_t fixed = 0;
};

class Trellis {
 public:
  explicit Trellis(const OptionsView &options) : options_(options), frames_(1) {
    past_.ways.resize(1);
    past_.ways[0].arrives = true;
  }

  void DropLast() {
    frames_.pop_back();
    frames_.back().outer.clear();
  }

  size_t num_frames() const { return past_.frame + frames_.size() - 1; }

  const std::vector<Frame> &frames() const { return frames_; }
  const Past &past() const { return past_; }

  // The next piece that is over, or null.
  std::unique_ptr<Chunk> Take();

  // What is left, as a lattice with the final costs `ending`.
  std::unique_ptr<Chunk> BuildLast(const GraphView &graph, const std::vector<float> &ending) const;

 protected:
  // Drops what no path within the lattice beam of any token of the last frame can use.
  void Prune();

  // Prunes with `ending`, what it costs to end in each token of the last frame.
  void PruneToEnds(std::vector<float> *ending);

  // Makes a piece of the oldest frames, up to the one with fewest tokens, if there are enough.
  void Cut(const GraphView &graph);

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
  Past past_;
  std::deque<std::unique_ptr<Chunk>> chunks_;
  double offset_ = 0;  // what the costs of tokens lack: the offsets of frames that are gone
};

// The best path so far, as PathView has it.
struct BestPath {
  std::vector<int32_t> word, frame, tid;
  int64_t fixed = 0;
};

void Trace(const GraphView &graph, const std::vector<Frame> &frames, const Past &past,
           BestPath *path);

// The ways to these tokens of the last frame.
Past TraceWays(const GraphView &graph, const std::vector<Frame> &frames, const Past &past,
               const std::vector<int32_t> &tokens);

// The tokens of a frame in an order in which its epsilon links lead forward, by depth.
std::vector<int32_t> EpsilonOrder(const Frame &frame);

void BuildLattice(const GraphView &graph, const std::vector<Frame> &frames,
                  const std::vector<float> &ending, RawLattice *lattice);

}  // namespace search

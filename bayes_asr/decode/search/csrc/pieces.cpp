// Pieces of the lattice that are over, and what is kept of them for the best path; the twin of
// search.py: ReferenceSession.

#include "trellis.h"

namespace search {

namespace {

// The frame before which a piece ends; 0: none does yet.  The narrowest of those that have been
// pruned twice after a whole interval, and the latest of several.
size_t ChooseCut(const std::vector<Frame> &frames, size_t interval) {
  if (frames.size() - 1 < 4 * interval) return 0;
  size_t chosen = interval;
  for (size_t t = interval; t <= frames.size() - 1 - 2 * interval; ++t)
    if (frames[t].size() <= frames[chosen].size()) chosen = t;
  return chosen;
}

// The states in which paths begin, and by which ways.
void ListEntries(const Frame &first, Chunk *chunk) {
  std::vector<int32_t> state(first.size());
  const std::vector<int32_t> order = EpsilonOrder(first);
  for (size_t i = 0; i < order.size(); ++i) state[order[i]] = static_cast<int32_t>(i);
  for (size_t token = 0; token < first.size(); ++token) {
    if (first.origin[token] < 0) continue;
    chunk->entry.push_back(state[token]);
    chunk->origin.push_back(first.origin[token]);
  }
}

}  // namespace

std::unique_ptr<Chunk> Trellis::Take() {
  if (chunks_.empty()) return nullptr;
  std::unique_ptr<Chunk> chunk = std::move(chunks_.front());
  chunks_.pop_front();
  return chunk;
}

std::unique_ptr<Chunk> Trellis::BuildLast(const GraphView &graph,
                                          const std::vector<float> &ending) const {
  auto chunk = std::make_unique<Chunk>();
  BuildLattice(graph, frames_, ending, &chunk->lattice);
  ListEntries(frames_.front(), chunk.get());
  return chunk;
}

void Trellis::Cut(const GraphView &graph) {
  const size_t end = ChooseCut(frames_, options_.prune_interval);
  if (end == 0) return;
  auto chunk = std::make_unique<Chunk>();
  Frame &kept = frames_[end];
  const size_t count = kept.size();
  std::vector<int32_t> number(count, -1), exits;
  for (const Link &link : frames_[end - 1].outer) number[link.target] = 0;
  for (size_t token = 0; token < count; ++token) {
    if (number[token] < 0) continue;
    number[token] = static_cast<int32_t>(exits.size());
    exits.push_back(static_cast<int32_t>(token));
  }
  // Frames move into the piece; the last of them has tokens alone.
  const auto begin = std::make_move_iterator(frames_.begin());
  std::vector<Frame> piece(begin, begin + end);
  piece.emplace_back();
  piece.back().cost = kept.cost;
  past_ = TraceWays(graph, piece, past_, exits);
  ListEntries(piece.front(), chunk.get());
  BuildLattice(graph, piece, std::vector<float>(count, kInfinity), &chunk->lattice);
  for (size_t t = 0; t < end; ++t) offset_ += piece[t].offset;
  const int32_t first = static_cast<int32_t>(chunk->lattice.final_graph.size() - count);
  for (const int32_t token : exits) {
    chunk->exit.push_back(first + token);
    chunk->ahead.push_back(static_cast<double>(kept.extra[token]) -
                           (static_cast<double>(kept.cost[token]) - offset_));
  }
  kept.origin.swap(number);
  frames_.erase(frames_.begin(), frames_.begin() + end);
  chunks_.push_back(std::move(chunk));
}

}  // namespace search

// What no path within the lattice beam uses is dropped, every few frames and at the end.

#include "trellis.h"

#include <cmath>

namespace search {

// Sets the least excess over all ways on; `least` comes with what ending here costs.
void Trellis::UpdateExtra(Frame *frame, const Frame *after, std::vector<float> *least) {
  if (after)
    for (const Link &link : frame->outer)
      (*least)[link.source] =
          std::min((*least)[link.source], Excess(link, *frame, *after));
  frame->extra = *least;
  for (bool changed = !frame->inner.empty(); changed;) {
    scratch_ = *least;
    for (const Link &link : frame->inner)
      scratch_[link.source] =
          std::min(scratch_[link.source], Excess(link, *frame, *frame));
    changed = scratch_ != frame->extra;
    frame->extra.swap(scratch_);
  }
}

void Trellis::DropLinks(Frame *frame, const Frame *after) {
  auto drop = [&](std::vector<Link> *links, const Frame &there) {
    links->erase(std::remove_if(links->begin(), links->end(),
                                [&](const Link &link) {
                                  return !(Excess(link, *frame, there) <= options_.lattice_beam);
                                }),
                 links->end());
  };
  drop(&frame->inner, *frame);
  if (after) drop(&frame->outer, *after);
}

// Removes the tokens that are on no way on, and renumbers the links that touch them.
void Trellis::DropTokens(Frame *frame, Frame *before, std::vector<float> *ending) {
  const int32_t count = static_cast<int32_t>(frame->size());
  rank_.assign(count, -1);
  int32_t kept = 0;
  for (int32_t token = 0; token < count; ++token) {
    if (!(frame->extra[token] <= options_.lattice_beam)) continue;
    rank_[token] = kept;
    frame->cost[kept] = frame->cost[token];
    frame->extra[kept] = frame->extra[token];
    if (ending) (*ending)[kept] = (*ending)[token];
    if (!frame->origin.empty()) frame->origin[kept] = frame->origin[token];
    ++kept;
  }
  if (kept == count) return;
  frame->cost.resize(kept);
  frame->extra.resize(kept);
  if (ending) ending->resize(kept);
  if (!frame->origin.empty()) frame->origin.resize(kept);
  auto renumber = [&](std::vector<Link> *links, bool sources, bool targets) {
    size_t written = 0;
    for (Link link : *links) {
      if (sources) link.source = rank_[link.source];
      if (targets) link.target = rank_[link.target];
      if (link.source >= 0 && link.target >= 0) (*links)[written++] = link;
    }
    links->resize(written);
  };
  renumber(&frame->inner, true, true);
  renumber(&frame->outer, true, false);
  if (before) renumber(&before->outer, false, true);
}

void Trellis::Prune() {
  const int64_t last = static_cast<int64_t>(frames_.size()) - 1;
  std::vector<float> least;
  for (int64_t t = last - 1; t >= 0; --t) {
    Frame &frame = frames_[t];
    const bool seen_before = t < last - options_.prune_interval;
    known_ = frame.extra;
    least.assign(frame.size(), kInfinity);
    UpdateExtra(&frame, &frames_[t + 1], &least);
    bool settled = seen_before;
    for (size_t token = 0; settled && token < known_.size(); ++token)
      settled = std::fabs(frame.extra[token] - known_[token]) <= 0.1f * options_.lattice_beam;
    DropLinks(&frame, &frames_[t + 1]);
    DropTokens(&frame, t ? &frames_[t - 1] : nullptr, nullptr);
    frame.Shrink();
    if (settled) break;
  }
}

void Trellis::PruneToEnds(std::vector<float> *ending) {
  Frame &last = frames_.back();
  std::vector<float> least(last.size());
  float best = kInfinity;
  for (size_t token = 0; token < last.size(); ++token) {
    least[token] = last.cost[token] + (*ending)[token];
    best = std::min(best, least[token]);
  }
  for (float &excess : least) excess -= best;
  UpdateExtra(&last, nullptr, &least);
  DropLinks(&last, nullptr);
  DropTokens(&last, frames_.size() > 1 ? &frames_[frames_.size() - 2] : nullptr, ending);
  for (int64_t t = static_cast<int64_t>(frames_.size()) - 2; t >= 0; --t) {
    Frame &frame = frames_[t];
    least.assign(frame.size(), kInfinity);
    UpdateExtra(&frame, &frames_[t + 1], &least);
    DropLinks(&frame, &frames_[t + 1]);
    DropTokens(&frame, t ? &frames_[t - 1] : nullptr, nullptr);
  }
}

}  // namespace search

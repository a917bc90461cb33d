// From frame to frame: which tokens are extended, and where they arrive.

#include "search.h"

namespace search {

namespace {

Cutoff ChooseCutoff(const std::vector<float> &cost, const OptionsView &options,
                    std::vector<float> *scratch) {
  const float best = *std::min_element(cost.begin(), cost.end());
  const float cutoff = best + options.beam;
  if (options.max_active == kUnlimited && options.min_active == 0) return {cutoff, options.beam};
  int64_t below = 0, within = 0;  // the beam; only if these counts say so are costs ordered
  for (const float one : cost) {
    below += one < cutoff;
    within += one <= cutoff;
  }
  auto nth = [&](int32_t n) {
    scratch->assign(cost.begin(), cost.end());
    std::nth_element(scratch->begin(), scratch->begin() + n, scratch->end());
    return (*scratch)[n];
  };
  if (below > options.max_active) {
    const float tighter = nth(options.max_active);
    return {tighter, (tighter - best) + options.beam_delta};
  }
  if (within <= options.min_active) {
    const bool enough = static_cast<int64_t>(cost.size()) > options.min_active;
    const float looser = enough ? nth(options.min_active) : kInfinity;
    return {looser, (looser - best) + options.beam_delta};
  }
  return {cutoff, options.beam};
}

}  // namespace

bool Search::Advance(const float *loglikes) {
  if ((frames_.size() - 1) % options_.prune_interval == 0) Prune();
  frames_.emplace_back();
  Frame &last = frames_[frames_.size() - 2], &frame = frames_.back();
  const Cutoff chosen = ChooseCutoff(last.cost, options_, &scratch_);
  arrivals_.Resize(2 * last.size());
  const float cutoff = Emit(&last, &frame, loglikes, chosen);
  Close(&frame, &last, cutoff);
  return frame.size() > 0;
}

float Search::Emit(Frame *last, Frame *frame, const float *loglikes, Cutoff chosen) {
  const ArcsView &arcs = graph_.emitting;
  const size_t best = std::min_element(last->cost.begin(), last->cost.end()) - last->cost.begin();
  const float offset = last->offset = -last->cost[best];
  float limit = kInfinity;
  const int32_t leader = last->state[best];
  for (int64_t arc = arcs.offsets[leader]; arc < arcs.offsets[leader + 1]; ++arc) {
    const float ahead =
        ((arcs.weight[arc] + offset) - loglikes[graph_.column[arc]]) + last->cost[best];
    limit = std::min(limit, ahead + chosen.beam);
  }
  const int32_t count = static_cast<int32_t>(last->size());
  for (int32_t token = 0; token < count; ++token) {
    const float before = last->cost[token];
    if (!(options_.strict ? before < chosen.cutoff : before <= chosen.cutoff)) continue;
    const int32_t state = last->state[token];
    for (int64_t arc = arcs.offsets[state]; arc < arcs.offsets[state + 1]; ++arc) {
      const float acoustic = offset - loglikes[graph_.column[arc]];
      const float cost = (before + acoustic) + arcs.weight[arc];
      if (!(cost < limit)) continue;
      limit = std::min(limit, cost + chosen.beam);
      const int32_t after = arcs.nextstate[arc];
      int32_t target = arrivals_.Find(after);
      if (target < 0)
        target = arrivals_.Add(frame, after, cost);
      else if (cost < frame->cost[target])
        frame->cost[target] = cost;
      last->outer.push_back({token, target, static_cast<int32_t>(arc), acoustic});
    }
  }
  return limit;
}

void Search::FollowEpsilons(Frame *frame, float cutoff) {
  const ArcsView &arcs = graph_.epsilon;
  auto branches = [&](int32_t state) { return arcs.offsets[state] < arcs.offsets[state + 1]; };
  stack_.clear();
  arrivals_.List(frame->size(), &order_);
  for (int32_t token : order_)
    if (branches(frame->state[token]) && frame->cost[token] < cutoff) stack_.push_back(token);
  while (!stack_.empty()) {
    const int32_t token = stack_.back();
    stack_.pop_back();
    const int32_t state = frame->state[token];
    const float cost = frame->cost[token];
    if (!(cost < cutoff)) continue;
    for (int64_t arc = arcs.offsets[state]; arc < arcs.offsets[state + 1]; ++arc) {
      const float total = cost + arcs.weight[arc];
      if (!(total < cutoff)) continue;
      const int32_t after = arcs.nextstate[arc];
      int32_t target = arrivals_.Find(after);
      if (target < 0)
        target = arrivals_.Add(frame, after, total);
      else if (total < frame->cost[target])
        frame->cost[target] = total;
      else
        continue;
      if (branches(after)) stack_.push_back(target);
    }
  }
}

// Follows the epsilon arcs, links them, and puts the tokens in list order.
void Search::Close(Frame *frame, Frame *before, float cutoff) {
  const ArcsView &arcs = graph_.epsilon;
  FollowEpsilons(frame, cutoff);
  const int32_t count = static_cast<int32_t>(frame->size());
  for (int32_t token = 0; token < count; ++token) {
    if (!(frame->cost[token] < cutoff)) continue;
    const int32_t state = frame->state[token];
    for (int64_t arc = arcs.offsets[state]; arc < arcs.offsets[state + 1]; ++arc)
      if (frame->cost[token] + arcs.weight[arc] < cutoff)
        frame->inner.push_back({token, arrivals_.Find(arcs.nextstate[arc]),
                                static_cast<int32_t>(arc), 0});
  }
  arrivals_.List(count, &order_);
  rank_.resize(count);
  std::vector<int32_t> state(count);
  std::vector<float> cost(count);
  for (int32_t place = 0; place < count; ++place) {
    const int32_t token = order_[place];
    rank_[token] = place;
    state[place] = frame->state[token];
    cost[place] = frame->cost[token];
  }
  arrivals_.Clear(frame);
  frame->state.swap(state);
  frame->cost.swap(cost);
  frame->extra.assign(count, 0);
  for (Link &link : frame->inner) link = {rank_[link.source], rank_[link.target], link.arc, 0};
  if (before)
    for (Link &link : before->outer) link.target = rank_[link.target];
}

}  // namespace search

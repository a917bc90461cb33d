// Token passing, the twin of tokens.py and search.py: same rules, same order, same results.
//
// Over a graph that looks ahead, what is compared with the beam is the cost of a token with what the
// words to come may add; what is kept is the cost.

#pragma once

#include "trellis.h"

namespace search {

struct Cutoff {
  float cutoff;
  float beam;
};

// Which tokens are extended, by their costs (Kaldi's GetCutoff).
Cutoff ChooseCutoff(const std::vector<float> &cost, const OptionsView &options,
                    std::vector<float> *scratch);

template <class Graph>
class Search : public Trellis {
 public:
  using State = typename Graph::State;

  Search(Graph *graph, const OptionsView &options, bool in_pieces)
      : Trellis(options), graph_(*graph), arrivals_(graph->MakeArrivals()), in_pieces_(in_pieces) {
    const float ahead = graph_.Ahead(graph_.start());
    Add(&frames_.back(), graph_.start(), 0, ahead);
    Close(&frames_.back(), nullptr, options.beam + ahead);
    frames_.back().origin.assign(states_.size(), 0);
    for (const Link &link : frames_.back().inner) frames_.back().origin[link.target] = -1;
  }

  // Consumes one frame of scaled log-likelihoods; false when no token survives it.
  bool Advance(const float *loglikes) {
    if (num_frames() % options_.prune_interval == 0) {
      Prune();
      if (in_pieces_) Cut(graph_.graph());
    }
    frames_.emplace_back();
    Frame &last = frames_[frames_.size() - 2], &frame = frames_.back();
    const Cutoff chosen = ChooseCutoff(Totals(last), options_, &scratch_);
    arrivals_.Resize(2 * last.size());
    const float cutoff = Emit(&last, &frame, loglikes, chosen);
    Close(&frame, &last, cutoff);
    return frame.size() > 0;
  }

  // Prunes with the final costs, which come out in `ending`; true if a final state was reached.
  bool Finish(bool complete, std::vector<float> *ending) {
    bool reached = false;
    ending->assign(frames_.back().size(), 0);
    for (size_t token = 0; complete && token < ending->size(); ++token) {
      (*ending)[token] = graph_.Final(states_[token]);
      reached = reached || (*ending)[token] < kInfinity;
    }
    if (!reached) std::fill(ending->begin(), ending->end(), 0);
    PruneToEnds(ending);
    return reached;
  }

 private:
  static float Total(float cost, float ahead) {
    if constexpr (Graph::kLooksAhead) return cost + ahead;
    return cost;
  }
  const std::vector<float> &Totals(const Frame &last) const {
    return Graph::kLooksAhead ? totals_ : last.cost;
  }
  float AheadOf(int32_t token) const { return Graph::kLooksAhead ? ahead_[token] : 0; }

  int32_t Add(Frame *frame, State state, float cost, float ahead) {
    frame->cost.push_back(cost);
    if constexpr (Graph::kLooksAhead) arriving_ahead_.push_back(ahead);
    return arrivals_.Add(state);
  }

  float Emit(Frame *last, Frame *frame, const float *loglikes, Cutoff chosen);
  void FollowEpsilons(Frame *frame, float cutoff);
  void Close(Frame *frame, Frame *before, float cutoff);

  Graph &graph_;
  decltype(std::declval<Graph>().MakeArrivals()) arrivals_;
  const bool in_pieces_;
  std::vector<State> states_;                          // of the newest frame
  std::vector<float> ahead_, totals_, arriving_ahead_;  // of its tokens, where the graph looks ahead
  std::vector<int32_t> order_, stack_;
};

template <class Graph>
float Search<Graph>::Emit(Frame *last, Frame *frame, const float *loglikes, Cutoff chosen) {
  const int32_t *column = graph_.graph().column;
  const std::vector<float> &totals = Totals(*last);
  const int32_t best = std::min_element(totals.begin(), totals.end()) - totals.begin();
  const float offset = last->offset = -last->cost[best];
  float limit = kInfinity;
  graph_.Emitting(states_[best], AheadOf(best),
                  [&](int32_t arc, float weight, State, float ahead) {
                    const float cost =
                        ((weight + offset) - loglikes[column[arc]]) + last->cost[best];
                    limit = std::min(limit, Total(cost, ahead) + chosen.beam);
                  });
  const int32_t count = static_cast<int32_t>(last->size());
  for (int32_t token = 0; token < count; ++token) {
    const float total = totals[token], before = last->cost[token];
    if (!(options_.strict ? total < chosen.cutoff : total <= chosen.cutoff)) continue;
    graph_.Emitting(
        states_[token], AheadOf(token), [&](int32_t arc, float weight, State after, float ahead) {
          const float acoustic = offset - loglikes[column[arc]];
          const float cost = (before + acoustic) + weight;
          if (!(Total(cost, ahead) < limit)) return;
          limit = std::min(limit, Total(cost, ahead) + chosen.beam);
          int32_t target = arrivals_.Find(after);
          if (target < 0)
            target = Add(frame, after, cost, ahead);
          else if (cost < frame->cost[target])
            frame->cost[target] = cost;
          last->outer.push_back({token, target, arc, weight, acoustic});
        });
  }
  return limit;
}

template <class Graph>
void Search<Graph>::FollowEpsilons(Frame *frame, float cutoff) {
  auto ahead_of = [&](int32_t token) {
    return Graph::kLooksAhead ? arriving_ahead_[token] : 0;
  };
  auto within = [&](int32_t token) {
    return Total(frame->cost[token], ahead_of(token)) < cutoff;
  };
  stack_.clear();
  arrivals_.List(&order_);
  for (int32_t token : order_)
    if (graph_.HasEpsilons(arrivals_.states()[token]) && within(token)) stack_.push_back(token);
  while (!stack_.empty()) {
    const int32_t token = stack_.back();
    stack_.pop_back();
    if (!within(token)) continue;
    const State state = arrivals_.states()[token];
    const float cost = frame->cost[token];
    graph_.Epsilons(state, ahead_of(token), [&](int32_t, float weight, State after, float ahead) {
      const float total = cost + weight;
      if (!(Total(total, ahead) < cutoff)) return;
      int32_t target = arrivals_.Find(after);
      if (target < 0)
        target = Add(frame, after, total, ahead);
      else if (total < frame->cost[target])
        frame->cost[target] = total;
      else
        return;
      if (graph_.HasEpsilons(after)) stack_.push_back(target);
    });
  }
}

// Follows the epsilon arcs, links them, and puts the tokens in list order.
template <class Graph>
void Search<Graph>::Close(Frame *frame, Frame *before, float cutoff) {
  FollowEpsilons(frame, cutoff);
  const int32_t count = static_cast<int32_t>(frame->size());
  for (int32_t token = 0; token < count; ++token) {
    const float cost = frame->cost[token];
    const float ahead_here = Graph::kLooksAhead ? arriving_ahead_[token] : 0;
    if (!(Total(cost, ahead_here) < cutoff)) continue;
    graph_.Epsilons(arrivals_.states()[token], ahead_here,
                    [&](int32_t arc, float weight, State after, float ahead) {
                      if (Total(cost + weight, ahead) < cutoff)
                        frame->inner.push_back({token, arrivals_.Find(after), arc, weight, 0});
                    });
  }
  arrivals_.List(&order_);
  rank_.resize(count);
  states_.resize(count);
  std::vector<float> cost(count);
  for (int32_t place = 0; place < count; ++place) {
    const int32_t token = order_[place];
    rank_[token] = place;
    states_[place] = arrivals_.states()[token];
    cost[place] = frame->cost[token];
  }
  if constexpr (Graph::kLooksAhead) {  // which lists tokens as they arrived
    ahead_.swap(arriving_ahead_);
    arriving_ahead_.clear();
    totals_.resize(count);
    for (int32_t token = 0; token < count; ++token) totals_[token] = cost[token] + ahead_[token];
  }
  arrivals_.Clear();
  frame->cost.swap(cost);
  frame->extra.assign(count, 0);
  for (Link &link : frame->inner) {
    link.source = rank_[link.source];
    link.target = rank_[link.target];
  }
  if (before)
    for (Link &link : before->outer) link.target = rank_[link.target];
}

}  // namespace search

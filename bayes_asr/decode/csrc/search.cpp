// Token passing, the twin of tokens.py and lattice.py: same rules, same order, same results.

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <new>

#include "lattice.h"

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr int32_t kBuckets = 1000;

struct Link {
  int32_t source;
  int32_t target;
  int32_t arc;
  float acoustic;
};

// The tokens alive before a frame.  Inner links (epsilon arcs) stay within the frame, outer links
// (emitting arcs, whose acoustic costs contain offset) lead to the next.
struct Frame {
  std::vector<int32_t> state;
  std::vector<float> cost;
  std::vector<float> extra;
  std::vector<Link> inner;
  std::vector<Link> outer;
  float offset = 0;

  size_t size() const { return state.size(); }

  // Gives memory back once half of it is free.
  void Shrink() {
    auto shrink = [](auto *column) {
      if (column->capacity() > 2 * column->size()) column->shrink_to_fit();
    };
    shrink(&state);
    shrink(&cost);
    shrink(&extra);
    shrink(&inner);
    shrink(&outer);
  }
};

struct Cutoff {
  float cutoff;
  float beam;
};

Cutoff ChooseCutoff(const std::vector<float> &cost, const Options &options,
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

// The states of a growing frame, and the order in which Kaldi's hash list would hold them: buckets
// by first use, within a bucket by insertion.
class Arrivals {
 public:
  explicit Arrivals(int32_t num_states) : place_(num_states, -1) { Resize(kBuckets); }

  void Resize(size_t buckets) {
    if (buckets > last_.size()) last_.resize(buckets, -1);
  }

  size_t buckets() const { return last_.size(); }

  void Clear(Frame *frame) {
    for (int32_t state : frame->state) {
      place_[state] = -1;
      last_[Bucket(state)] = -1;
    }
  }

  int32_t Find(int32_t state) const { return place_[state]; }

  int32_t Add(Frame *frame, int32_t state, float cost) {
    const int32_t token = static_cast<int32_t>(frame->size());
    frame->state.push_back(state);
    frame->cost.push_back(cost);
    place_[state] = token;
    int32_t &last = last_[Bucket(state)];
    if (token == 0) {
      next_.clear();
      head_ = tail_ = token;
      next_.push_back(-1);
    } else {
      const int32_t before = last < 0 ? tail_ : last;
      next_.push_back(next_[before]);
      next_[before] = token;
      if (before == tail_) tail_ = token;
    }
    last = token;
    return token;
  }

  // The tokens in list order.
  void List(size_t count, std::vector<int32_t> *order) const {
    order->clear();
    for (int32_t token = count ? head_ : -1; token >= 0; token = next_[token])
      order->push_back(token);
  }

 private:
  size_t Bucket(int32_t state) const {
    return static_cast<size_t>(state) < last_.size() ? state : state % last_.size();
  }

  std::vector<int32_t> place_;  // of each graph state: its token, or -1
  std::vector<int32_t> last_;   // of each bucket: the token inserted last, or -1
  std::vector<int32_t> next_;   // of each token: the one after it in the list
  int32_t head_ = -1, tail_ = -1;
};

class Search {
 public:
  Search(const Graph &graph, const Options &options)
      : graph_(graph), options_(options), arrivals_(graph.num_states) {
    frames_.emplace_back();
    arrivals_.Add(&frames_.back(), graph.start, 0);
    Close(&frames_.back(), nullptr, options.beam);
  }

  // Consumes one frame of scaled log-likelihoods; false when no token survives it.
  bool Advance(const float *loglikes) {
    if ((frames_.size() - 1) % options_.prune_interval == 0) Prune();
    frames_.emplace_back();
    Frame &last = frames_[frames_.size() - 2], &frame = frames_.back();
    const Cutoff chosen = ChooseCutoff(last.cost, options_, &scratch_);
    arrivals_.Resize(2 * last.size());
    const float cutoff = Emit(&last, &frame, loglikes, chosen);
    Close(&frame, &last, cutoff);
    return frame.size() > 0;
  }

  void DropLast() {
    frames_.pop_back();
    frames_.back().outer.clear();
  }

  size_t num_frames() const { return frames_.size() - 1; }

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

  const Graph &graph_;
  const Options &options_;
  Arrivals arrivals_;
  std::vector<Frame> frames_;
  std::vector<float> scratch_, known_;
  std::vector<int32_t> order_, rank_, stack_;
};

float Search::Emit(Frame *last, Frame *frame, const float *loglikes, Cutoff chosen) {
  const Arcs &arcs = graph_.emitting;
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
    if (!(before <= chosen.cutoff)) continue;
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
  const Arcs &arcs = graph_.epsilon;
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
  const Arcs &arcs = graph_.epsilon;
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

// Sets the least excess over all ways on; `least` comes with what ending here costs.
void Search::UpdateExtra(Frame *frame, const Frame *after, std::vector<float> *least) {
  if (after)
    for (const Link &link : frame->outer)
      (*least)[link.source] =
          std::min((*least)[link.source],
                   Excess(link, graph_.emitting.weight[link.arc], *frame, *after));
  frame->extra = *least;
  for (bool changed = !frame->inner.empty(); changed;) {
    scratch_ = *least;
    for (const Link &link : frame->inner)
      scratch_[link.source] =
          std::min(scratch_[link.source],
                   Excess(link, graph_.epsilon.weight[link.arc], *frame, *frame));
    changed = scratch_ != frame->extra;
    frame->extra.swap(scratch_);
  }
}

void Search::DropLinks(Frame *frame, const Frame *after) {
  auto drop = [&](std::vector<Link> *links, const float *weight, const Frame &there) {
    links->erase(std::remove_if(links->begin(), links->end(),
                                [&](const Link &link) {
                                  return !(Excess(link, weight[link.arc], *frame, there) <=
                                           options_.lattice_beam);
                                }),
                 links->end());
  };
  drop(&frame->inner, graph_.epsilon.weight, *frame);
  if (after) drop(&frame->outer, graph_.emitting.weight, *after);
}

// Removes the tokens that are on no way on, and renumbers the links that touch them.
void Search::DropTokens(Frame *frame, Frame *before, std::vector<float> *ending) {
  const int32_t count = static_cast<int32_t>(frame->size());
  rank_.assign(count, -1);
  int32_t kept = 0;
  for (int32_t token = 0; token < count; ++token) {
    if (!(frame->extra[token] <= options_.lattice_beam)) continue;
    rank_[token] = kept;
    frame->state[kept] = frame->state[token];
    frame->cost[kept] = frame->cost[token];
    frame->extra[kept] = frame->extra[token];
    if (ending) (*ending)[kept] = (*ending)[token];
    ++kept;
  }
  if (kept == count) return;
  frame->state.resize(kept);
  frame->cost.resize(kept);
  frame->extra.resize(kept);
  if (ending) ending->resize(kept);
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

void Search::Prune() {
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

// Prunes with the final costs, which come out in `ending`; true if a final state was reached.
bool Search::Finish(bool complete, std::vector<float> *ending) {
  Frame &last = frames_.back();
  bool reached = false;
  ending->resize(last.size());
  for (size_t token = 0; token < last.size(); ++token) {
    (*ending)[token] = graph_.final[last.state[token]];
    reached = reached || (complete && (*ending)[token] < kInfinity);
  }
  if (!reached) std::fill(ending->begin(), ending->end(), 0);
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
  return reached;
}

// The tokens of a frame in an order in which its epsilon links lead forward, by depth.
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

struct RawLattice {
  std::vector<int64_t> offsets;
  std::vector<int32_t> ilabel, olabel, nextstate;
  std::vector<float> graph, acoustic, final_graph, final_acoustic;
};

void BuildLattice(const Graph &graph, const std::vector<Frame> &frames,
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
  for_each_link([&](size_t t, size_t, const Link &link, const Arcs &) {
    ++lattice->offsets[number[t][link.source] + 1];
  });
  for (int32_t state = 0; state < states; ++state)
    lattice->offsets[state + 1] += lattice->offsets[state];
  std::vector<int64_t> place(lattice->offsets.begin(), lattice->offsets.end() - 1);
  for (auto *column : {&lattice->ilabel, &lattice->olabel, &lattice->nextstate})
    column->resize(arcs);
  lattice->graph.resize(arcs);
  lattice->acoustic.resize(arcs);
  for_each_link([&](size_t t, size_t after, const Link &link, const Arcs &from) {
    const int64_t arc = place[number[t][link.source]]++;
    const bool emits = after != t;
    lattice->ilabel[arc] = emits ? from.ilabel[link.arc] : 0;
    lattice->olabel[arc] = from.olabel[link.arc];
    lattice->graph[arc] = from.weight[link.arc];
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

}  // namespace

extern "C" {

// Counts the changes of this interface; native.py asks for the one it knows.
int32_t decoder_interface() { return 1; }

// Searches scaled log-likelihoods [num_frames, num_pdfs].  Returns a lattice to be given back to
// decoder_free_lattice, or null where no token survives or memory is short (*reached: -1).
void *decoder_search(const Graph *graph, const Options *options, const float *loglikes,
                     int64_t num_frames, int64_t num_pdfs, int32_t *reached, LatticeView *view) {
  *reached = 0;
  try {
    Search search(*graph, *options);
    for (int64_t t = 0; t < num_frames; ++t) {
      if (search.Advance(loglikes + t * num_pdfs)) continue;
      if (t == 0 || !options->allow_partial) return nullptr;
      search.DropLast();
      break;
    }
    std::vector<float> ending;
    const bool complete = search.num_frames() == static_cast<size_t>(num_frames);
    *reached = search.Finish(complete, &ending);
    auto lattice = std::make_unique<RawLattice>();
    BuildLattice(*graph, search.frames(), ending, lattice.get());
    *view = {static_cast<int64_t>(lattice->final_graph.size()),
             static_cast<int64_t>(lattice->nextstate.size()),
             lattice->offsets.data(),
             lattice->ilabel.data(),
             lattice->olabel.data(),
             lattice->graph.data(),
             lattice->acoustic.data(),
             lattice->nextstate.data(),
             lattice->final_graph.data(),
             lattice->final_acoustic.data()};
    return lattice.release();
  } catch (const std::bad_alloc &) {
    *reached = -1;
    return nullptr;
  }
}

void decoder_free_lattice(void *lattice) { delete static_cast<RawLattice *>(lattice); }

// Writes the arcs of the cheapest path to `arcs` (room for one per state) and its last state;
// returns how many, or -1 if memory is short.
int64_t decoder_best_arcs(const LatticeView *lattice, int64_t *arcs, int64_t *last) {
  try {
    std::vector<double> best(lattice->num_states);
    std::vector<int64_t> choice(lattice->num_states, -1);
    for (int64_t state = lattice->num_states - 1; state >= 0; --state) {
      best[state] = static_cast<double>(lattice->final_graph[state]) +
                    static_cast<double>(lattice->final_acoustic[state]);
      for (int64_t arc = lattice->offsets[state]; arc < lattice->offsets[state + 1]; ++arc) {
        const double through = (static_cast<double>(lattice->graph[arc]) + lattice->acoustic[arc]) +
                               best[lattice->nextstate[arc]];
        if (through < best[state]) {
          best[state] = through;
          choice[state] = arc;
        }
      }
    }
    int64_t count = 0, state = 0;
    for (; choice[state] >= 0; state = lattice->nextstate[choice[state]])
      arcs[count++] = choice[state];
    *last = state;
    return count;
  } catch (const std::bad_alloc &) {
    return -1;
  }
}

}  // extern "C"

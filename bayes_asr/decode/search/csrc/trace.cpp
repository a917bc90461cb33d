// The best path so far, and how far it is settled; the twin of search.py: trace.
//
// Whatever comes later, the final path passes a token of the last frame, and reaches it by the
// cheapest way there.  So the words that these ways have in common, from the first one on, stay.

#include <map>

#include "trellis.h"

namespace search {

namespace {

// Ways that cost so little more than the cheapest may win by rounding once the path is complete.
constexpr float kNear = 0.01f;
constexpr int32_t kNobody = -1;

// Sequences of words, each known by a number, that of the empty one 0.
class Sequences {
 public:
  int32_t Append(int32_t sequence, int32_t word) {
    const auto [place, is_new] =
        longer_.try_emplace({sequence, word}, static_cast<int32_t>(shorter_.size()));
    if (is_new) {
      shorter_.push_back(sequence);
      last_.push_back(word);
      length_.push_back(length_[sequence] + 1);
    }
    return place->second;
  }

  // The longest sequence that both begin with.
  int32_t Common(int32_t a, int32_t b) const {
    while (a != b) (length_[a] < length_[b] ? b : a) = shorter_[length_[a] < length_[b] ? b : a];
    return a;
  }

  int64_t length(int32_t sequence) const { return length_[sequence]; }

  // The words of a sequence but for the first ones.
  std::vector<int32_t> Words(int32_t sequence, int64_t skip) const {
    std::vector<int32_t> words(length_[sequence] - skip);
    for (size_t i = words.size(); i-- > 0; sequence = shorter_[sequence]) words[i] = last_[sequence];
    return words;
  }

 private:
  std::map<std::pair<int32_t, int32_t>, int32_t> longer_;
  std::vector<int32_t> shorter_ = {0};
  std::vector<int32_t> last_ = {0};
  std::vector<int32_t> length_ = {0};
};

// What all near ways to a token begin with; whether that is all of their words; the link by which
// the cheapest arrives, and whether it comes from the frame before.
struct Arrival {
  int32_t common = kNobody;
  bool whole = true;
  const Link *link = nullptr;
  bool emits = false;
  float cost = kInfinity;
};

class Tracer {
 public:
  Tracer(const GraphView &graph, const std::vector<Frame> &frames, const Past &past)
      : graph_(graph), frames_(frames), past_(past), arrivals_(frames.size()) {
    for (size_t t = 0; t < frames_.size(); ++t) {
      arrivals_[t].resize(frames_[t].size());
      if (t == 0) Begin();
      if (t > 0)
        for (const Link &link : frames_[t - 1].outer) Arrive(t - 1, t, link, graph_.emitting);
      FollowEpsilons(t);
    }
  }

  void ReadBest(BestPath *path) const {
    const std::vector<float> &costs = frames_.back().cost;
    const auto stretch =
        ReadBack(std::min_element(costs.begin(), costs.end()) - costs.begin());
    path->word.clear();
    path->frame.clear();
    path->tid.clear();
    for (const Stretch *part = stretch.get(); part; part = part->before.get()) {
      path->word.insert(path->word.end(), part->word.rbegin(), part->word.rend());
      path->frame.insert(path->frame.end(), part->frame.rbegin(), part->frame.rend());
      path->tid.insert(path->tid.end(), part->tid.rbegin(), part->tid.rend());
    }
    for (auto *column : {&path->word, &path->frame, &path->tid})
      std::reverse(column->begin(), column->end());
    path->fixed = past_.fixed + sequences_.length(Common());
  }

  // The ways to tokens of the last frame.
  Past Ways(const std::vector<int32_t> &tokens) const {
    const int64_t fixed = sequences_.length(Common());
    Past past{{}, past_.frame + static_cast<int64_t>(frames_.size()) - 1, past_.fixed + fixed};
    for (const int32_t token : tokens) {
      const Arrival &arrival = arrivals_.back()[token];
      past.ways.emplace_back();
      if (arrival.common == kNobody) continue;
      past.ways.back() = {true, sequences_.Words(arrival.common, fixed), arrival.whole,
                          arrival.cost, ReadBack(token)};
    }
    return past;
  }

 private:
  // Paths begin by the ways that lead to the first frame.
  void Begin() {
    for (size_t token = 0; token < frames_[0].size(); ++token) {
      const int32_t number = frames_[0].origin[token];
      if (number < 0 || !past_.ways[number].arrives) continue;
      const Way &way = past_.ways[number];
      Arrival &arrival = arrivals_[0][token];
      arrival.common = 0;
      for (const int32_t word : way.common) arrival.common = sequences_.Append(arrival.common, word);
      arrival.whole = way.whole;
      arrival.cost = way.cost;
    }
  }

  // What the near ways to all tokens of the last frame have in common.
  int32_t Common() const {
    int32_t common = kNobody;
    for (const Arrival &arrival : arrivals_.back())
      if (arrival.common != kNobody)
        common = common == kNobody ? arrival.common : sequences_.Common(common, arrival.common);
    return std::max(common, 0);
  }

  void FollowEpsilons(size_t t) {
    const Frame &frame = frames_[t];
    if (frame.inner.empty()) return;
    std::vector<int32_t> place(frame.size());
    const std::vector<int32_t> order = EpsilonOrder(frame);
    for (size_t i = 0; i < order.size(); ++i) place[order[i]] = static_cast<int32_t>(i);
    std::vector<const Link *> links;
    for (const Link &link : frame.inner) links.push_back(&link);
    std::stable_sort(links.begin(), links.end(), [&](const Link *a, const Link *b) {
      return place[a->source] < place[b->source];
    });
    for (const Link *link : links) Arrive(t, t, *link, graph_.epsilon);
  }

  void Arrive(size_t from, size_t to, const Link &link, const ArcsView &arcs) {
    const Arrival &before = arrivals_[from][link.source];
    const float cost = (frames_[from].cost[link.source] + link.acoustic) + link.graph;
    if (before.common == kNobody || !(cost <= frames_[to].cost[link.target] + kNear)) return;
    Arrival &after = arrivals_[to][link.target];
    const int32_t word = arcs.olabel[link.arc];
    const int32_t said =
        word > 0 && before.whole ? sequences_.Append(before.common, word) : before.common;
    const bool whole = before.whole;
    if (after.common == kNobody) {
      after.common = said;
      after.whole = whole;
    } else {
      const int32_t common = sequences_.Common(after.common, said);
      after.whole = after.whole && whole && common == said && common == after.common;
      after.common = common;
    }
    if (cost < after.cost) {
      after.cost = cost;
      after.link = &link;
      after.emits = from != to;
    }
  }

  // The best path to a token of the last frame.
  std::shared_ptr<const Stretch> ReadBack(int32_t token) const {
    auto path = std::make_shared<Stretch>();
    size_t t = frames_.size() - 1;
    while (const Link *link = arrivals_[t][token].link) {
      const bool emits = arrivals_[t][token].emits;
      const ArcsView &arcs = emits ? graph_.emitting : graph_.epsilon;
      t -= emits;
      if (emits) path->tid.push_back(arcs.ilabel[link->arc]);
      if (const int32_t word = arcs.olabel[link->arc]; word > 0) {
        path->word.push_back(word);
        path->frame.push_back(static_cast<int32_t>(past_.frame + t));
      }
      token = link->source;
    }
    for (auto *column : {&path->word, &path->frame, &path->tid})
      std::reverse(column->begin(), column->end());
    path->before = past_.ways[frames_[0].origin[token]].best;
    return path;
  }

  const GraphView &graph_;
  const std::vector<Frame> &frames_;
  const Past &past_;
  std::vector<std::vector<Arrival>> arrivals_;
  Sequences sequences_;
};

}  // namespace

void Trace(const GraphView &graph, const std::vector<Frame> &frames, const Past &past,
           BestPath *path) {
  Tracer(graph, frames, past).ReadBest(path);
}

Past TraceWays(const GraphView &graph, const std::vector<Frame> &frames, const Past &past,
               const std::vector<int32_t> &tokens) {
  return Tracer(graph, frames, past).Ways(tokens);
}

}  // namespace search

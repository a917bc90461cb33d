// Which labels may be read next from each state of a graph.
//
// Labels are numbered as a walk through the graph finds them, which goes on behind a label only
// when all of a tree is seen. What can be read from a state of the tree is then one span of numbers
// or a few, as in OpenFst's label lookahead (Allauzen, Riley & Schalkwyk 2009).

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <utility>

#include "lattice.h"

namespace {

using Spans = std::vector<std::pair<int32_t, int32_t>>;

struct Labels {
  std::vector<int32_t> number, set, first, last, ends;
  std::vector<int64_t> spans{0};
};

// Tarjan's strongly connected components over the arcs without label: what follows a component is
// known before it is.
class Walk {
 public:
  Walk(const GraphView &graph, int32_t num_labels, Labels *labels)
      : graph_(graph), labels_(*labels), order_(graph.num_states, 0), low_(graph.num_states) {
    labels_.number.assign(num_labels, 0);
    labels_.set.assign(graph.num_states, -1);
    Visit(graph.start);
    for (size_t at = 0; at < behind_.size(); ++at) Visit(behind_[at]);
    for (int32_t state = 0; state < graph.num_states; ++state) Visit(state);
  }

 private:
  struct Open {
    int32_t state;
    int64_t emitting, epsilon;  // the next arcs to look at
  };

  void Visit(int32_t from) {
    if (order_[from]) return;
    Enter(from);
    while (!open_.empty()) {
      Open &top = open_.back();
      const int32_t state = top.state;
      const ArcsView *arcs = &graph_.emitting;
      int64_t *at = &top.emitting;
      if (*at == arcs->offsets[state + 1]) arcs = &graph_.epsilon, at = &top.epsilon;
      if (*at < arcs->offsets[state + 1]) {
        const int64_t arc = (*at)++;
        const int32_t label = arcs->olabel[arc], next = arcs->nextstate[arc];
        if (label) {
          if (!labels_.number[label]) labels_.number[label] = ++count_;
          behind_.push_back(next);
        } else if (!order_[next]) {
          Enter(next);
        } else if (labels_.set[next] < 0) {
          low_[state] = std::min(low_[state], order_[next]);
        }
        continue;
      }
      open_.pop_back();
      if (!open_.empty())
        low_[open_.back().state] = std::min(low_[open_.back().state], low_[state]);
      if (low_[state] == order_[state]) Leave(state);
    }
  }

  void Enter(int32_t state) {
    order_[state] = low_[state] = ++entered_;
    component_.push_back(state);
    open_.push_back({state, graph_.emitting.offsets[state], graph_.epsilon.offsets[state]});
  }

  // Gives all states of a component their set.
  void Leave(int32_t root) {
    const auto begin = std::find(component_.rbegin(), component_.rend(), root).base() - 1;
    Spans spans;
    bool ends = false;
    std::vector<int32_t> following;
    for (auto state = begin; state != component_.end(); ++state) {
      ends = ends || graph_.final[*state] < std::numeric_limits<float>::infinity();
      for (const ArcsView *arcs : {&graph_.emitting, &graph_.epsilon})
        for (int64_t arc = arcs->offsets[*state]; arc < arcs->offsets[*state + 1]; ++arc) {
          const int32_t label = arcs->olabel[arc] ? labels_.number[arcs->olabel[arc]] : 0;
          if (label)
            spans.push_back({label, label});
          else if (labels_.set[arcs->nextstate[arc]] >= 0)
            following.push_back(labels_.set[arcs->nextstate[arc]]);
        }
    }
    std::sort(following.begin(), following.end());
    following.erase(std::unique(following.begin(), following.end()), following.end());
    for (const int32_t set : following) {
      ends = ends || labels_.ends[set];
      for (int64_t at = labels_.spans[set]; at < labels_.spans[set + 1]; ++at)
        spans.push_back({labels_.first[at], labels_.last[at]});
    }
    const bool same = following.size() == 1 && spans.size() == Size(following[0]) &&
                      ends == static_cast<bool>(labels_.ends[following[0]]);
    const int32_t set = same ? following[0] : Number(std::move(spans), ends);
    for (auto state = begin; state != component_.end(); ++state) labels_.set[*state] = set;
    component_.erase(begin, component_.end());
  }

  size_t Size(int32_t set) const { return labels_.spans[set + 1] - labels_.spans[set]; }

  // The number of a set of labels, equal sets having one.
  int32_t Number(Spans spans, bool ends) {
    std::sort(spans.begin(), spans.end());
    Spans joined;
    for (const auto &span : spans) {
      if (!joined.empty() && span.first <= joined.back().second + 1)
        joined.back().second = std::max(joined.back().second, span.second);
      else
        joined.push_back(span);
    }
    const int32_t made = static_cast<int32_t>(labels_.ends.size());
    const auto found = sets_.try_emplace({joined, ends}, made);
    if (!found.second) return found.first->second;
    for (const auto &span : joined) {
      labels_.first.push_back(span.first);
      labels_.last.push_back(span.second);
    }
    labels_.spans.push_back(labels_.first.size());
    labels_.ends.push_back(ends);
    return made;
  }

  const GraphView &graph_;
  Labels &labels_;
  int32_t count_ = 0, entered_ = 0;
  std::vector<int32_t> order_, low_;  // of each state: when it was entered, 0: not yet
  std::vector<int32_t> component_, behind_;
  std::vector<Open> open_;
  std::map<std::pair<Spans, bool>, int32_t> sets_;
};

}  // namespace

extern "C" {

// Numbers the output labels 1 .. num_labels - 1 of a graph, and finds which of them may be read next
// from each state.  To be given back to decoder_free_labels; null if memory is short.
void *decoder_number_labels(const GraphView *graph, int32_t num_labels, LabelsView *view) {
  return Guarded<void *>(nullptr, [&] {
    auto labels = std::make_unique<Labels>();
    Walk(*graph, num_labels, labels.get());
    *view = {static_cast<int64_t>(labels->number.size()),
             static_cast<int64_t>(labels->set.size()),
             static_cast<int64_t>(labels->ends.size()),
             static_cast<int64_t>(labels->first.size()),
             labels->number.data(),
             labels->set.data(),
             labels->spans.data(),
             labels->first.data(),
             labels->last.data(),
             labels->ends.data()};
    return labels.release();
  });
}

void decoder_free_labels(void *labels) noexcept { delete static_cast<Labels *>(labels); }

}  // extern "C"

// Subsets in the order of the best path through them, within the beam and the memory.

#include "determinizer.h"

#include <functional>

namespace determinize {

constexpr int64_t kArcBytes = 32, kElementBytes = 24, kStringBytes = 32;

Determinizer::Determinizer(const Acceptor &acceptor, double beam, int64_t max_bytes)
    : acceptor_(acceptor),
      backward_(BackwardCosts(acceptor)),
      cutoff_(backward_[0] + beam),
      beam_(beam),
      max_bytes_(max_bytes),
      slot_(acceptor.arcs.size(), -1),
      speaks_(acceptor.arcs.size()) {
  for (size_t state = 0; state < speaks_.size(); ++state) {
    speaks_[state] = acceptor.IsFinal(state);
    for (const Arc &arc : acceptor.arcs[state]) speaks_[state] |= arc.label != 0;
  }
}

double Determinizer::Run() {
  std::vector<Element> start{{0, kEmpty, 0, 0}};
  Close(&start);
  AddSubset(start, 0);
  while (!queue_.empty()) {
    if (subsets_.size() % 10 == 0 && IsTooLarge())
      return queue_.front().priority - backward_[0];
    std::pop_heap(queue_.begin(), queue_.end(), Later());
    Task task = std::move(queue_.back());
    queue_.pop_back();
    Found before = Normalize(&task.elements);
    const double forward = subsets_[task.owner].forward + Cost(before.graph, before.acoustic);
    const Found after = Reach(task.elements, forward);
    const int32_t string = strings_.Concatenate(before.string, after.string);
    subsets_[task.owner].arcs.push_back({task.label, string, before.graph + after.graph,
                                         before.acoustic + after.acoustic, after.state});
    ++num_arcs_;
  }
  return beam_;
}

Found Determinizer::Reach(const std::vector<Element> &elements, double forward) {
  if (const Found *found = initial_.Find(elements)) return *found;
  std::vector<Element> closed = elements;
  Close(&closed);
  Found rest = Normalize(&closed);
  const Found *known = minimal_.Find(closed);
  forward += Cost(rest.graph, rest.acoustic);
  rest.state = known ? known->state : AddSubset(closed, forward);
  initial_.Add(elements, rest);
  num_elements_ += elements.size();
  return rest;
}

void Determinizer::Close(std::vector<Element> *elements) {
  std::vector<Element> &best = closure_;
  best = *elements;
  heap_.clear();
  for (size_t i = 0; i < best.size(); ++i) {
    slot_[best[i].state] = static_cast<int32_t>(i);
    heap_.push_back(best[i].state);
  }
  std::make_heap(heap_.begin(), heap_.end(), std::greater<int32_t>());
  while (!heap_.empty()) {
    std::pop_heap(heap_.begin(), heap_.end(), std::greater<int32_t>());
    const Element from = best[slot_[heap_.back()]];
    heap_.pop_back();
    for (const Arc &arc : acceptor_.arcs[from.state]) {
      if (arc.label != 0) continue;
      Element made{arc.next, kEmpty, from.graph + arc.graph, from.acoustic + arc.acoustic};
      int32_t &slot = slot_[arc.next];
      if (slot < 0) {
        made.string = strings_.Extend(from.string, arc.tid);
        slot = static_cast<int32_t>(best.size());
        best.push_back(made);
        heap_.push_back(arc.next);
        std::push_heap(heap_.begin(), heap_.end(), std::greater<int32_t>());
      } else if (made.cost() <= best[slot].cost()) {
        made.string = strings_.Extend(from.string, arc.tid);
        if (strings_.Prefers(made, best[slot])) best[slot] = made;
      }
    }
  }
  elements->clear();
  for (const Element &element : best) {
    slot_[element.state] = -1;
    if (speaks_[element.state]) elements->push_back(element);
  }
  std::sort(elements->begin(), elements->end(),
            [](const Element &a, const Element &b) { return a.state < b.state; });
}

Found Determinizer::Normalize(std::vector<Element> *elements) {
  int32_t prefix = elements->front().string;
  Element cheapest = elements->front();
  for (const Element &element : *elements) {
    prefix = strings_.CommonPrefix(prefix, element.string);
    if (element.cost() < cheapest.cost() ||
        (element.cost() == cheapest.cost() && element.graph < cheapest.graph))
      cheapest = element;
  }
  const int32_t skip = strings_.depth(prefix);
  for (Element &element : *elements) {
    element.string = strings_.Concatenate(kEmpty, element.string, skip);
    element.graph -= cheapest.graph;
    element.acoustic -= cheapest.acoustic;
  }
  return {-1, prefix, cheapest.graph, cheapest.acoustic};
}

int32_t Determinizer::AddSubset(const std::vector<Element> &elements, double forward) {
  const int32_t number = static_cast<int32_t>(subsets_.size());
  subsets_.push_back({elements, forward, {}});
  minimal_.Add(elements, {number, kEmpty, 0, 0});
  num_elements_ += elements.size();
  EndPaths(number);
  PlanArcs(number);
  return number;
}

void Determinizer::EndPaths(int32_t number) {
  Subset &subset = subsets_[number];
  Element best{-1, kEmpty, 0, 0};
  for (const Element &element : subset.elements) {
    if (!acceptor_.IsFinal(element.state)) continue;
    const Element ended{element.state, element.string,
                        element.graph + acceptor_.final_graph[element.state],
                        element.acoustic + acceptor_.final_acoustic[element.state]};
    if (best.state < 0 || strings_.Prefers(ended, best)) best = ended;
  }
  if (best.state < 0 || !(Cost(best.graph, best.acoustic) + subset.forward <= cutoff_)) return;
  subset.arcs.push_back({0, best.string, best.graph, best.acoustic, -1});
  ++num_arcs_;
}

void Determinizer::PlanArcs(int32_t number) {
  ways_.clear();
  for (const Element &element : subsets_[number].elements)
    for (const Arc &arc : acceptor_.arcs[element.state])
      if (arc.label != 0)
        ways_.push_back({arc.label,
                         {arc.next, strings_.Extend(element.string, arc.tid),
                          element.graph + arc.graph, element.acoustic + arc.acoustic}});
  std::stable_sort(ways_.begin(), ways_.end(), [](const auto &a, const auto &b) {
    return a.first != b.first ? a.first < b.first : a.second.state < b.second.state;
  });
  for (size_t at = 0; at < ways_.size();) {
    Task task{kInfinity, 0, number, ways_[at].first, {}};
    for (; at < ways_.size() && ways_[at].first == task.label; ++at) {
      const Element &made = ways_[at].second;
      if (task.elements.empty() || task.elements.back().state != made.state)
        task.elements.push_back(made);
      else if (strings_.Prefers(made, task.elements.back()))
        task.elements.back() = made;
    }
    for (const Element &element : task.elements)
      task.priority = std::min(
          task.priority, Cost(element.graph, element.acoustic) + backward_[element.state]);
    task.priority = subsets_[number].forward + task.priority;
    if (!(task.priority <= cutoff_)) continue;
    task.number = ++num_tasks_;
    queue_.push_back(std::move(task));
    std::push_heap(queue_.begin(), queue_.end(), Later());
  }
}

bool Determinizer::IsTooLarge() {
  const int64_t rest = num_arcs_ * kArcBytes + num_elements_ * kElementBytes;
  const int64_t strings = static_cast<int64_t>(strings_.size()) - 1;
  if (rest + (strings - garbage_) * kStringBytes <= max_bytes_) return false;
  std::vector<char> needed(strings_.size(), 0);
  auto need = [&](const std::vector<Element> &elements) {
    for (const Element &element : elements) needed[element.string] = 1;
  };
  for (const Subset &subset : subsets_) {
    need(subset.elements);
    for (const OutputArc &arc : subset.arcs) needed[arc.string] = 1;
  }
  for (const Task &task : queue_) need(task.elements);
  for (const SubsetTable::Entry &entry : initial_.entries()) {
    need(entry.subset);
    needed[entry.found.string] = 1;
  }
  const int64_t live = strings_.CountLive(needed);
  garbage_ = strings - live;
  return rest + live * kStringBytes > max_bytes_ * 0.8;
}

}  // namespace determinize

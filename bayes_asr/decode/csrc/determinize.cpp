// Pruned lattice determinization, the twin of determinize.py: same steps, same results.  Costs of paths
// are floats and compared as sums of floats, because ties are frequent and Kaldi's results hang on
// how they round; only the costs that guide the search are doubles.

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <new>
#include <queue>

#include "lattice.h"

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr float kNone = std::numeric_limits<float>::infinity();
constexpr double kTolerance = 1.0 / 1024;
constexpr int32_t kEmpty = 0;
constexpr int64_t kArcBytes = 32, kElementBytes = 24, kStringBytes = 32;
constexpr double kRetryCutoff = 0.5;
constexpr int kMaxTries = 10;

struct Arc {
  int32_t label;
  int32_t tid;
  float graph;
  float acoustic;
  int32_t next;
};

// Rows of a lattice whose labels are to be made deterministic; final costs infinite for none.
struct Acceptor {
  std::vector<std::vector<Arc>> arcs;
  std::vector<float> final_graph, final_acoustic;

  int32_t AddState() {
    arcs.emplace_back();
    final_graph.push_back(kNone);
    final_acoustic.push_back(kNone);
    return static_cast<int32_t>(arcs.size()) - 1;
  }
  bool IsFinal(int32_t state) const { return final_graph[state] < kNone; }
};

double Cost(float graph, float acoustic) {
  return static_cast<double>(graph) + static_cast<double>(acoustic);
}

struct Element {
  int32_t state;
  int32_t string;
  float graph;
  float acoustic;

  float cost() const { return graph + acoustic; }
};

struct OutputArc {
  int32_t label;
  int32_t string;
  float graph;
  float acoustic;
  int32_t next;  // -1: this is the final weight
};

// Reachable states in topological order, depth first; arcs of `rows` lead to arc.next.
template <class Row>
std::vector<int32_t> TopologicalOrder(const std::vector<Row> &rows) {
  std::vector<int32_t> finished, stack{0};
  std::vector<size_t> place(rows.size(), 0);
  std::vector<char> opened(rows.size(), 0);
  opened[0] = 1;
  while (!stack.empty()) {
    const int32_t state = stack.back();
    if (place[state] == rows[state].size()) {
      finished.push_back(state);
      stack.pop_back();
      continue;
    }
    const int32_t next = rows[state][place[state]++].next;
    if (next < 0 || opened[next]) continue;
    opened[next] = 1;
    stack.push_back(next);
  }
  std::reverse(finished.begin(), finished.end());
  return finished;
}

void SortStates(Acceptor *acceptor) {
  const std::vector<int32_t> order = TopologicalOrder(acceptor->arcs);
  std::vector<int32_t> number(acceptor->arcs.size(), -1);
  for (size_t state = 0; state < order.size(); ++state) number[order[state]] = state;
  Acceptor sorted;
  for (const int32_t state : order) {
    const int32_t made = sorted.AddState();
    sorted.arcs[made].swap(acceptor->arcs[state]);
    for (Arc &arc : sorted.arcs[made]) arc.next = number[arc.next];
    sorted.final_graph[made] = acceptor->final_graph[state];
    sorted.final_acoustic[made] = acceptor->final_acoustic[state];
  }
  *acceptor = std::move(sorted);
}

std::vector<double> BackwardCosts(const Acceptor &acceptor) {
  std::vector<double> costs(acceptor.arcs.size());
  for (size_t state = costs.size(); state-- > 0;) {
    costs[state] = Cost(acceptor.final_graph[state], acceptor.final_acoustic[state]);
    for (const Arc &arc : acceptor.arcs[state])
      costs[state] = std::min(costs[state], Cost(arc.graph, arc.acoustic) + costs[arc.next]);
  }
  return costs;
}

// Drops arcs and ends that no path within the beam uses.
void PruneAcceptor(double beam, Acceptor *acceptor) {
  const std::vector<double> backward = BackwardCosts(*acceptor);
  const double cutoff = backward[0] + beam;
  std::vector<double> forward(acceptor->arcs.size(), kInfinity);
  forward[0] = 0;
  for (size_t state = 0; state < forward.size(); ++state) {
    std::vector<Arc> &row = acceptor->arcs[state];
    for (const Arc &arc : row)
      forward[arc.next] =
          std::min(forward[arc.next], forward[state] + Cost(arc.graph, arc.acoustic));
    row.erase(std::remove_if(row.begin(), row.end(),
                             [&](const Arc &arc) {
                               return forward[state] + Cost(arc.graph, arc.acoustic) +
                                          backward[arc.next] >
                                      cutoff;
                             }),
              row.end());
    if (forward[state] + Cost(acceptor->final_graph[state], acceptor->final_acoustic[state]) >
        cutoff)
      acceptor->final_graph[state] = acceptor->final_acoustic[state] = kNone;
  }
  SortStates(acceptor);
}

// Sequences of transition-ids as nodes of a tree, so that equal sequences are one number.
class Strings {
 public:
  Strings() : parent_{0}, label_{0}, depth_{0}, table_(1024, 0) {}

  int32_t depth(int32_t string) const { return depth_[string]; }
  size_t size() const { return parent_.size(); }

  int32_t Extend(int32_t string, int32_t tid) {
    if (tid == 0) return string;
    size_t slot = Slot(string, tid);
    if (table_[slot] != 0) return table_[slot];
    const int32_t made = static_cast<int32_t>(parent_.size());
    parent_.push_back(string);
    label_.push_back(tid);
    depth_.push_back(depth_[string] + 1);
    table_[slot] = made;
    if (parent_.size() * 2 > table_.size()) Grow();
    return made;
  }

  void Labels(int32_t string, int32_t skip, std::vector<int32_t> *labels) const {
    labels->resize(depth_[string] - skip);
    for (size_t i = labels->size(); i-- > 0; string = parent_[string])
      (*labels)[i] = label_[string];
  }

  int32_t Concatenate(int32_t first, int32_t second, int32_t skip = 0) {
    if (skip == 0 && first == kEmpty) return second;
    Labels(second, skip, &labels_);
    for (const int32_t tid : labels_) first = Extend(first, tid);
    return first;
  }

  int32_t CommonPrefix(int32_t first, int32_t second) const {
    while (first != second) {
      if (depth_[first] >= depth_[second])
        first = parent_[first];
      else
        second = parent_[second];
    }
    return first;
  }

  bool Prefers(const Element &made, const Element &old) const {
    if (made.cost() != old.cost()) return made.cost() < old.cost();
    if (made.graph != old.graph || made.string == old.string) return made.graph < old.graph;
    if (depth_[made.string] != depth_[old.string])
      return depth_[made.string] < depth_[old.string];
    std::vector<int32_t> a, b;
    Labels(made.string, 0, &a);
    Labels(old.string, 0, &b);
    return a > b;
  }

  // How many strings remain if only `needed` and their prefixes are.
  int64_t CountLive(const std::vector<char> &needed) const {
    std::vector<char> live(needed);
    int64_t count = 0;
    for (size_t string = live.size(); string-- > 1;)
      if (live[string]) {
        ++count;
        live[parent_[string]] = 1;
      }
    return count;
  }

 private:
  size_t Slot(int32_t string, int32_t tid) const {
    uint64_t key = (static_cast<uint64_t>(string) << 32) ^ static_cast<uint32_t>(tid);
    key *= 0x9E3779B97F4A7C15ull;
    const size_t mask = table_.size() - 1;
    size_t slot = (key >> 29) & mask;
    while (table_[slot] != 0 && (parent_[table_[slot]] != string || label_[table_[slot]] != tid))
      slot = (slot + 1) & mask;
    return slot;
  }

  void Grow() {
    table_.assign(table_.size() * 2, 0);
    for (size_t string = 1; string < parent_.size(); ++string)
      table_[Slot(parent_[string], label_[string])] = static_cast<int32_t>(string);
  }

  std::vector<int32_t> parent_, label_, depth_, table_, labels_;
};

struct Found {
  int32_t state = -1;
  int32_t string = kEmpty;
  float graph = 0;
  float acoustic = 0;
};

// Finds what belongs to a subset: equal states and strings, weights within the tolerance.  Of
// several the one stored last counts, as in Kaldi's hash table.
class SubsetTable {
 public:
  struct Entry {
    std::vector<Element> subset;
    Found found;
    int64_t next;
  };

  SubsetTable() : heads_(256, -1) {}

  const Found *Find(const std::vector<Element> &subset) const {
    for (int64_t at = heads_[Hash(subset) & (heads_.size() - 1)]; at >= 0; at = entries_[at].next)
      if (Equal(entries_[at].subset, subset)) return &entries_[at].found;
    return nullptr;
  }

  void Add(const std::vector<Element> &subset, const Found &found) {
    if (entries_.size() > heads_.size()) {
      heads_.assign(heads_.size() * 4, -1);
      for (size_t at = 0; at < entries_.size(); ++at) Link(at);
    }
    entries_.push_back({subset, found, -1});
    Link(entries_.size() - 1);
  }

  const std::vector<Entry> &entries() const { return entries_; }

 private:
  static size_t Hash(const std::vector<Element> &subset) {
    uint64_t hash = 0;
    for (const Element &element : subset) {
      hash = (hash + element.state) * 0x9E3779B97F4A7C15ull;
      hash = ((hash ^ (hash >> 29)) + element.string) * 0xBF58476D1CE4E5B9ull;
    }
    return hash ^ (hash >> 32);
  }

  static bool Equal(const std::vector<Element> &a, const std::vector<Element> &b) {
    if (a.size() != b.size()) return false;
    for (size_t i = 0; i < a.size(); ++i)
      if (a[i].state != b[i].state || a[i].string != b[i].string ||
          !(std::fabs(a[i].cost() - b[i].cost()) <= kTolerance))
        return false;
    return true;
  }

  void Link(size_t at) {
    int64_t &head = heads_[Hash(entries_[at].subset) & (heads_.size() - 1)];
    entries_[at].next = head;
    head = static_cast<int64_t>(at);
  }

  std::vector<Entry> entries_;
  std::vector<int64_t> heads_;
};

struct Subset {
  std::vector<Element> elements;
  double forward;
  std::vector<OutputArc> arcs;
};

struct Task {
  double priority;
  int64_t number;
  int32_t owner;
  int32_t label;
  std::vector<Element> elements;
};

struct Later {
  bool operator()(const Task &a, const Task &b) const {
    return a.priority != b.priority ? a.priority > b.priority : a.number > b.number;
  }
};

class Determinizer {
 public:
  Determinizer(const Acceptor &acceptor, double beam, int64_t max_bytes)
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

  // Expands subsets in the order of the best path through them; returns the beam that was reached.
  double Run() {
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

  const std::vector<Subset> &subsets() const { return subsets_; }
  const Strings &strings() const { return strings_; }

 private:
  Found Reach(const std::vector<Element> &elements, double forward) {
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

  // Follows arcs without label; keeps the states that end or have labelled arcs.
  void Close(std::vector<Element> *elements) {
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

  // Takes out the common prefix of the strings and the weight of the cheapest element.
  Found Normalize(std::vector<Element> *elements) {
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

  int32_t AddSubset(const std::vector<Element> &elements, double forward) {
    const int32_t number = static_cast<int32_t>(subsets_.size());
    subsets_.push_back({elements, forward, {}});
    minimal_.Add(elements, {number, kEmpty, 0, 0});
    num_elements_ += elements.size();
    EndPaths(number);
    PlanArcs(number);
    return number;
  }

  void EndPaths(int32_t number) {
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

  // Queues one task for each label that leaves the subset within the beam.
  void PlanArcs(int32_t number) {
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

  // Kaldi's estimate of its memory; strings that nothing needs any more do not count.
  bool IsTooLarge() {
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

  const Acceptor &acceptor_;
  const std::vector<double> backward_;
  const double cutoff_, beam_;
  const int64_t max_bytes_;
  Strings strings_;
  std::vector<Subset> subsets_;
  SubsetTable minimal_, initial_;
  std::vector<Task> queue_;
  int64_t num_tasks_ = 0, num_arcs_ = 0, num_elements_ = 0, garbage_ = 0;
  std::vector<int32_t> slot_, heap_;
  std::vector<char> speaks_;
  std::vector<Element> closure_;
  std::vector<std::pair<int32_t, Element>> ways_;
};

// Determinizes; where memory sets a much tighter beam, prunes the input to about that and retries.
std::unique_ptr<Determinizer> Determinize(Acceptor *acceptor, double beam, int64_t max_bytes) {
  for (int tried = 1;; ++tried) {
    auto determinizer = std::make_unique<Determinizer>(*acceptor, beam, max_bytes);
    const double reached = determinizer->Run();
    if (reached >= beam * kRetryCutoff || tried == kMaxTries) return determinizer;
    determinizer.reset();
    beam = std::max(beam * std::sqrt(std::max(reached, 0.0) / beam), 0.5 * beam);
    PruneAcceptor(beam, acceptor);
  }
}

// Labels arcs with words, and with first_phone + phone where a transition-id begins a phone: on
// the same arc, or after the word if there is one.  Arcs out of the start get no phone.
Acceptor InsertPhones(const LatticeView &lattice, const int32_t *phone_start,
                      int32_t first_phone) {
  Acceptor acceptor;
  for (int64_t state = 0; state < lattice.num_states; ++state) {
    acceptor.AddState();
    acceptor.final_graph[state] = lattice.final_graph[state];
    acceptor.final_acoustic[state] = lattice.final_acoustic[state];
  }
  for (int64_t state = 0; state < lattice.num_states; ++state)
    for (int64_t at = lattice.offsets[state]; at < lattice.offsets[state + 1]; ++at) {
      const int32_t word = lattice.olabel[at], tid = lattice.ilabel[at];
      const int32_t phone = state == 0 ? 0 : phone_start[tid];
      Arc arc{word, tid, lattice.graph[at], lattice.acoustic[at], lattice.nextstate[at]};
      if (phone != 0 && word != 0) {
        const int32_t between = acceptor.AddState();
        acceptor.arcs[between].push_back({first_phone + phone, 0, 0, 0, arc.next});
        arc.next = between;
      } else if (phone != 0) {
        arc.label = first_phone + phone;
      }
      acceptor.arcs[state].push_back(arc);
    }
  SortStates(&acceptor);
  return acceptor;
}

// The result of the first pass as an acceptor of words, one transition-id an arc.
Acceptor WithoutPhones(const Determinizer &done, int32_t first_phone) {
  Acceptor acceptor;
  for (size_t state = 0; state < done.subsets().size(); ++state) acceptor.AddState();
  std::vector<int32_t> tids;
  for (size_t number = 0; number < done.subsets().size(); ++number)
    for (const OutputArc &from : done.subsets()[number].arcs) {
      done.strings().Labels(from.string, 0, &tids);
      Arc arc{from.label < first_phone ? from.label : 0, 0, from.graph, from.acoustic, -1};
      const bool ends = from.next < 0;
      if (ends && tids.empty()) {
        acceptor.final_graph[number] = from.graph;
        acceptor.final_acoustic[number] = from.acoustic;
        continue;
      }
      int32_t state = static_cast<int32_t>(number);
      for (size_t i = 0; i == 0 || i < tids.size(); ++i) {
        const bool last = i + 1 >= tids.size();
        arc.tid = tids.empty() ? 0 : tids[i];
        arc.next = last && !ends ? from.next : acceptor.AddState();
        acceptor.arcs[state].push_back(arc);
        state = arc.next;
        arc = {0, 0, 0, 0, -1};
      }
      if (ends) acceptor.final_graph[state] = acceptor.final_acoustic[state] = 0;
    }
  SortStates(&acceptor);
  return acceptor;
}

struct WordLattice {
  std::vector<int64_t> offsets, tid_offsets, final_tid_offsets;
  std::vector<int32_t> word, nextstate, tids, final_tids;
  std::vector<float> graph, acoustic, final_graph, final_acoustic;
};

// The result as arrays, topologically sorted, without states that lead nowhere.
void BuildWordLattice(const Determinizer &done, WordLattice *lattice) {
  std::vector<std::vector<OutputArc>> rows;
  for (const Subset &subset : done.subsets()) rows.push_back(subset.arcs);
  const std::vector<int32_t> order = TopologicalOrder(rows);
  std::vector<int32_t> number(rows.size(), -1);
  std::vector<char> useful(rows.size(), 0);
  for (size_t at = order.size(); at-- > 0;)
    for (const OutputArc &arc : rows[order[at]])
      if (arc.next < 0 || useful[arc.next]) useful[order[at]] = 1;
  int32_t count = 0;
  for (const int32_t state : order)
    if (useful[state]) number[state] = count++;
  std::vector<int32_t> tids;
  lattice->offsets = lattice->tid_offsets = lattice->final_tid_offsets = {0};
  for (const int32_t state : order) {
    if (!useful[state]) continue;
    float final_graph = kNone, final_acoustic = kNone;
    for (const OutputArc &arc : rows[state]) {
      if (arc.next >= 0 && number[arc.next] < 0) continue;
      done.strings().Labels(arc.string, 0, &tids);
      if (arc.next < 0) {
        final_graph = arc.graph;
        final_acoustic = arc.acoustic;
        lattice->final_tids.insert(lattice->final_tids.end(), tids.begin(), tids.end());
        continue;
      }
      lattice->word.push_back(arc.label);
      lattice->graph.push_back(arc.graph);
      lattice->acoustic.push_back(arc.acoustic);
      lattice->nextstate.push_back(number[arc.next]);
      lattice->tids.insert(lattice->tids.end(), tids.begin(), tids.end());
      lattice->tid_offsets.push_back(lattice->tids.size());
    }
    lattice->offsets.push_back(lattice->word.size());
    lattice->final_graph.push_back(final_graph);
    lattice->final_acoustic.push_back(final_acoustic);
    lattice->final_tid_offsets.push_back(lattice->final_tids.size());
  }
}

}  // namespace

extern "C" {

// Determinizes a state-level lattice; phone_start[tid] is the phone that a transition-id begins,
// or 0; max_bytes bounds Kaldi's estimate of the memory.  Returns a word lattice to be given back
// to decoder_free_words, or null if memory is short.
void *decoder_determinize(const LatticeView *lattice, const int32_t *phone_start, double beam,
                          int64_t max_bytes, CompactView *view) {
  try {
    int32_t first_phone = 1;
    for (int64_t arc = 0; arc < lattice->num_arcs; ++arc)
      first_phone = std::max(first_phone, lattice->olabel[arc] + 1);
    Acceptor acceptor = InsertPhones(*lattice, phone_start, first_phone);
    std::unique_ptr<Determinizer> pass = Determinize(&acceptor, beam, max_bytes);
    acceptor = WithoutPhones(*pass, first_phone);
    pass = Determinize(&acceptor, beam, max_bytes);
    auto words = std::make_unique<WordLattice>();
    BuildWordLattice(*pass, words.get());
    *view = {static_cast<int64_t>(words->final_graph.size()),
             static_cast<int64_t>(words->word.size()),
             static_cast<int64_t>(words->tids.size()),
             static_cast<int64_t>(words->final_tids.size()),
             words->offsets.data(),
             words->word.data(),
             words->graph.data(),
             words->acoustic.data(),
             words->nextstate.data(),
             words->tid_offsets.data(),
             words->tids.data(),
             words->final_graph.data(),
             words->final_acoustic.data(),
             words->final_tid_offsets.data(),
             words->final_tids.data()};
    return words.release();
  } catch (const std::bad_alloc &) {
    return nullptr;
  }
}

void decoder_free_words(void *words) { delete static_cast<WordLattice *>(words); }

}  // extern "C"

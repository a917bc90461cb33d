// One pass of pruned determinization over subsets of weighted states.

#pragma once

#include "acceptor.h"
#include "subset_table.h"

namespace determinize {

struct OutputArc {
  int32_t label;
  int32_t string;
  float graph;
  float acoustic;
  int32_t next;  // -1: this is the final weight
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
  Determinizer(const Acceptor &acceptor, double beam, int64_t max_bytes);

  // Expands subsets in the order of the best path through them; returns the beam that was reached.
  double Run();

  const std::vector<Subset> &subsets() const { return subsets_; }
  const Strings &strings() const { return strings_; }

 private:
  Found Reach(const std::vector<Element> &elements, double forward);
  // Follows arcs without label; keeps the states that end or have labelled arcs.
  void Close(std::vector<Element> *elements);
  // Takes out the common prefix of the strings and the weight of the cheapest element.
  Found Normalize(std::vector<Element> *elements);
  int32_t AddSubset(const std::vector<Element> &elements, double forward);
  void EndPaths(int32_t number);
  // Queues one task for each label that leaves the subset within the beam.
  void PlanArcs(int32_t number);
  // Kaldi's estimate of its memory; strings that nothing needs any more do not count.
  bool IsTooLarge();

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

}  // namespace determinize

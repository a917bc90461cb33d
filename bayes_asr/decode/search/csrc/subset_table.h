// Where subsets that were met before lead to.

#pragma once

#include <cmath>

#include "strings.h"

namespace determinize {

constexpr double kTolerance = 1.0 / 1024;

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

}  // namespace determinize

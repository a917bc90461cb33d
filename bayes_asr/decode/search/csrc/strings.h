// Sequences of transition-ids, and the paths that they stand for.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace determinize {

constexpr int32_t kEmpty = 0;

struct Element {
  int32_t state;
  int32_t string;
  float graph;
  float acoustic;

  float cost() const { return graph + acoustic; }
};

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
      if (first == kEmpty) return kEmpty;  // without a walk up the whole of `second`
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

}  // namespace determinize

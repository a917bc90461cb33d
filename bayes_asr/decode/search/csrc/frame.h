// What the search keeps of a frame.

#pragma once

#include <cstddef>
#include <limits>

#include "lattice.h"

namespace search {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Link {
  int32_t source;
  int32_t target;
  int32_t arc;
  float graph;
  float acoustic;
};

// The tokens alive before a frame.  Inner links (epsilon arcs) stay within the frame, outer links
// (emitting arcs, whose acoustic costs contain offset) lead to the next.  Of the first frame that is
// kept, origin says by which way paths begin in a token: 0 at the begin of the utterance; -1: they do
// not.
struct Frame {
  std::vector<float> cost;
  std::vector<float> extra;
  std::vector<Link> inner;
  std::vector<Link> outer;
  std::vector<int32_t> origin;
  float offset = 0;

  size_t size() const { return cost.size(); }

  // Gives memory back once half of it is free.
  void Shrink() {
    auto shrink = [](auto *column) {
      if (column->capacity() > 2 * column->size()) column->shrink_to_fit();
    };
    shrink(&cost);
    shrink(&extra);
    shrink(&inner);
    shrink(&outer);
  }
};

}  // namespace search

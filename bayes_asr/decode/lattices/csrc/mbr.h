// A lattice as minimum Bayes risk decoding reads it.

#pragma once

#include <cstdint>

#include "../../../base/csrc/interface.h"

extern "C" {

// The columns of `ArcTable`: arcs sorted by the depth of the node they enter, those of layer i are
// bounds[i] .. bounds[i + 1].
struct TableView {
  int64_t num_nodes;
  int64_t num_arcs;
  int64_t num_layers;
  const int64_t *bounds;
  const int32_t *source;
  const int32_t *target;
  const int32_t *word;
  const double *posterior;
  const int64_t *begin;
  const int64_t *end;
};
DESCRIBE(TableView, num_nodes, num_arcs, num_layers, bounds, source, target, word, posterior, begin,
         end);

int32_t lattices_expected_errors(const TableView *table, const int64_t *hypothesis, int64_t length,
                                 double *risk, double *occupancy, double *begin, double *end);

}  // extern "C"

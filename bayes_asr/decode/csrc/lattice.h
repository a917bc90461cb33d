// What the search hands to the determinization and both hand to Python: plain arrays in structs.
// The layout of the structs is repeated in native.py.

#pragma once

#include <cstdint>
#include <vector>

extern "C" {

// Arcs in compressed rows: those of state s are offsets[s] .. offsets[s + 1].
struct Arcs {
  const int64_t *offsets;
  const int32_t *ilabel;
  const int32_t *olabel;
  const float *weight;
  const int32_t *nextstate;
};

struct Graph {
  int32_t num_states;
  int32_t start;
  const float *final;
  Arcs emitting;
  Arcs epsilon;
  const int32_t *column;  // pdf of each emitting arc
};

struct Options {
  float beam;
  float lattice_beam;
  float beam_delta;
  int32_t max_active;
  int32_t min_active;
  int32_t prune_interval;
  int32_t allow_partial;
};

// A state-level lattice, topologically sorted.
struct LatticeView {
  int64_t num_states;
  int64_t num_arcs;
  const int64_t *offsets;
  const int32_t *ilabel;
  const int32_t *olabel;
  const float *graph;
  const float *acoustic;
  const int32_t *nextstate;
  const float *final_graph;
  const float *final_acoustic;
};

// A word lattice, topologically sorted.
struct CompactView {
  int64_t num_states;
  int64_t num_arcs;
  int64_t num_tids;
  int64_t num_final_tids;
  const int64_t *offsets;
  const int32_t *word;
  const float *graph;
  const float *acoustic;
  const int32_t *nextstate;
  const int64_t *tid_offsets;
  const int32_t *tids;
  const float *final_graph;
  const float *final_acoustic;
  const int64_t *final_tid_offsets;
  const int32_t *final_tids;
};

}  // extern "C"

constexpr int32_t kUnlimited = INT32_MAX;

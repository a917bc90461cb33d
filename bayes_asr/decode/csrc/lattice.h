// What the search hands to the determinization and both hand to Python: plain arrays in structs.
// compiled.py repeats the structs, and compares them when it loads the library.

#pragma once

#include <cstdint>
#include <vector>

#include "../../csrc/interface.h"

extern "C" {

// Arcs in compressed rows: those of state s are offsets[s] .. offsets[s + 1].
struct ArcsView {
  const int64_t *offsets;
  const int32_t *ilabel;
  const int32_t *olabel;
  const float *weight;
  const int32_t *nextstate;
};
DESCRIBE(ArcsView, offsets, ilabel, olabel, weight, nextstate);

struct GraphView {
  int32_t num_states;
  int32_t start;
  const float *final;
  ArcsView emitting;
  ArcsView epsilon;
  const int32_t *column;  // pdf of each emitting arc
};
DESCRIBE(GraphView, num_states, start, final, emitting, epsilon, column);

struct OptionsView {
  float beam;
  float lattice_beam;
  float beam_delta;
  int32_t max_active;
  int32_t min_active;
  int32_t prune_interval;
  int32_t allow_partial;
  int32_t strict;
};
DESCRIBE(OptionsView, beam, lattice_beam, beam_delta, max_active, min_active, prune_interval,
         allow_partial, strict);

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
DESCRIBE(LatticeView, num_states, num_arcs, offsets, ilabel, olabel, graph, acoustic, nextstate,
         final_graph, final_acoustic);

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
DESCRIBE(CompactView, num_states, num_arcs, num_tids, num_final_tids, offsets, word, graph,
         acoustic, nextstate, tid_offsets, tids, final_graph, final_acoustic, final_tid_offsets,
         final_tids);

// What Python calls; each is explained where it is defined.
void *decoder_search(const GraphView *graph, const OptionsView *options, const float *loglikes,
                     int64_t num_frames, int64_t num_pdfs, int32_t *reached, LatticeView *view);
void decoder_free_lattice(void *lattice);
int64_t decoder_best_arcs(const LatticeView *lattice, int64_t *arcs, int64_t *last);
void *decoder_determinize(const LatticeView *lattice, const int32_t *phone_start, double beam,
                          int64_t max_bytes, CompactView *view);
void decoder_free_words(void *words);

}  // extern "C"

constexpr int32_t kUnlimited = INT32_MAX;

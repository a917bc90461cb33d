// What the search hands to the determinization and both hand to Python: plain arrays in structs.
// compiled.py repeats the structs, and compares them when it loads the library.

#pragma once

#include <cstdint>
#include <vector>

#include "../../../base/csrc/guarded.h"
#include "../../../base/csrc/interface.h"

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

// A grammar that is composed with a graph during the search: an acceptor whose arcs are sorted by
// label within a state.  Labels are numbered by decoder_number_labels.
struct GrammarView {
  int32_t start;
  int32_t everything;  // the set of all labels and the end; -1: of no state
  const float *final;
  const int64_t *offsets;
  const int32_t *label;
  const float *weight;
  const int32_t *nextstate;
  const double *chance;     // of each arc: its probability; of backoffs, with the words behind them
  const float *ahead;       // of each state: -log of the sum over its arcs and its end
  const int32_t *emitting;  // label of each emitting arc of the graph, 0: none
  const int32_t *epsilon;   // of each epsilon arc
  const int32_t *set;       // of each state of the graph: the labels that may be read next
  const int64_t *spans;     // those of set s are first[i] .. last[i] for i = spans[s] .. spans[s + 1]
  const int32_t *first;
  const int32_t *last;
  const int32_t *ends;  // of each set: whether a path may end without a label
};
DESCRIBE(GrammarView, start, everything, final, offsets, label, weight, nextstate, chance, ahead,
         emitting, epsilon, set, spans, first, last, ends);

// Hotwords: an automaton that reads all words; state 0 is that of no phrase.
struct HotwordsView {
  int64_t num_classes;
  const int32_t *word_class;  // of each word; 0: it is in no phrase
  const int32_t *nextstate;   // [states, num_classes]
  const float *weight;        // likewise: what the word costs more
  const float *final;         // of each state: what it costs to end there
};
DESCRIBE(HotwordsView, num_classes, word_class, nextstate, weight, final);

// What may be read next in a graph, as in GrammarView; `number` holds the new label of each old one.
struct LabelsView {
  int64_t num_labels;
  int64_t num_states;
  int64_t num_sets;
  int64_t num_spans;
  const int32_t *number;
  const int32_t *set;
  const int64_t *spans;
  const int32_t *first;
  const int32_t *last;
  const int32_t *ends;
};
DESCRIBE(LabelsView, num_labels, num_states, num_sets, num_spans, number, set, spans, first, last,
         ends);

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

// Where paths of a piece of a lattice begin and where they lead into the next piece.
struct ChunkView {
  int64_t num_entries;
  int64_t num_exits;
  const int32_t *entry;   // states
  const int32_t *origin;  // which exits of the piece before they are
  const int32_t *exit;    // states
  const double *ahead;  // of each: a bound of what the rest of the cheapest path costs, less the
                        // cost of the cheapest one of all
};
DESCRIBE(ChunkView, num_entries, num_exits, entry, origin, exit, ahead);

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

// The best path of an utterance so far.
struct PathView {
  int64_t num_words;
  int64_t num_frames;
  int64_t fixed;         // how many of the words no later frame can change
  const int32_t *word;   // in their order
  const int32_t *frame;  // of each word: the frame before which it was written
  const int32_t *tid;    // of each frame
};
DESCRIBE(PathView, num_words, num_frames, fixed, word, frame, tid);

// What Python calls; each is explained where it is defined.
void *decoder_open(const GraphView *graph, const GrammarView *grammar,
                   const HotwordsView *hotwords, const OptionsView *options, int32_t in_pieces);
void decoder_close(void *session) noexcept;
int32_t decoder_advance(void *session, const float *loglikes, int64_t num_frames,
                        int64_t num_pdfs);
int32_t decoder_trace(void *session, const GraphView *graph, PathView *view);
void *decoder_take(void *session, LatticeView *view, ChunkView *ends) noexcept;
void *decoder_finish(void *session, int32_t *reached, LatticeView *view, ChunkView *ends);
void decoder_free_lattice(void *chunk) noexcept;
int64_t decoder_best_arcs(const LatticeView *lattice, int64_t *arcs, int64_t *last);
void *decoder_determinize(const LatticeView *lattice, const int32_t *phone_start, double beam,
                          int64_t max_bytes, CompactView *view);
void decoder_free_words(void *words) noexcept;
void *decoder_number_labels(const GraphView *graph, int32_t num_labels, LabelsView *view);
void decoder_free_labels(void *labels) noexcept;

}  // extern "C"

constexpr int32_t kUnlimited = INT32_MAX;

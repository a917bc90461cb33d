// The search and the best path, as Python calls them.

#include <memory>

#include "composed.h"
#include "on_the_fly.h"
#include "search.h"

namespace {

template <class Graph>
std::unique_ptr<search::RawLattice> SearchFrames(Graph graph, const OptionsView &options,
                                                 const float *loglikes, int64_t num_frames,
                                                 int64_t num_pdfs, int32_t *reached) {
  search::Search<Graph> tokens(&graph, options);
  for (int64_t t = 0; t < num_frames; ++t) {
    if (tokens.Advance(loglikes + t * num_pdfs)) continue;
    if (t == 0 || !options.allow_partial) return nullptr;
    tokens.DropLast();
    break;
  }
  std::vector<float> ending;
  *reached = tokens.Finish(tokens.num_frames() == static_cast<size_t>(num_frames), &ending);
  auto lattice = std::make_unique<search::RawLattice>();
  search::BuildLattice(graph.graph(), tokens.frames(), ending, lattice.get());
  return lattice;
}

}  // namespace

extern "C" {

// Searches scaled log-likelihoods [num_frames, num_pdfs]; grammar: null, or what the graph is
// composed with on the way.  Returns a lattice to be given back to decoder_free_lattice, or null
// where no token survives or memory is short (*reached: -1).
void *decoder_search(const GraphView *graph, const GrammarView *grammar, const OptionsView *options,
                     const float *loglikes, int64_t num_frames, int64_t num_pdfs, int32_t *reached,
                     LatticeView *view) {
  *reached = -1;
  return Guarded<void *>(nullptr, [&]() -> void * {
    *reached = 0;
    auto over = [&](auto walked) {
      return SearchFrames(std::move(walked), *options, loglikes, num_frames, num_pdfs, reached);
    };
    auto lattice = grammar ? over(search::OnTheFly(*graph, *grammar))
                           : over(search::Composed(*graph));
    if (!lattice) return nullptr;
    *view = {static_cast<int64_t>(lattice->final_graph.size()),
             static_cast<int64_t>(lattice->nextstate.size()),
             lattice->offsets.data(),
             lattice->ilabel.data(),
             lattice->olabel.data(),
             lattice->graph.data(),
             lattice->acoustic.data(),
             lattice->nextstate.data(),
             lattice->final_graph.data(),
             lattice->final_acoustic.data()};
    return lattice.release();
  });
}

void decoder_free_lattice(void *lattice) noexcept { delete static_cast<search::RawLattice *>(lattice); }

// Writes the arcs of the cheapest path to `arcs` (room for one per state) and its last state;
// returns how many, or -1 if memory is short.
int64_t decoder_best_arcs(const LatticeView *lattice, int64_t *arcs, int64_t *last) {
  return Guarded<int64_t>(-1, [&] {
    std::vector<double> best(lattice->num_states);
    std::vector<int64_t> choice(lattice->num_states, -1);
    for (int64_t state = lattice->num_states - 1; state >= 0; --state) {
      best[state] = static_cast<double>(lattice->final_graph[state]) +
                    static_cast<double>(lattice->final_acoustic[state]);
      for (int64_t arc = lattice->offsets[state]; arc < lattice->offsets[state + 1]; ++arc) {
        const double through = (static_cast<double>(lattice->graph[arc]) + lattice->acoustic[arc]) +
                               best[lattice->nextstate[arc]];
        if (through < best[state]) {
          best[state] = through;
          choice[state] = arc;
        }
      }
    }
    int64_t count = 0, state = 0;
    for (; choice[state] >= 0; state = lattice->nextstate[choice[state]])
      arcs[count++] = choice[state];
    *last = state;
    return count;
  });
}

}  // extern "C"

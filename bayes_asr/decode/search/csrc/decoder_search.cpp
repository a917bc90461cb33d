// The search and the best path, as Python calls them.

#include <memory>

#include "boosted.h"
#include "composed.h"
#include "on_the_fly.h"
#include "search.h"

namespace search {

namespace {

// One utterance whose log-likelihoods arrive in pieces.  The columns of graph and grammar belong to
// the caller and outlive it.
class Session {
 public:
  virtual ~Session() = default;
  virtual void Advance(const float *loglikes, int64_t num_frames, int64_t num_pdfs) = 0;
  virtual std::unique_ptr<Chunk> Finish(int32_t *reached) = 0;
  virtual Trellis &trellis() = 0;

  BestPath path;  // the last one that was traced
};

template <class Graph, class... Views>
class SessionOver : public Session {
 public:
  SessionOver(const OptionsView &options, bool in_pieces, const Views &...views)
      : options_(options), views_(views...), graph_(std::make_from_tuple<Graph>(views_)),
        tokens_(&graph_, options_, in_pieces) {}

  void Advance(const float *loglikes, int64_t num_frames, int64_t num_pdfs) override {
    for (int64_t t = 0; t < num_frames && !lost_; ++t) {
      if (tokens_.Advance(loglikes + t * num_pdfs)) continue;
      lost_ = true;  // no token survives: what is decoded ends at the frame before
      tokens_.DropLast();
    }
  }

  std::unique_ptr<Chunk> Finish(int32_t *reached) override {
    if (lost_ && (!tokens_.num_frames() || !options_.allow_partial)) return nullptr;
    std::vector<float> ending;
    *reached = tokens_.Finish(!lost_, &ending);
    return tokens_.BuildLast(graph_.graph(), ending);
  }

  Trellis &trellis() override { return tokens_; }

 private:
  const OptionsView options_;
  const std::tuple<Views...> views_;
  Graph graph_;
  Search<Graph> tokens_;
  bool lost_ = false;
};

template <class Graph, class... Views>
Session *Begin(const OptionsView &options, bool in_pieces, const Views &...views) {
  return new SessionOver<Graph, Views...>(options, in_pieces, views...);
}

// Views a piece, which the caller owns from now on.
void *HandOver(std::unique_ptr<Chunk> chunk, LatticeView *view, ChunkView *ends) {
  if (!chunk) return nullptr;
  const RawLattice &lattice = chunk->lattice;
  *view = {static_cast<int64_t>(lattice.final_graph.size()),
           static_cast<int64_t>(lattice.nextstate.size()),
           lattice.offsets.data(),
           lattice.ilabel.data(),
           lattice.olabel.data(),
           lattice.graph.data(),
           lattice.acoustic.data(),
           lattice.nextstate.data(),
           lattice.final_graph.data(),
           lattice.final_acoustic.data()};
  *ends = {static_cast<int64_t>(chunk->entry.size()), static_cast<int64_t>(chunk->exit.size()),
           chunk->entry.data(), chunk->origin.data(), chunk->exit.data(), chunk->ahead.data()};
  return chunk.release();
}

}  // namespace

}  // namespace search

extern "C" {

// Begins an utterance; grammar: null, or what the graph is composed with on the way; hotwords: null,
// or of a graph without grammar; in_pieces: whether its lattice is taken in pieces.  Returns a
// session to be given back to decoder_close, or null where memory is short.
void *decoder_open(const GraphView *graph, const GrammarView *grammar,
                   const HotwordsView *hotwords, const OptionsView *options, int32_t in_pieces) {
  using namespace search;
  return Guarded<void *>(nullptr, [&]() -> void * {
    Session *session =
        grammar    ? Begin<OnTheFly>(*options, in_pieces, *graph, *grammar)
        : hotwords ? Begin<Boosted>(*options, in_pieces, *graph, *hotwords)
                   : Begin<Composed>(*options, in_pieces, *graph);
    return session;
  });
}

void decoder_close(void *session) noexcept { delete static_cast<search::Session *>(session); }

// Searches further scaled log-likelihoods [num_frames, num_pdfs]; -1 where memory is short.
int32_t decoder_advance(void *session, const float *loglikes, int64_t num_frames,
                        int64_t num_pdfs) {
  return Guarded<int32_t>(-1, [&] {
    static_cast<search::Session *>(session)->Advance(loglikes, num_frames, num_pdfs);
    return 0;
  });
}

// Views the best path so far, until the next call with this session; -1 where memory is short.
int32_t decoder_trace(void *session, const GraphView *graph, PathView *view) {
  return Guarded<int32_t>(-1, [&] {
    auto *utterance = static_cast<search::Session *>(session);
    const search::Trellis &trellis = utterance->trellis();
    search::Trace(*graph, trellis.frames(), trellis.past(), &utterance->path);
    const search::BestPath &path = utterance->path;
    *view = {static_cast<int64_t>(path.word.size()), static_cast<int64_t>(path.tid.size()),
             path.fixed, path.word.data(), path.frame.data(), path.tid.data()};
    return 0;
  });
}

// The next piece of the lattice that is over, to be given back to decoder_free_lattice; null where
// there is none.
void *decoder_take(void *session, LatticeView *view, ChunkView *ends) noexcept {
  return search::HandOver(static_cast<search::Session *>(session)->trellis().Take(), view, ends);
}

// Ends an utterance: the last piece of its lattice, to be given back to decoder_free_lattice, or null
// where no token survives or memory is short (*reached: -1).
void *decoder_finish(void *session, int32_t *reached, LatticeView *view, ChunkView *ends) {
  *reached = -1;
  return Guarded<void *>(nullptr, [&]() -> void * {
    *reached = 0;
    return search::HandOver(static_cast<search::Session *>(session)->Finish(reached), view, ends);
  });
}

void decoder_free_lattice(void *chunk) noexcept { delete static_cast<search::Chunk *>(chunk); }

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

// Pruned lattice determinization, the twin of determinize.py: same steps, same results.  Costs of
// paths are floats and compared as sums of floats, because ties are frequent and Kaldi's results
// hang on how they round; only the costs that guide the search are doubles.

#include <algorithm>
#include <cmath>
#include <memory>

#include "determinizer.h"

namespace {

using namespace determinize;

constexpr double kRetryCutoff = 0.5;
constexpr int kMaxTries = 10;

// Determinizes; where memory sets a much tighter beam, prunes the input to about that and retries.
std::unique_ptr<Determinizer> Determinize(Acceptor *acceptor, double beam, int64_t max_bytes) {
  for (int tried = 1;; ++tried) {
    auto determinizer = std::make_unique<Determinizer>(*acceptor, beam, max_bytes);
    const double reached = determinizer->Run();
    if (reached >= beam * kRetryCutoff || tried == kMaxTries) return determinizer;
    determinizer.reset();
    beam = std::max(beam * std::sqrt(std::max(reached, 0.0) / beam), 0.5 * beam);
    PruneAcceptor(beam, acceptor);
  }
}

// Labels arcs with words, and with first_phone + phone where a transition-id begins a phone: on
// the same arc, or after the word if there is one.  Arcs out of the start get no phone.
Acceptor InsertPhones(const LatticeView &lattice, const int32_t *phone_start,
                      int32_t first_phone) {
  Acceptor acceptor;
  for (int64_t state = 0; state < lattice.num_states; ++state) {
    acceptor.AddState();
    acceptor.final_graph[state] = lattice.final_graph[state];
    acceptor.final_acoustic[state] = lattice.final_acoustic[state];
  }
  for (int64_t state = 0; state < lattice.num_states; ++state)
    for (int64_t at = lattice.offsets[state]; at < lattice.offsets[state + 1]; ++at) {
      const int32_t word = lattice.olabel[at], tid = lattice.ilabel[at];
      const int32_t phone = state == 0 ? 0 : phone_start[tid];
      Arc arc{word, tid, lattice.graph[at], lattice.acoustic[at], lattice.nextstate[at]};
      if (phone != 0 && word != 0) {
        const int32_t between = acceptor.AddState();
        acceptor.arcs[between].push_back({first_phone + phone, 0, 0, 0, arc.next});
        arc.next = between;
      } else if (phone != 0) {
        arc.label = first_phone + phone;
      }
      acceptor.arcs[state].push_back(arc);
    }
  SortStates(&acceptor);
  return acceptor;
}

// The result of the first pass as an acceptor of words, one transition-id an arc.
Acceptor WithoutPhones(const Determinizer &done, int32_t first_phone) {
  Acceptor acceptor;
  for (size_t state = 0; state < done.subsets().size(); ++state) acceptor.AddState();
  std::vector<int32_t> tids;
  for (size_t number = 0; number < done.subsets().size(); ++number)
    for (const OutputArc &from : done.subsets()[number].arcs) {
      done.strings().Labels(from.string, 0, &tids);
      Arc arc{from.label < first_phone ? from.label : 0, 0, from.graph, from.acoustic, -1};
      const bool ends = from.next < 0;
      if (ends && tids.empty()) {
        acceptor.final_graph[number] = from.graph;
        acceptor.final_acoustic[number] = from.acoustic;
        continue;
      }
      int32_t state = static_cast<int32_t>(number);
      for (size_t i = 0; i == 0 || i < tids.size(); ++i) {
        const bool last = i + 1 >= tids.size();
        arc.tid = tids.empty() ? 0 : tids[i];
        arc.next = last && !ends ? from.next : acceptor.AddState();
        acceptor.arcs[state].push_back(arc);
        state = arc.next;
        arc = {0, 0, 0, 0, -1};
      }
      if (ends) acceptor.final_graph[state] = acceptor.final_acoustic[state] = 0;
    }
  SortStates(&acceptor);
  return acceptor;
}

struct WordLattice {
  std::vector<int64_t> offsets, tid_offsets, final_tid_offsets;
  std::vector<int32_t> word, nextstate, tids, final_tids;
  std::vector<float> graph, acoustic, final_graph, final_acoustic;
};

// The result as arrays, topologically sorted, without states that lead nowhere.
void BuildWordLattice(const Determinizer &done, WordLattice *lattice) {
  std::vector<std::vector<OutputArc>> rows;
  for (const Subset &subset : done.subsets()) rows.push_back(subset.arcs);
  const std::vector<int32_t> order = TopologicalOrder(rows);
  std::vector<int32_t> number(rows.size(), -1);
  std::vector<char> useful(rows.size(), 0);
  for (size_t at = order.size(); at-- > 0;)
    for (const OutputArc &arc : rows[order[at]])
      if (arc.next < 0 || useful[arc.next]) useful[order[at]] = 1;
  int32_t count = 0;
  for (const int32_t state : order)
    if (useful[state]) number[state] = count++;
  std::vector<int32_t> tids;
  lattice->offsets = lattice->tid_offsets = lattice->final_tid_offsets = {0};
  for (const int32_t state : order) {
    if (!useful[state]) continue;
    float final_graph = kNone, final_acoustic = kNone;
    for (const OutputArc &arc : rows[state]) {
      if (arc.next >= 0 && number[arc.next] < 0) continue;
      done.strings().Labels(arc.string, 0, &tids);
      if (arc.next < 0) {
        final_graph = arc.graph;
        final_acoustic = arc.acoustic;
        lattice->final_tids.insert(lattice->final_tids.end(), tids.begin(), tids.end());
        continue;
      }
      lattice->word.push_back(arc.label);
      lattice->graph.push_back(arc.graph);
      lattice->acoustic.push_back(arc.acoustic);
      lattice->nextstate.push_back(number[arc.next]);
      lattice->tids.insert(lattice->tids.end(), tids.begin(), tids.end());
      lattice->tid_offsets.push_back(lattice->tids.size());
    }
    lattice->offsets.push_back(lattice->word.size());
    lattice->final_graph.push_back(final_graph);
    lattice->final_acoustic.push_back(final_acoustic);
    lattice->final_tid_offsets.push_back(lattice->final_tids.size());
  }
}

}  // namespace

extern "C" {

// Determinizes a state-level lattice; phone_start[tid] is the phone that a transition-id begins,
// or 0; max_bytes bounds Kaldi's estimate of the memory.  Returns a word lattice to be given back
// to decoder_free_words, or null if memory is short.
void *decoder_determinize(const LatticeView *lattice, const int32_t *phone_start, double beam,
                          int64_t max_bytes, CompactView *view) {
  return Guarded<void *>(nullptr, [&] {
    int32_t first_phone = 1;
    for (int64_t arc = 0; arc < lattice->num_arcs; ++arc)
      first_phone = std::max(first_phone, lattice->olabel[arc] + 1);
    Acceptor acceptor = InsertPhones(*lattice, phone_start, first_phone);
    std::unique_ptr<Determinizer> pass = Determinize(&acceptor, beam, max_bytes);
    acceptor = WithoutPhones(*pass, first_phone);
    pass = Determinize(&acceptor, beam, max_bytes);
    auto words = std::make_unique<WordLattice>();
    BuildWordLattice(*pass, words.get());
    *view = {static_cast<int64_t>(words->final_graph.size()),
             static_cast<int64_t>(words->word.size()),
             static_cast<int64_t>(words->tids.size()),
             static_cast<int64_t>(words->final_tids.size()),
             words->offsets.data(),
             words->word.data(),
             words->graph.data(),
             words->acoustic.data(),
             words->nextstate.data(),
             words->tid_offsets.data(),
             words->tids.data(),
             words->final_graph.data(),
             words->final_acoustic.data(),
             words->final_tid_offsets.data(),
             words->final_tids.data()};
    return words.release();
  });
}

void decoder_free_words(void *words) noexcept { delete static_cast<WordLattice *>(words); }

}  // extern "C"

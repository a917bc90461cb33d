"""The decoding graph of the search: emitting and epsilon arcs apart; the best path through it, and
pieces of its lattice.
"""

from dataclasses import dataclass

import numpy as np

from bayes_asr.kaldi_io.lattice import Lattice
from bayes_asr.kaldi_io.openfst import Fst


@dataclass(frozen=True)
class Arcs:
    """Arcs of one kind in compressed rows: those of state s are offsets[s]:offsets[s + 1]."""

    offsets: np.ndarray
    ilabel: np.ndarray
    olabel: np.ndarray
    weight: np.ndarray
    nextstate: np.ndarray

    def leaving(self, states: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return for all arcs of `states`, in order: index into `states`, index of the arc."""
        # Rows laid end to end: an arc is the begin of its row and its place in it.
        begin, count = self.offsets[states], np.diff(self.offsets)[states]
        owner = np.repeat(np.arange(len(states)), count)
        skipped = np.cumsum(count) - count
        return owner, np.arange(len(owner)) + (begin - skipped)[owner]


@dataclass(frozen=True)
class GrammarArcs:
    """G, with which HCL is composed during the search, and the look-ahead to its labels.

    Its arcs are in compressed rows, sorted by label. Labels are those of HCL, numbered anew:
    `emitting` and `epsilon` hold the one of each arc of HCL, 0 for none. `set` holds for each state
    of HCL which labels may be read next: those of set s are first[i] .. last[i] for i in
    spans[s]:spans[s + 1]; ends[s]: whether a path may end before any. `everything` is the set of
    all of them, -1 where no state has it. `chance` is the probability of an arc, of a backoff with
    that of the words behind it; `ahead` holds -log of the sum over the arcs and the end of a state.
    """

    start: int
    everything: int
    final: np.ndarray
    offsets: np.ndarray
    label: np.ndarray
    weight: np.ndarray
    nextstate: np.ndarray
    chance: np.ndarray
    ahead: np.ndarray
    emitting: np.ndarray
    epsilon: np.ndarray
    set: np.ndarray
    spans: np.ndarray
    first: np.ndarray
    last: np.ndarray
    ends: np.ndarray


@dataclass(frozen=True)
class HotwordArcs:
    """Hotwords as an automaton that reads all words, of S states; state 0 is that of no phrase.

    `word_class` int32 [words]: 0 where a word is in no phrase, otherwise a column of `nextstate`
    int32 [S, K] and `weight` float32 [S, K], what the word costs more; `final` float32 [S]: what
    it costs to end.
    """

    word_class: np.ndarray
    nextstate: np.ndarray
    weight: np.ndarray
    final: np.ndarray


@dataclass(frozen=True)
class DecodingGraph:
    """A checked HCLG: `column` holds the pdf of each emitting arc, the column of its likelihood.

    `phone_start` [transition-ids + 1] holds the phone that a transition-id begins, otherwise 0.
    With a `grammar` it is HCL, which is composed with that on the way; words of `hotwords` cost
    what these say besides.
    """

    start: int
    final: np.ndarray
    emitting: Arcs
    epsilon: Arcs
    column: np.ndarray
    phone_start: np.ndarray
    num_pdfs: int
    name: str
    grammar: GrammarArcs | None = None
    hotwords: HotwordArcs | None = None

    @property
    def num_states(self) -> int:
        """Number of graph states."""
        return len(self.final)


def select_arcs(fst: Fst, source: np.ndarray, mask: np.ndarray) -> Arcs:
    """Return the arcs of `fst` under the mask, in their order."""
    counts = np.bincount(source[mask], minlength=len(fst.final))
    return Arcs(
        np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        np.ascontiguousarray(fst.ilabel[mask], np.int32),
        np.ascontiguousarray(fst.olabel[mask], np.int32),
        np.ascontiguousarray(fst.weight[mask], np.float32),
        np.ascontiguousarray(fst.nextstate[mask], np.int32),
    )


def has_cycle(arcs: Arcs) -> bool:
    """Tell whether these arcs form a cycle (Kahn's algorithm)."""
    num_states = len(arcs.offsets) - 1
    indegree = np.bincount(arcs.nextstate, minlength=num_states)
    ready = np.flatnonzero(indegree == 0)
    removed = 0
    # States without incoming arcs are removed, round after round; those of a cycle remain.
    while len(ready):
        removed += len(ready)
        target = arcs.nextstate[arcs.leaving(ready)[1]]
        np.subtract.at(indegree, target, 1)
        ready = np.unique(target[indegree[target] == 0])
    return removed < num_states


@dataclass(frozen=True)
class BestPath:
    """The best path so far of an utterance that has not ended.

    `word` int32 [W]: its words; `frame` int32 [W]: the frames before which they stand; `tid` int32
    [T]: its transition-ids; fixed: the number of words that no later frame can change.
    """

    word: np.ndarray
    frame: np.ndarray
    tid: np.ndarray
    fixed: int


@dataclass(frozen=True)
class LatticeChunk:
    """A piece of a state-level lattice with scaled costs, whose paths begin in several states.

    `entry` int32 [E]: these, and `origin` int32 [E]: which exits of the piece before they are, 0
    for the begin of the utterance. `exit` int32 [X]: where paths lead into the next piece, none of
    the last. `ahead` float64 [X]: a bound of what the rest of the cheapest path costs, less the
    cost of the cheapest one of all.
    """

    lattice: Lattice
    entry: np.ndarray
    origin: np.ndarray
    exit: np.ndarray
    ahead: np.ndarray

"""Determinization of a lattice in pieces, while the search goes on.

A piece of the state-level lattice, from the tokens of one frame to those of a later one, is
determinized together with the tail of what was determinized before: the states from which a path
may lead into the piece without another word, and all that follow these.  What lies before the tail
is deterministic and stays.  The tokens at the end of a piece, and the states by which the tail is
entered, are labels to the determinization, so that each keeps its own paths (Chen, Yarmohammadi,
Xu, Povey et al., "Incremental lattice determinization for WFST decoders", ASRU 2019).  The result
has the paths and costs of the lattice that is determinized at once, up to the tolerance of that.
"""

from dataclasses import dataclass, fields, replace

import numpy as np

from bayes_asr.decode.search.engine import Engine
from bayes_asr.decode.search.search import sort_arcs
from bayes_asr.decode.search.search_graph import LatticeChunk
from bayes_asr.kaldi_io.lattice import (
    CompactLattice,
    Lattice,
    connect,
    row_offsets,
)

FIRST_LABEL = 1 << 29  # of tokens and states: above all words
NO_TIDS = np.empty(0, np.int32)


@dataclass(frozen=True)
class WordArcs:
    """Arcs of a word lattice in any order: each column [A], costs in float64, and a row of
    transition-ids for each arc.
    """

    source: np.ndarray
    word: np.ndarray
    graph: np.ndarray
    acoustic: np.ndarray
    nextstate: np.ndarray
    tids: list[np.ndarray]

    def columns(self) -> list[np.ndarray]:
        """All but the transition-ids, in the order of the fields."""
        return [getattr(self, field.name) for field in fields(self)[:-1]]

    def select(self, mask: np.ndarray) -> "WordArcs":
        """The arcs under the mask."""
        return self.take(np.flatnonzero(mask))

    def take(self, chosen: np.ndarray) -> "WordArcs":
        """The arcs with these numbers."""
        tids = [self.tids[i] for i in chosen.tolist()]
        return from_columns([column[chosen] for column in self.columns()], tids)

    def follow(self, further: "WordArcs", chosen: np.ndarray) -> "WordArcs":
        """Each arc and behind it that one of the further arcs, whose words are none."""
        rows = zip(self.tids, chosen.tolist(), strict=True)
        return WordArcs(
            self.source,
            self.word,
            self.graph + further.graph[chosen],
            self.acoustic + further.acoustic[chosen],
            further.nextstate[chosen],
            [np.concatenate([row, further.tids[i]]) for row, i in rows],
        )


def join_arcs(*parts: WordArcs) -> WordArcs:
    """All arcs, part after part."""
    columns = zip(*(part.columns() for part in parts), strict=True)
    tids = [row for part in parts for row in part.tids]
    return from_columns([np.concatenate(column) for column in columns], tids)


def from_columns(columns: list[np.ndarray], tids: list[np.ndarray]) -> WordArcs:
    """Arcs of columns in the order of the fields."""
    source, word, graph, acoustic, nextstate = columns
    return WordArcs(source, word, graph, acoustic, nextstate, tids)


def read_arcs(lattice: CompactLattice, first_state: int) -> WordArcs:
    """The arcs of a lattice, sorted by their sources; its states are numbered from there on."""
    return WordArcs(
        np.repeat(np.arange(lattice.num_states), np.diff(lattice.offsets)) + first_state,
        lattice.word.astype(np.int64),
        lattice.graph.astype(np.float64),
        lattice.acoustic.astype(np.float64),
        lattice.nextstate.astype(np.int64) + first_state,
        np.split(lattice.tids, lattice.tid_offsets[1:-1]) if len(lattice.word) else [],
    )


def read_ends(lattice: CompactLattice, first_state: int) -> WordArcs:
    """The ends of paths, as arcs without words that lead to -1."""
    states, offsets = np.flatnonzero(np.isfinite(lattice.final_graph)), lattice.final_tid_offsets
    return WordArcs(
        states + first_state,
        0 * states,
        lattice.final_graph[states].astype(np.float64),
        lattice.final_acoustic[states].astype(np.float64),
        0 * states - 1,
        [lattice.final_tids[offsets[s] : offsets[s + 1]] for s in states.tolist()],
    )


def spell_out(arcs: WordArcs, first_state: int) -> list[np.ndarray]:
    """Arcs of one transition-id each: source, transition-id, word, costs, next state.

    The states between those of one arc are numbered from `first_state` on; the first of its arcs
    bears word and costs.
    """
    counts = np.array([max(len(row), 1) for row in arcs.tids], np.int64)
    owner = np.repeat(np.arange(len(counts)), counts)
    is_first, is_last = np.diff(owner, prepend=-1) > 0, np.diff(owner, append=len(counts)) > 0
    between = first_state - 1 + np.cumsum(~is_first)  # the state before an arc that is not first
    source = np.where(is_first, arcs.source[owner], between)
    target = np.where(is_last, arcs.nextstate[owner], between + 1)
    tids = np.concatenate([row if len(row) else np.zeros(1, np.int32) for row in arcs.tids])
    graph, acoustic = (np.where(is_first, x[owner], 0) for x in (arcs.graph, arcs.acoustic))
    return [source, tids, np.where(is_first, arcs.word[owner], 0), graph, acoustic, target]


class IncrementalDeterminizer:
    """The word lattice of an utterance whose state-level lattice arrives in pieces.

    States are numbered as they are made, that of the begin is 0. `_done`: arcs between states that
    stay. `_entering`: arcs from these into the tail, at first one from the begin. `_tail`: its own.
    `_leaving`: arcs from it to the exits of the last piece. `_forward`: the cost of the cheapest
    path to each state that is entered.
    """

    def __init__(self, engine: Engine, phone_start: np.ndarray, beam: float) -> None:
        """Begin with a tail of one state, which leads to the first token."""
        self._engine, self._phone_start, self._beam = engine, phone_start, beam
        one, free = np.ones(1, np.int64), np.zeros(1)
        self._entering = WordArcs(0 * one, 0 * one, free, free, one, [NO_TIDS])
        self._leaving = replace(self._entering, source=one, nextstate=0 * one)
        self._tail = self._entering.select(one < 0)
        self._done = [self._tail]
        self._forward = {1: 0.0}
        self._states = 2

    @property
    def size(self) -> int:
        """The number of states that have been made."""
        return self._states

    @property
    def cost(self) -> float:
        """The cost of the cheapest path to the tail."""
        return min(self._forward.values())

    def read(self) -> CompactLattice:
        """The lattice of the pieces that have come, where each exit of the last one is an end."""
        exits, behind = np.unique(self._leaving.nextstate, return_inverse=True)
        states = self._states + np.arange(len(exits))
        leaving = replace(self._leaving, nextstate=states[behind])
        zeros = np.zeros(len(exits))
        ends = WordArcs(states, 0 * states, zeros, zeros, 0 * states, [NO_TIDS] * len(exits))
        return assemble(join_arcs(*self._done, self._entering, self._tail, leaving), ends)

    def add(self, chunk: LatticeChunk) -> None:
        """Take the next piece, one that has exits."""
        base = self.cost
        ahead = chunk.ahead + base
        arcs, ends = self._determinize(chunk, base, ahead)
        is_exit = arcs.word >= FIRST_LABEL
        exits, arcs = arcs.select(is_exit), arcs.select(~is_exit)
        number = exits.word - FIRST_LABEL
        # Behind the label of a token comes an end and nothing else.
        place = {state: i for i, state in enumerate(ends.source.tolist())}
        behind = np.array([place[state] for state in exits.nextstate.tolist()], np.int64)
        exits = exits.follow(ends, behind)
        self._divide(arcs, find_descendants(arcs, exits.source))
        self._leaving = replace(
            exits, word=0 * number, graph=exits.graph - ahead[number], nextstate=number
        )

    def finish(self, chunk: LatticeChunk) -> CompactLattice:
        """Take the last piece: the lattice of all of them, pruned to the beam."""
        arcs, ends = self._determinize(chunk, self.cost, chunk.ahead)
        self._divide(arcs, set())
        return prune_words(assemble(join_arcs(*self._done), ends), self._beam)

    def _determinize(
        self, chunk: LatticeChunk, base: float, ahead: np.ndarray
    ) -> tuple[WordArcs, WordArcs]:
        """The arcs and ends of the tail and the piece; the arcs into the tail lead there."""
        entries = np.array([*self._forward])
        # Costs of what is outside guide the pruning, and are taken out of the result.
        outside = np.array([*self._forward.values()]) - base
        lattice = self._splice(chunk, entries, outside, ahead)
        deterministic = self._engine.determinize(lattice, self._phone_start, self._beam)
        arcs = read_arcs(deterministic, self._states)
        ends = read_ends(deterministic, self._states)
        begins = arcs.source == self._states
        self._states += deterministic.num_states
        start, arcs = arcs.select(begins), arcs.select(~begins)
        number = start.word - FIRST_LABEL - len(ahead)
        start = replace(start, graph=start.graph - outside[number])
        place = dict(zip(entries[number].tolist(), range(len(number)), strict=True))
        behind = np.array([place.get(x, -1) for x in self._entering.nextstate.tolist()], np.int64)
        self._entering = self._entering.select(behind >= 0).follow(start, behind[behind >= 0])
        costs = outside[number] + base + start.graph + start.acoustic
        self._forward = find_forward_costs(arcs, start.nextstate, costs)
        return arcs, ends

    def _splice(
        self, chunk: LatticeChunk, entries: np.ndarray, outside: np.ndarray, ahead: np.ndarray
    ) -> Lattice:
        """The state-level lattice of the tail and the piece.

        From state 0 labels lead to the entries of the tail. Behind it come the states of the piece,
        the end, to which labels lead from its exits, and the states of the tail.
        """
        piece, end = chunk.lattice, chunk.lattice.num_states + 1
        states = np.unique(np.concatenate([entries, self._leaving.source, self._tail.nextstate]))
        tail = replace(
            self._tail,
            source=np.searchsorted(states, self._tail.source) + end + 1,
            nextstate=np.searchsorted(states, self._tail.nextstate) + end + 1,
        )
        # Tokens at which the last piece ended, and which have been dropped since, are no entries.
        place = dict(zip(chunk.origin.tolist(), chunk.entry.tolist(), strict=True))
        into = np.array([place.get(exit, -1) for exit in self._leaving.nextstate.tolist()])
        leaving = replace(
            self._leaving,
            source=np.searchsorted(states, self._leaving.source) + end + 1,
            nextstate=into + 1,
        ).select(into >= 0)
        exits, zeros = np.arange(len(ahead)), np.zeros(len(ahead), np.int64)
        begins, none = np.arange(len(entries)), np.zeros(len(entries), np.int64)
        parts = (
            spell_out(join_arcs(tail, leaving), end + 1 + len(states)),
            (
                *(none, none, FIRST_LABEL + len(ahead) + begins, outside, none),
                np.searchsorted(states, entries) + end + 1,
            ),
            (
                np.repeat(np.arange(piece.num_states), np.diff(piece.offsets)) + 1,
                *(piece.ilabel, piece.olabel, piece.graph, piece.acoustic, piece.nextstate + 1),
            ),
            (chunk.exit + 1, zeros, FIRST_LABEL + exits, ahead, zeros, zeros + end),
        )
        columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
        final = np.full(int(max(columns[0].max(), columns[5].max())) + 1, np.inf, np.float32)
        final[1:end] = np.inf if len(ahead) else piece.final_graph
        final[end] = 0 if len(ahead) else np.inf
        return sort_arcs(columns, final)

    def _divide(self, arcs: WordArcs, tail: set[int]) -> None:
        """Tell apart what stays and the tail."""
        states = np.array([*tail], np.int64)
        entered = np.isin(self._entering.nextstate, states)
        from_tail, into_tail = np.isin(arcs.source, states), np.isin(arcs.nextstate, states)
        self._done += [self._entering.select(~entered), arcs.select(~from_tail & ~into_tail)]
        self._tail = arcs.select(from_tail)
        self._entering = join_arcs(
            self._entering.select(entered), arcs.select(~from_tail & into_tail)
        )
        self._forward = {x: self._forward[x] for x in np.unique(self._entering.nextstate).tolist()}


def find_descendants(arcs: WordArcs, states: np.ndarray) -> set[int]:
    """The states and all that follow them; arcs whose sources are topologically sorted."""
    descendants = set(states.tolist())
    for source, target in zip(arcs.source.tolist(), arcs.nextstate.tolist(), strict=True):
        if source in descendants:
            descendants.add(target)
    return descendants


def find_forward_costs(arcs: WordArcs, starts: np.ndarray, costs: np.ndarray) -> dict[int, float]:
    """The cost of the cheapest path to each state; arcs whose sources are topologically sorted."""
    forward = {0: 0.0}
    begins = [(0, state, cost) for state, cost in zip(starts.tolist(), costs.tolist(), strict=True)]
    columns = (arcs.source, arcs.nextstate, arcs.graph + arcs.acoustic)
    for source, target, cost in [*begins, *zip(*(x.tolist() for x in columns), strict=True)]:
        forward[target] = min(forward.get(target, np.inf), forward[source] + cost)
    return forward


def assemble(arcs: WordArcs, ends: WordArcs) -> CompactLattice:
    """The lattice of these arcs and ends; its state 0 has one arc, which bears no word."""
    (begin,) = np.flatnonzero(arcs.source == 0).tolist()
    arcs, ends = (prepend(arcs, begin, part) for part in (arcs, ends))
    arcs = arcs.take(np.argsort(arcs.source, kind="stable"))
    states = int(max(arcs.nextstate.max(initial=0), ends.source.max(initial=0))) + 1
    final = np.full((2, states), np.inf, np.float32)
    final[0, ends.source], final[1, ends.source] = ends.graph, ends.acoustic
    rows = [NO_TIDS] * states
    for state, row in zip(ends.source.tolist(), ends.tids, strict=True):
        rows[state] = row
    return connect(
        CompactLattice(
            offsets=row_offsets(np.bincount(arcs.source, minlength=states).tolist()),
            word=arcs.word.astype(np.int32),
            graph=arcs.graph.astype(np.float32),
            acoustic=arcs.acoustic.astype(np.float32),
            nextstate=arcs.nextstate.astype(np.int32),
            tid_offsets=row_offsets([*map(len, arcs.tids)]),
            tids=np.concatenate([NO_TIDS, *arcs.tids]),
            final_graph=final[0],
            final_acoustic=final[1],
            final_tid_offsets=row_offsets([*map(len, rows)]),
            final_tids=np.concatenate([NO_TIDS, *rows]),
        )
    )


def prepend(arcs: WordArcs, begin: int, part: WordArcs) -> WordArcs:
    """The part with what `arcs[begin]`, the only one from state 0, bears on the arcs behind it."""
    part = part.select(part.source > 0)
    behind = np.flatnonzero(part.source == arcs.nextstate[begin])
    source, graph, acoustic = part.source.copy(), part.graph.copy(), part.acoustic.copy()
    tids = [*part.tids]
    source[behind] = 0
    graph[behind] += arcs.graph[begin]
    acoustic[behind] += arcs.acoustic[begin]
    for i in behind.tolist():
        tids[i] = np.concatenate([arcs.tids[begin], tids[i]])
    return replace(part, source=source, graph=graph, acoustic=acoustic, tids=tids)


def prune_words(lattice: CompactLattice, beam: float) -> CompactLattice:
    """The arcs and ends of a sorted lattice that a path within the beam of the cheapest uses."""
    owner = np.repeat(np.arange(lattice.num_states), np.diff(lattice.offsets))
    costs = lattice.graph.astype(np.float64) + lattice.acoustic
    ending = lattice.final_graph.astype(np.float64) + lattice.final_acoustic
    rows = [*zip(owner.tolist(), lattice.nextstate.tolist(), costs.tolist(), strict=True)]
    forward, backward = [0.0] + [np.inf] * (lattice.num_states - 1), ending.tolist()
    for source, target, cost in rows:
        forward[target] = min(forward[target], forward[source] + cost)
    for source, target, cost in reversed(rows):
        backward[source] = min(backward[source], backward[target] + cost)
    limit = backward[0] + beam
    through = np.array(forward)[owner] + costs + np.array(backward)[lattice.nextstate]
    over = np.array(forward) + ending > limit
    return connect(
        replace(
            lattice,
            graph=np.where(through > limit, np.float32(np.inf), lattice.graph),
            final_graph=np.where(over, np.float32(np.inf), lattice.final_graph),
        )
    )

"""The search over an utterance: its session, its state-level lattice, partial traceback."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np

from bayes_asr.base.errors import InputError
from bayes_asr.config.decoding_keys import SearchOptions
from bayes_asr.decode.search.search_graph import Arcs, BestPath, DecodingGraph, LatticeChunk
from bayes_asr.decode.search.tokens import Frame, Links, Search, finish, no_links
from bayes_asr.kaldi_io.lattice import Lattice

NEAR = np.float32(0.01)
"""Paths that cost so little more than the cheapest may win by rounding once they are complete."""


@dataclass
class Arrival:
    """Entry of a token of a partial traceback: `common`, the longest prefix of words that all paths
    to it within NEAR of the cheapest share, and whether it is `complete`, all words of these paths.

    cost, source, arc, emits: the last link of the cheapest path, and whether it emits.
    """

    common: tuple[int, ...]
    complete: bool
    cost: np.float32
    source: int
    arc: int
    emits: bool


@dataclass(frozen=True)
class Way:
    """Best path to a token in which a piece begins: its words, each with the frame before which it
    stands, and its transition-ids, all from the begin of the utterance on.
    """

    arrival: Arrival | None
    words: list[tuple[int, int]]
    tids: list[int]


class ReferenceSession:
    """A `SearchSession` in NumPy."""

    def __init__(
        self, graph: DecodingGraph, options: SearchOptions, in_pieces: bool = False
    ) -> None:
        """Begin an utterance; InputError where only the compiled decoder can."""
        if graph.grammar is not None:
            raise InputError(
                f"{graph.name}: only the compiled decoder composes with a grammar; unset"
                " BAYES_ASR_DECODER, or build the graph with its language model"
            )
        if graph.hotwords is not None:
            raise InputError(
                f"{graph.name}: only the compiled decoder knows hotwords; unset BAYES_ASR_DECODER"
            )
        self._graph, self._options, self._in_pieces = graph, options, in_pieces
        self._search = Search(graph, options)
        self._is_lost = False
        self._ways = [Way(Arrival((), True, np.float32(0), -1, -1, False), [], [])]
        self._offset = 0.0  # what the costs of tokens lack: the offsets of frames given away
        self._pieces: list[LatticeChunk] = []

    def advance(self, loglikes: np.ndarray) -> None:
        """Search further frames; where no token survives, what is decoded ends before it."""
        for frame in loglikes:
            if self._is_lost:
                return
            if self._search.prune() and self._in_pieces:
                self._cut()
            self._search.advance(frame)
            frames = self._search.frames
            if not len(frames[-1].state):
                self._is_lost = True
                frames.pop()
                frames[-1].outer = no_links()

    def trace(self) -> BestPath:
        """The best path through what has been searched."""
        frames, begin = self._search.frames, self._search.begin
        arrivals = arrive(self._graph, frames, self._ways)
        settled = [arrival.common for arrival in arrivals[-1].values()]
        best = int(frames[-1].cost.argmin())
        path = trace_back(self._graph, frames, arrivals, self._ways, best, begin)
        columns = np.array(path.words, np.int32).reshape(-1, 2).T
        fixed = len(reduce(_common, settled))
        return BestPath(columns[0], columns[1], np.array(path.tids, np.int32), fixed)

    def take(self) -> LatticeChunk | None:
        """The next piece of the lattice that is over, if there is one."""
        return self._pieces.pop(0) if self._pieces else None

    def finish_piece(self) -> tuple[LatticeChunk | None, bool]:
        """The last piece of the lattice, and was a final state reached?"""
        frames, options = self._search.frames, self._options
        is_empty = self._search.begin + len(frames) == 1
        if self._is_lost and (is_empty or not options.allow_partial):
            return None, False
        is_whole = not self._is_lost
        ending, reached = finish(self._graph, frames, options.lattice_beam, is_whole)
        lattice = build_raw_lattice(self._graph, frames, ending)
        none = np.empty(0, np.int32)
        return LatticeChunk(lattice, *list_entries(frames[0]), none, none.astype(float)), reached

    def finish(self) -> tuple[Lattice | None, bool]:
        """The lattice, and was a final state reached?"""
        piece, reached = self.finish_piece()
        return None if piece is None else piece.lattice, reached

    def _cut(self) -> None:
        """Give away the oldest frames, up to the one with fewest tokens, if there are enough."""
        frames, begin = self._search.frames, self._search.begin
        sizes = [len(frame.state) for frame in frames]
        t = choose_cut(sizes, self._options.prune_interval)
        if not t:
            return
        kept = frames[t]
        end = replace(kept, inner=no_links(), outer=no_links())
        piece = [*frames[:t], end]
        arrivals = arrive(self._graph, piece, self._ways)
        exits = np.unique(piece[-2].outer.target)
        self._ways = [
            trace_back(self._graph, piece, arrivals, self._ways, token, begin)
            for token in exits.tolist()
        ]
        self._offset = sum((float(frame.offset) for frame in frames[:t]), self._offset)
        ahead = kept.extra[exits].astype(float) - (kept.cost[exits].astype(float) - self._offset)
        lattice = build_raw_lattice(
            self._graph, piece, np.full(len(kept.state), np.inf, np.float32)
        )
        first = lattice.num_states - len(kept.state)
        entry, origin = list_entries(frames[0])
        self._pieces.append(
            LatticeChunk(lattice, entry, origin, (first + exits).astype(np.int32), ahead)
        )
        kept.origin = np.full(len(kept.state), -1, np.int32)
        kept.origin[exits] = np.arange(len(exits))
        del frames[:t]
        self._search.begin += t


def choose_cut(sizes: Sequence[int], interval: int) -> int:
    """Return the frame before which a piece ends, by the numbers of tokens; 0: none does yet.

    The narrowest of those that have been pruned twice after a whole interval, and the latest of
    several.
    """
    last = len(sizes) - 1 - 2 * interval
    if last < 2 * interval:
        return 0
    return min(range(last, interval - 1, -1), key=lambda t: sizes[t])


def list_entries(frame: Frame) -> tuple[np.ndarray, np.ndarray]:
    """Return the states of a lattice in which paths begin, and by which ways; of a first frame."""
    tokens = np.flatnonzero(frame.origin >= 0)
    state = np.empty(len(frame.state), np.int32)
    state[order_epsilons(frame)] = np.arange(len(state))
    return state[tokens], frame.origin[tokens]


def number_states(frames: list[Frame]) -> list[np.ndarray]:
    """Return for each frame the lattice state of each token, topologically sorted."""
    numbers, offset = [], 0
    for frame in frames:
        number = np.empty(len(frame.state), np.int64)
        number[order_epsilons(frame)] = np.arange(offset, offset + len(number))
        numbers.append(number)
        offset += len(number)
    return numbers


def build_raw_lattice(graph: DecodingGraph, frames: list[Frame], ending: np.ndarray) -> Lattice:
    """Return the lattice of the pruned tokens (GetRawLattice); `ending`: final costs of the last.

    Acoustic costs carry the acoustic scale that the search used.
    """
    number = number_states(frames)
    emitting, epsilon = graph.emitting, graph.epsilon
    columns: list[tuple[np.ndarray, ...]] = []
    for t, frame in enumerate(frames):
        inner, outer = frame.inner, frame.outer
        no_label = np.zeros(len(inner.arc), np.int32)
        states = number[t]
        columns.append(
            (
                states[inner.source],
                no_label,
                epsilon.olabel[inner.arc],
                inner.graph,
                inner.acoustic,
                states[inner.target],
            )
        )
        if t + 1 < len(frames):
            acoustic = outer.acoustic - frame.offset  # which token passing added
            columns.append(
                (
                    states[outer.source],
                    emitting.ilabel[outer.arc],
                    emitting.olabel[outer.arc],
                    outer.graph,
                    acoustic,
                    number[t + 1][outer.target],
                )
            )
    final = np.full(int(number[-1].max()) + 1, np.inf, np.float32)
    final[number[-1]] = ending
    return sort_arcs([np.concatenate(parts) for parts in zip(*columns, strict=True)], final)


def sort_arcs(columns: Sequence[np.ndarray], final: np.ndarray) -> Lattice:
    """The lattice of arcs by the state that they leave; columns: that state, labels, costs, target.

    final: the cost of each state [S], infinite where it is not final.
    """
    source, ilabel, olabel, graph_cost, acoustic_cost, target = columns
    order = np.argsort(source, kind="stable")
    counts = np.bincount(source, minlength=len(final))
    return Lattice(
        np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        ilabel[order],
        olabel[order],
        graph_cost[order].astype(np.float32, copy=False),
        acoustic_cost[order].astype(np.float32, copy=False),
        target[order].astype(np.int32),
        final,
        np.where(np.isfinite(final), 0, np.inf).astype(np.float32),
    )


def best_arcs(lattice: Lattice) -> tuple[np.ndarray, int]:
    """Return the arcs of the cheapest path from the start and the state where it ends.

    Costs add up in float64; between equal costs the first arc wins.
    """
    cost = (lattice.graph.astype(np.float64) + lattice.acoustic).tolist()
    ending = (lattice.final_graph.astype(np.float64) + lattice.final_acoustic).tolist()
    offsets, target = lattice.offsets.tolist(), lattice.nextstate.tolist()
    # Viterbi backwards over the sorted states; choice -1: the path ends here.
    best, choice = ending[:], [-1] * len(ending)
    for state in range(len(ending) - 1, -1, -1):
        for arc in range(offsets[state], offsets[state + 1]):
            through = cost[arc] + best[target[arc]]
            if through < best[state]:
                best[state], choice[state] = through, arc
    arcs, state = [], 0
    while choice[state] >= 0:
        arcs.append(choice[state])
        state = target[choice[state]]
    return np.array(arcs, np.int64), state


def arrive(
    graph: DecodingGraph, frames: Sequence[Frame], ways: Sequence[Way]
) -> list[dict[int, Arrival]]:
    """Return how the best paths arrive at the tokens of each frame, and what is settled of them.

    The final path passes a token of the last frame, and reaches it by the cheapest path there. So
    the common prefix of the words of these paths stays, whatever comes later.
    """
    arrivals: list[dict[int, Arrival]] = []
    for t, frame in enumerate(frames):
        arrived: dict[int, Arrival] = {}
        if t == 0:
            begins = [
                (token, ways[number].arrival)
                for token, number in enumerate(frame.origin.tolist())
                if number >= 0
            ]
            arrived = {token: replace(arrival) for token, arrival in begins if arrival}
        else:
            previous = frames[t - 1]
            links = range(len(previous.outer.arc))
            _arrive(arrived, frame, arrivals[-1], previous, previous.outer, links, graph.emitting)
        inner = frame.inner
        place = np.empty(len(frame.state), np.int64)
        place[order_epsilons(frame)] = np.arange(len(place))
        in_order = np.argsort(place[inner.source], kind="stable").tolist()
        _arrive(arrived, frame, arrived, frame, inner, in_order, graph.epsilon)
        arrivals.append(arrived)
    return arrivals


def order_epsilons(frame: Frame) -> np.ndarray:
    """Return the tokens of a frame in an order in which its epsilon links lead forward."""
    # The depth of a token is the longest chain of epsilon links before it.
    depth = np.zeros(len(frame.state), np.int64)
    while True:
        deeper = depth.copy()
        np.maximum.at(deeper, frame.inner.target, depth[frame.inner.source] + 1)
        if np.array_equal(deeper, depth):
            return np.argsort(depth, kind="stable")
        depth = deeper


def _arrive(
    arrived: dict[int, Arrival],
    frame: Frame,
    origins: dict[int, Arrival],
    previous: Frame,
    links: Links,
    order: Sequence[int],
    arcs: Arcs,
) -> None:
    """Enter the tokens of `frame` by links from those of `previous`."""
    cost = (previous.cost[links.source] + links.acoustic) + links.graph
    near = cost <= frame.cost[links.target] + NEAR
    for link in order:
        source, target, arc = (int(x[link]) for x in (links.source, links.target, links.arc))
        origin = origins.get(source)
        if origin is None or not near[link]:
            continue
        word = int(arcs.olabel[arc])
        words = (*origin.common, word) if word and origin.complete else origin.common
        arrival = Arrival(words, origin.complete, cost[link], source, arc, previous is not frame)
        twin = arrived.setdefault(target, arrival)
        if twin is arrival:
            continue
        common = _common(twin.common, words)
        twin.complete = twin.complete and origin.complete and common == words == twin.common
        twin.common = common
        if cost[link] < twin.cost:
            twin.cost, twin.source, twin.arc = cost[link], source, arc
            twin.emits = arrival.emits


def _common(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    """The longest sequence that both begin with."""
    length = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), None)
    return a[: min(len(a), len(b)) if length is None else length]


def trace_back(
    graph: DecodingGraph,
    frames: Sequence[Frame],
    arrivals: Sequence[dict[int, Arrival]],
    ways: Sequence[Way],
    token: int,
    begin: int,
) -> Way:
    """Return the best path to a token of the last frame, from the begin of the utterance on.

    begin: the number of the first of the frames.
    """
    t, last = len(frames) - 1, arrivals[-1].get(token)
    if last is None:
        return Way(None, [], [])
    words: list[tuple[int, int]] = []
    tids: list[int] = []
    while (arrival := arrivals[t][token]).source >= 0:
        arcs = graph.emitting if arrival.emits else graph.epsilon
        t -= arrival.emits
        if arrival.emits:
            tids.append(int(arcs.ilabel[arrival.arc]))
        if word := int(arcs.olabel[arrival.arc]):
            words.append((word, begin + t))
        token = arrival.source
    before = ways[frames[0].origin[token]]
    end = replace(last, source=-1)  # where another piece begins
    return Way(end, before.words + words[::-1], before.tids + tids[::-1])

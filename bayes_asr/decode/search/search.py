"""The search over a whole utterance, its state-level lattice, and the best path through it."""

import numpy as np

from bayes_asr.base.errors import InputError
from bayes_asr.decode.search.engine import BestPath
from bayes_asr.decode.search.options import SearchOptions
from bayes_asr.decode.search.search_graph import DecodingGraph
from bayes_asr.decode.search.tokens import Frame, Search, finish, no_links
from bayes_asr.decode.search.trace import order_epsilons, trace
from bayes_asr.kaldi_io.lattice import Lattice


class ReferenceSession:
    """A `SearchSession` in NumPy."""

    def __init__(self, graph: DecodingGraph, options: SearchOptions) -> None:
        """Begin an utterance; InputError where only the compiled decoder can."""
        if graph.grammar is not None:
            raise InputError(
                f"{graph.name}: only the compiled decoder composes with a grammar; unset"
                " BAYES_ASR_DECODER, or build the graph with its language model"
            )
        self._graph, self._options = graph, options
        self._search = Search(graph, options)
        self._is_lost = False

    def advance(self, loglikes: np.ndarray) -> None:
        """Search further frames; where no token survives, what is decoded ends before it."""
        for frame in loglikes:
            if self._is_lost:
                return
            self._search.advance(frame)
            frames = self._search.frames
            if not len(frames[-1].state):
                self._is_lost = True
                frames.pop()
                frames[-1].outer = no_links()

    def trace(self) -> BestPath:
        """The best path through what has been searched."""
        return trace(self._graph, self._search.frames)

    def finish(self) -> tuple[Lattice | None, bool]:
        """The lattice, and was a final state reached?"""
        frames, options = self._search.frames, self._options
        if self._is_lost and (len(frames) == 1 or not options.allow_partial):
            return None, False
        is_whole = not self._is_lost
        ending, reached = finish(self._graph, frames, options.lattice_beam, is_whole)
        return build_raw_lattice(self._graph, frames, ending), reached


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
    source, ilabel, olabel, graph_cost, acoustic_cost, target = map(
        np.concatenate, zip(*columns, strict=True)
    )
    order = np.argsort(source, kind="stable")
    num_states = int(number[-1].max()) + 1
    counts = np.bincount(source, minlength=num_states)
    final = np.full(num_states, np.inf, np.float32)
    final[number[-1]] = ending
    return Lattice(
        np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        ilabel[order],
        olabel[order],
        graph_cost[order],
        acoustic_cost[order],
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

"""The search over a whole utterance, its state-level lattice, and the best path through it."""

import numpy as np

from bayes_asr.base.errors import InputError
from bayes_asr.decode.search.options import SearchOptions
from bayes_asr.decode.search.search_graph import DecodingGraph
from bayes_asr.decode.search.tokens import Frame, Search, finish, no_links
from bayes_asr.kaldi_io.lattice import Lattice


def search(
    graph: DecodingGraph, loglikes: np.ndarray, options: SearchOptions
) -> tuple[Lattice | None, bool]:
    """Search scaled log-likelihoods [T, num_pdfs]: the lattice, and was a final state reached?

    Where no token survives a frame, the lattice ends before it with allow_partial, else is None.
    """
    if graph.grammar is not None:
        raise InputError(
            f"{graph.name}: only the compiled decoder composes with a grammar; unset"
            " BAYES_ASR_DECODER, or build the graph with its language model"
        )
    decoder = Search(graph, options)
    for frame in loglikes:
        decoder.advance(frame)
        # No token survives: what is decoded ends at the frame before.
        if not len(decoder.frames[-1].state):
            if len(decoder.frames) == 2 or not options.allow_partial:
                return None, False
            decoder.frames.pop()
            decoder.frames[-1].outer = no_links()
            break
    complete = len(decoder.frames) == len(loglikes) + 1
    ending, reached = finish(graph, decoder.frames, options.lattice_beam, complete)
    return build_raw_lattice(graph, decoder.frames, ending), reached


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

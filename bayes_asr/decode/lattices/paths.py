"""The cheapest paths of a word lattice: at many weights at once, or the best n at one."""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from bayes_asr.base.errors import InputError
from bayes_asr.config.decoding_keys import LM_WEIGHTS, PENALTIES
from bayes_asr.kaldi_io.lattice import CompactLattice

Weights = tuple[float, float]  # LM weight, word insertion penalty


@dataclass(frozen=True)
class Path:
    """The words of one path and its costs, the acoustic one unscaled."""

    words: list[int]
    graph_cost: float
    acoustic_cost: float


def pair_weights(lmwts: Sequence[float], wips: Sequence[float]) -> list[Weights]:
    """Return every pair (LM weight, word insertion penalty), in the order of the arguments.

    Raises InputError for a weight or a penalty out of the range of `decode.lm_weights` or
    `decode.insertion_penalties`, and for a penalty of more than one decimal, the number of those
    that stand in the name of a file of hypotheses.
    """
    for lmwt in lmwts:
        if not LM_WEIGHTS.admits(lmwt):
            raise InputError(f"LM weight {lmwt:g}: give {LM_WEIGHTS.describe('a number')}")
    for wip in wips:
        if not PENALTIES.admits(wip):
            raise InputError(f"insertion penalty {wip:g}: give {PENALTIES.describe('a number')}")
        if not abs(wip - round(wip, 1)) < 1e-9:
            raise InputError(f"insertion penalty {wip:g}: write it with one decimal, as {wip:.1f}")
    return list(product(lmwts, wips))


def weigh(lattice: CompactLattice, lmwt: float, wip: float) -> CompactLattice:
    """Return the lattice with acoustic costs divided by `lmwt`, `wip` on the graph cost of words.

    Kaldi: lattice-scale --inv-acoustic-scale, lattice-add-penalty.
    """
    # The scale in single precision, products in double, sums again in single: as lattice-scale.
    scale = np.float64(np.float32(1.0 / lmwt))
    return replace(
        lattice,
        graph=lattice.graph + np.float32(wip) * (lattice.word > 0).astype(np.float32),
        acoustic=(lattice.acoustic * scale).astype(np.float32),
        final_acoustic=(lattice.final_acoustic * scale).astype(np.float32),
    )


def sweep_words(lattice: CompactLattice, grid: Sequence[Weights]) -> list[list[int]]:
    """Return for each (LM weight, penalty) the words of the cheapest path.

    The cost of a path is graph + penalty x words + acoustic / LM weight, with unscaled acoustic
    costs (in Kaldi: lattice-scale, lattice-add-penalty, lattice-best-path).
    """
    if not grid:
        return []
    weighed = [weigh(lattice, lmwt, wip) for lmwt, wip in grid]
    arc_cost = np.stack([x.graph.astype(np.float64) + x.acoustic for x in weighed], 1)
    best = np.stack([x.final_graph.astype(np.float64) + x.final_acoustic for x in weighed], 1)
    choice = np.full(best.shape, -1)
    offsets, target = lattice.offsets.tolist(), lattice.nextstate
    # Viterbi backwards over the sorted states, at all weights [K] at once.
    for state in range(lattice.num_states - 1, -1, -1):
        span = slice(offsets[state], offsets[state + 1])
        if span.start == span.stop:
            continue
        through = arc_cost[span] + best[target[span]]
        cheapest = through.argmin(axis=0)
        cost = np.take_along_axis(through, cheapest[None], axis=0)[0]
        better = cost < best[state]
        best[state] = np.where(better, cost, best[state])
        choice[state] = np.where(better, span.start + cheapest, -1)
    return [trace(lattice, choice[:, k]) for k in range(len(grid))]


def trace(lattice: CompactLattice, choice: np.ndarray) -> list[int]:
    """Return the words along the chosen arc of each state (-1: the path ends)."""
    words, state = [], 0
    while (arc := int(choice[state])) >= 0:
        words.append(int(lattice.word[arc]))
        state = int(lattice.nextstate[arc])
    return [word for word in words if word > 0]


def count_settled(lattice: CompactLattice, lmwt: float, wip: float = 0.0) -> int:
    """Return with how many words the cheapest paths to all ends of the lattice begin alike."""
    weighed = weigh(lattice, lmwt, wip)
    costs = (weighed.graph.astype(np.float64) + weighed.acoustic).tolist()
    offsets, words, target = (
        x.tolist() for x in (lattice.offsets, lattice.word, lattice.nextstate)
    )
    # Viterbi forwards over the sorted states; the words of each path are linked to those before.
    best: list[tuple[float, tuple]] = [(0.0, ())] + [(np.inf, ())] * (lattice.num_states - 1)
    for state, (cost, chain) in enumerate(best):
        for arc in range(offsets[state], offsets[state + 1]):
            through = cost + costs[arc]
            if through < best[target[arc]][0]:
                best[target[arc]] = through, (words[arc], chain) if words[arc] else chain
    ends = np.flatnonzero(np.isfinite(lattice.final_graph)).tolist()
    sequences = [unroll(best[state][1]) for state in ends]
    shortest = min(map(len, sequences), default=0)
    alike = (len({*column}) == 1 for column in zip(*sequences, strict=False))
    return next((i for i, same in enumerate(alike) if not same), shortest)


def best_paths(lattice: CompactLattice, count: int, lmwt: float, wip: float = 0.0) -> list[Path]:
    """Return up to `count` cheapest paths, cheapest first; in a word lattice all have other words.

    Kaldi: lattice-to-nbest.  A* search: partial paths are extended in the order of the cheapest
    complete path that they begin, since the cost from each state to an end is known exactly.
    """
    weighed = weigh(lattice, lmwt, wip)
    arc_cost = weighed.graph.astype(np.float64) + weighed.acoustic
    end_cost = weighed.final_graph.astype(np.float64) + weighed.final_acoustic
    ahead = costs_to_end(lattice, arc_cost, end_cost)
    complete: list[list[int]] = []
    queue: list[tuple[float, int, float, int, tuple]] = [(ahead[0], 0, 0.0, 0, ())]
    pushed = 0
    while queue and len(complete) < count:
        _, _, cost, state, arcs = heapq.heappop(queue)
        if state < 0:
            complete.append(unroll(arcs))
            continue
        # A final cost is a successor without a state: -1 marks a complete path.
        successors = [(cost + end_cost[state], -1, arcs)] if np.isfinite(end_cost[state]) else []
        for arc in range(lattice.offsets[state], lattice.offsets[state + 1]):
            successors.append((cost + arc_cost[arc], int(lattice.nextstate[arc]), (arc, arcs)))
        for path_cost, nextstate, extended in successors:
            pushed += 1
            total = path_cost + (ahead[nextstate] if nextstate >= 0 else 0.0)
            heapq.heappush(queue, (total, pushed, path_cost, nextstate, extended))
    return [build_path(lattice, arcs) for arcs in complete]


def unroll(arcs: tuple) -> list[int]:
    """Return a list of arcs from the chain (last arc, chain of those before it)."""
    path: list[int] = []
    while arcs:
        arc, arcs = arcs
        path.append(arc)
    return path[::-1]


def costs_to_end(lattice: CompactLattice, arc_cost: np.ndarray, end_cost: np.ndarray) -> np.ndarray:
    """Return the cost of the cheapest path from each state to an end, float64 [S]."""
    ahead = end_cost.copy()
    for state in range(lattice.num_states - 1, -1, -1):
        span = slice(lattice.offsets[state], lattice.offsets[state + 1])
        through = arc_cost[span] + ahead[lattice.nextstate[span]]
        ahead[state] = min(ahead[state], through.min(initial=np.inf))
    return ahead


def build_path(lattice: CompactLattice, arcs: list[int]) -> Path:
    """Return words and unscaled costs of the path over these arcs."""
    end = int(lattice.nextstate[arcs[-1]]) if arcs else 0
    graph = lattice.graph[arcs].sum(dtype=np.float64) + lattice.final_graph[end]
    acoustic = lattice.acoustic[arcs].sum(dtype=np.float64) + lattice.final_acoustic[end]
    words = [int(word) for word in lattice.word[arcs] if word > 0]
    return Path(words, float(graph), float(acoustic))

"""Best words of a lattice at many LM weights and word insertion penalties at once."""

from collections.abc import Sequence
from itertools import product

import numpy as np

from bayes_asr.tables.lattice import CompactLattice

Weights = tuple[float, float]


def weight_grid(lmwts: Sequence[float], wips: Sequence[float]) -> list[Weights]:
    """Return every pair (LM weight, word insertion penalty), in the order of the arguments."""
    return list(product(lmwts, wips))


def sweep_words(lattice: CompactLattice, grid: Sequence[Weights]) -> list[list[int]]:
    """Return for each (LM weight, penalty) the words of the cheapest path.

    The cost of a path is graph + penalty x words + acoustic / LM weight, with unscaled acoustic
    costs (in Kaldi: lattice-scale, lattice-add-penalty, lattice-best-path).
    """
    lmwt = np.array([pair[0] for pair in grid])
    wip = np.array([pair[1] for pair in grid])
    arc_cost = (
        lattice.graph[:, None]
        + wip * (lattice.word > 0)[:, None]
        + lattice.acoustic[:, None] / lmwt
    )
    best = lattice.final_graph[:, None] + lattice.final_acoustic[:, None] / lmwt
    choice = np.full(best.shape, -1)
    offsets, target = lattice.offsets.tolist(), lattice.nextstate
    for state in range(lattice.num_states - 1, -1, -1):
        own = slice(offsets[state], offsets[state + 1])
        if own.start == own.stop:
            continue
        through = arc_cost[own] + best[target[own]]
        first = through.argmin(axis=0)
        cost = np.take_along_axis(through, first[None], axis=0)[0]
        better = cost < best[state]
        best[state] = np.where(better, cost, best[state])
        choice[state] = np.where(better, own.start + first, -1)
    return [trace(lattice, choice[:, k]) for k in range(len(grid))]


def trace(lattice: CompactLattice, choice: np.ndarray) -> list[int]:
    """Return the words along the chosen arc of each state (-1: the path ends)."""
    words, state = [], 0
    while (arc := int(choice[state])) >= 0:
        words.append(int(lattice.word[arc]))
        state = int(lattice.nextstate[arc])
    return [word for word in words if word > 0]

"""Sums over all paths of a lattice, in time linear in its steps: posteriors, and expected gains.

Paths have weights, each the product of those of its steps and cells, and gains, each a sum over
cells. Kaldi: lat/lattice-functions.cc, LatticeForwardBackward and its MpeVariants.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from bayes_asr.base import elementary
from bayes_asr.base.elementary import exp_scalar, log_scalar
from bayes_asr.decode.lattices import compiled
from bayes_asr.decode.lattices.aligned import AlignedLattice


@dataclass(frozen=True)
class Expectation:
    """Sums over all paths of a lattice, by their shares of the weight of all.

    `log_total`: the logarithm of that weight; `gain`: the mean gain; `share` float64 [C]: of the
    paths that pass each cell, which is the derivative of `log_total` by the score of the cell;
    `slope` float64 [C]: that of `gain`.
    """

    log_total: float
    gain: float
    share: np.ndarray
    slope: np.ndarray


def expect(lattice: AlignedLattice, score: np.ndarray, gain: np.ndarray) -> Expectation:
    """Return what paths give where each cell has a score, added to log-weights, and a gain [C].

    Computed in double precision, by C++ where that is built.
    """
    if not compiled.LIBRARY.usable:
        return expect_in_python(lattice, score, gain)
    cells = len(lattice.frame)
    share, slope, totals = np.empty(cells), np.empty(cells), np.empty(2)
    compiled.expect(lattice, score, gain, share, slope, totals)
    return Expectation(float(totals[0]), float(totals[1]), share, slope)


def expect_in_python(lattice: AlignedLattice, score: np.ndarray, gain: np.ndarray) -> Expectation:
    """The Python version of `expect`, which defines its result."""
    worth = lattice.weight + _sum_cells(lattice, score)
    gained = _sum_cells(lattice, gain)
    rows = (lattice.source, lattice.target, worth, gained)
    steps = list(zip(*(row.tolist() for row in rows), strict=True))
    back = [(target, source, *numbers) for source, target, *numbers in reversed(steps)]
    forward, forward_gain = _follow(steps, 0, lattice.num_states)
    backward, backward_gain = _follow(back, lattice.num_states - 1, lattice.num_states)
    total, mean = forward[-1], forward_gain[-1]
    # Forward-backward: a step's share of the weight, and the mean gain of the paths through it.
    shares = elementary.exp(forward[lattice.source] + worth + backward[lattice.target] - total)
    excess = forward_gain[lattice.source] + gained + backward_gain[lattice.target] - mean
    # A step's share belongs to every cell that it passes.
    lengths, cells = np.diff(lattice.offsets), len(lattice.frame)
    share, slope = (
        np.bincount(lattice.cells, np.repeat(quantity, lengths), cells)
        for quantity in (shares, shares * excess)
    )
    return Expectation(float(total), float(mean), share, slope)


def _sum_cells(lattice: AlignedLattice, values: np.ndarray) -> np.ndarray:
    """The sum of the values [C] of the cells of each step, float64 [A]."""
    passed = values[lattice.cells].tolist()
    return np.array([sum(passed[a:b]) for a, b in pairwise(lattice.offsets.tolist())], np.float64)


def _follow(
    steps: Iterable[tuple[int, int, float, float]], start: int, states: int
) -> tuple[np.ndarray, np.ndarray]:
    """The log-weight of all paths from `start` to each state, and their mean gain, both [S]."""
    alpha = [-math.inf] * states
    alpha[start] = 0.0
    for source, target, worth, _ in steps:
        alpha[target] = _add_logs(alpha[target], alpha[source] + worth)
    # The mean gain of a state: over the steps into it, by their shares of its weight (MPE's c).
    gains = [0.0] * states
    for source, target, worth, gained in steps:
        if alpha[target] > -math.inf:
            share = exp_scalar(alpha[source] + worth - alpha[target])
            gains[target] += share * (gains[source] + gained)
    return np.array(alpha), np.array(gains)


def _add_logs(a: float, b: float) -> float:
    """Return log(exp(a) + exp(b))."""
    larger, smaller = (a, b) if a > b else (b, a)
    return larger if smaller == -math.inf else larger + log_scalar(1 + exp_scalar(smaller - larger))

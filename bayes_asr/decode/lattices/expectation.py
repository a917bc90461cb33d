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
    """What all paths of a lattice give together, by their shares of the weight of all.

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
    """Do what `expect` does, as it is defined."""
    worth = lattice.weight + _sum_cells(lattice, score)
    gained = _sum_cells(lattice, gain)
    rows = (lattice.source, lattice.target, worth, gained)
    steps = list(zip(*(row.tolist() for row in rows), strict=True))
    back = [(target, source, *rest) for source, target, *rest in reversed(steps)]
    before, gain_before = _follow(steps, 0, lattice.num_states)
    after, gain_after = _follow(back, lattice.num_states - 1, lattice.num_states)
    total, mean = before[-1], gain_before[-1]
    taken = elementary.exp(before[lattice.source] + worth + after[lattice.target] - total)
    more = gain_before[lattice.source] + gained + gain_after[lattice.target] - mean
    lengths, cells = np.diff(lattice.offsets), len(lattice.frame)
    share, slope = (
        np.bincount(lattice.cells, np.repeat(values, lengths), cells)
        for values in (taken, taken * more)
    )
    return Expectation(float(total), float(mean), share, slope)


def _sum_cells(lattice: AlignedLattice, values: np.ndarray) -> np.ndarray:
    """The sum of the values [C] of the cells of each step, float64 [A]."""
    passed = values[lattice.cells].tolist()
    return np.array([sum(passed[a:b]) for a, b in pairwise(lattice.offsets.tolist())], np.float64)


def _follow(
    steps: Iterable[tuple[int, int, float, float]], start: int, states: int
) -> tuple[np.ndarray, np.ndarray]:
    """The log-weight of all ways from `start` to each state, and their mean gain, both [S]."""
    reached = [-math.inf] * states
    reached[start] = 0.0
    for source, target, worth, _ in steps:
        reached[target] = _add_logs(reached[target], reached[source] + worth)
    gains = [0.0] * states
    for source, target, worth, gained in steps:
        if reached[target] > -math.inf:
            share = exp_scalar(reached[source] + worth - reached[target])
            gains[target] += share * (gains[source] + gained)
    return np.array(reached), np.array(gains)


def _add_logs(one: float, other: float) -> float:
    """Return log(exp(one) + exp(other))."""
    more, less = (one, other) if one > other else (other, one)
    return more if less == -math.inf else more + log_scalar(1 + exp_scalar(less - more))

"""Random numbers of Kaldi's programs: `rand()` of the GNU C library, and derived distributions.

A program that splits Gaussians begins with seed 1, so its numbers are known in advance.
"""

from functools import cache

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from bayes_asr.base import elementary

LARGEST = 2**31 - 1  # RAND_MAX
DEGREE, LAG = 31, 3  # x**31 + x**3 + 1, the trinomial of the additive feedback
DISCARDED = 310  # outputs that srandom throws away
BLOCK = 2048  # numbers that are computed at once


class Random:
    """The additive feedback generator of the GNU C library (stdlib/random_r.c, TYPE_3)."""

    def __init__(self, seed: int = 1) -> None:
        state = [seed or 1]
        while len(state) < DEGREE:
            state.append(16807 * state[-1] % LARGEST)  # minimal standard, Park and Miller 1988
        self._state = np.array(state[LAG:] + state[:LAG], np.int64).astype(np.uint32)
        self.integers(DISCARDED)

    def integers(self, count: int) -> np.ndarray:
        """The next `count` values of rand(), int64 from 0 to RAND_MAX."""
        # The recurrence r[i] = r[i - 31] + r[i - 3] mod 2^32 is followed number by number at first;
        # then a block of numbers is a linear function of the block before it.
        serial = min(count, BLOCK)
        sequence = self._state.tolist()
        for _ in range(serial):
            sequence.append((sequence[-DEGREE] + sequence[-LAG]) & 0xFFFFFFFF)
        values = np.empty(DEGREE + count, np.uint32)
        values[: len(sequence)] = sequence
        for begin in range(len(sequence), len(values), BLOCK):
            end = min(begin + BLOCK, len(values))
            history = values[begin - BLOCK - DEGREE + 1 : end - BLOCK]
            values[begin:end] = sliding_window_view(history, DEGREE) @ _leap()
        self._state = values[count:].copy()
        return (
            values[DEGREE:].astype(np.int64) >> 1
        )  # rand() drops the lowest bit, the least random

    def uniform(self, count: int) -> np.ndarray:
        """Numbers between 0 and 1, neither of them before rounding, float32 (RandUniform)."""
        return ((self.integers(count) + 1.0) / (LARGEST + 2.0)).astype(np.float32)

    def gauss(self, count: int) -> np.ndarray:
        """Numbers of mean 0 and variance 1 by Box and Muller's transform, float32 (RandGauss).

        Each takes two numbers; the radius comes of the first.
        """
        radial, angular = self.uniform(2 * count).reshape(count, 2).T
        log = elementary.log(radial).astype(np.float32)
        angle = (2 * np.pi * angular.astype(np.float64)).astype(np.float32)
        return np.sqrt(-2 * log) * elementary.cos(angle).astype(np.float32)


@cache
def _leap() -> np.ndarray:
    """Coefficients uint32 [DEGREE] of DEGREE numbers in a row in the one BLOCK after the last.

    The remainder of x**(BLOCK + DEGREE - 1) by the polynomial of the recurrence.
    """
    remainder = [1] + [0] * (DEGREE - 1)
    for _ in range(BLOCK + DEGREE - 1):
        # Multiply by x; x^31 = x^28 + 1, since r[i] = r[i - 3] + r[i - 31].
        carried = remainder.pop()
        remainder.insert(0, carried)
        remainder[DEGREE - LAG] += carried
    return np.array([value & 0xFFFFFFFF for value in remainder], np.uint32)

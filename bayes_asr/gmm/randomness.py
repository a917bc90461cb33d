"""The random numbers of Kaldi's programs: `rand()` of the GNU C library, and what is made of them.

A program that splits Gaussians begins with seed 1, so its numbers are known in advance.
"""

import numpy as np

LARGEST = 2**31 - 1  # RAND_MAX
DEGREE, LAG = 31, 3  # x**31 + x**3 + 1, the trinomial of the additive feedback
DISCARDED = 310  # outputs that srandom throws away


class Random:
    """The additive feedback generator of the GNU C library (stdlib/random_r.c, TYPE_3)."""

    def __init__(self, seed: int = 1) -> None:
        state = [seed or 1]
        while len(state) < DEGREE:
            state.append(16807 * state[-1] % LARGEST)  # minimal standard, Park and Miller 1988
        self._state = state[LAG:] + state[:LAG]
        self.integers(DISCARDED)

    def integers(self, count: int) -> np.ndarray:
        """The next `count` values of rand(), int64 from 0 to RAND_MAX."""
        state = self._state
        for _ in range(count):
            state.append((state[-DEGREE] + state[-LAG]) & 0xFFFFFFFF)
        self._state = state[-DEGREE:]
        return np.array(state[DEGREE:], np.int64) >> 1

    def uniform(self, count: int) -> np.ndarray:
        """Numbers between 0 and 1, neither of them before rounding, float32 (RandUniform)."""
        return ((self.integers(count) + 1.0) / (LARGEST + 2.0)).astype(np.float32)

    def gauss(self, count: int) -> np.ndarray:
        """Numbers of mean 0 and variance 1 by Box and Muller's transform, float32 (RandGauss).

        Each takes two numbers; the radius comes of the first.
        """
        first, second = self.uniform(2 * count).reshape(count, 2).T
        log = np.log(first.astype(np.float64)).astype(np.float32)
        angle = (2 * np.pi * second.astype(np.float64)).astype(np.float32)
        return np.sqrt(-2 * log) * np.cos(angle.astype(np.float64)).astype(np.float32)

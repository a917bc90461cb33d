"""Statistics of decision trees for tests: random sums of random events."""

import numpy as np

from bayes_asr.gmm.tree_statistics import Context, TreeStatistics
from bayes_asr.kaldi_io.initial_mdl import build_monophone_model
from bayes_asr.kaldi_io.transition_model import Topology


def random_statistics(
    phones: int, seed: int, *, states: int = 2, dim: int = 3, kept: float = 1.0
) -> TreeStatistics:
    """Sums of most windows of three of the phones 1 to `phones`, which may be beyond an end."""
    rng = np.random.default_rng(seed)
    grid = np.indices((states, phones + 1, phones, phones + 1)).reshape(4, -1).T
    grid[:, 2] += 1
    events = grid[rng.random(len(grid)) < kept].astype(np.int32)
    colour = rng.normal(size=(phones + 1, dim))
    means = 2 * colour[events[:, 2]] + colour[events[:, 1]] * (1 + events[:, :1])
    means += 0.5 * colour[events[:, 3]] + 0.1 * rng.normal(size=means.shape)
    frames = rng.integers(1, 200, (len(events), 1)).astype(float)
    sums = np.hstack([frames, frames * means, frames * (means**2 + rng.uniform(0.5, 2, dim))])
    return TreeStatistics(Context(), events, sums)


def topology_of(phones: int, states: int = 2) -> Topology:
    """`states` from left to right for each of the phones 1 to `phones`."""
    return build_monophone_model(range(1, phones + 1), states).topology

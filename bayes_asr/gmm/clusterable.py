"""Clusters of Gaussian statistics: how likely their frames are, and what merging them costs.

The statistics of a cluster are a row float64 [1 + 2D]: its frames, the sum of their features, the
sum of their squares; adding rows joins clusters (Kaldi's tree/clusterable-classes.h). Objective
functions are rounded to float32, as Kaldi's are: its programs compare the rounded numbers, and so
the first of several equal splits wins here too, although their sums differ in the last bits.
"""

from collections.abc import Sequence

import numpy as np

from bayes_asr.gmm import compiled
from bayes_asr.gmm.linear_algebra import log
from bayes_asr.gmm.randomness import Random
from bayes_asr.kaldi_io.mixtures import LOG_2PI

VARIANCE_FLOOR = np.float32(0.01)  # of acc-tree-stats
TRIES, PASSES, ROUNDS = 10, 20, 100  # of two-means: starts, refinements of each, rounds of these


def objective(sums: np.ndarray) -> np.ndarray:
    """Log-likelihood float32 [...] of the frames of clusters [..., 1 + 2D], each by its Gaussian.

    Variances have a floor. A cluster without frames has 0.
    """
    dim = sums.shape[-1] // 2
    count = sums[..., 0]
    frames = np.where(count > 0, count, 1.0)
    mean = sums[..., 1 : 1 + dim] / frames[..., None]
    variance = sums[..., 1 + dim :] / frames[..., None] - mean * mean
    floored = np.maximum(variance, np.float64(VARIANCE_FLOOR))
    spread = (variance / floored + log(floored)).sum(-1) + dim * LOG_2PI
    return np.where(count > 0, -0.5 * spread * frames, 0.0).astype(np.float32)


def sum_by(values: np.ndarray, sums: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Add up the rows of `sums` [n, F] with equal `values` [n]: the distinct values, their sums."""
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    begins = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)])
    return ordered[begins], np.add.reduceat(sums[order], begins)


def merge_costs(cluster: np.ndarray, clusters: np.ndarray) -> np.ndarray:
    """Costs float32 [n] of merging a cluster [1 + 2D] with each of `clusters` [n, 1 + 2D]."""
    # One call for all: calls cost more time than elements.
    # The cost is L(cluster) + L(other) - L(both); rounding may take it below 0.
    objectives = objective(np.concatenate((cluster[None], clusters, cluster + clusters)))
    return np.maximum(
        objectives[0] + objectives[1 : 1 + len(clusters)] - objectives[1 + len(clusters) :], 0
    )


def merge_clusters(
    groups: Sequence[np.ndarray], threshold: np.float32, least: int = 0
) -> list[np.ndarray]:
    """Merge the cheapest two clusters of a group until that costs more than `threshold`.

    `groups`: the clusters [n, 1 + 2D] of each; those of different groups are never merged. No
    merge leaves fewer than `least` clusters in all. Returns the new number of each cluster [n],
    counted in each group (ClusterBottomUp and ClusterBottomUpCompartmentalized).
    """
    # The globally cheapest merge is always next, as in Kaldi's queue.
    compartments = [_Compartment(clusters, threshold) for clusters in groups]
    remaining = sum(map(len, groups))
    while remaining > least and compartments:
        cheapest = min(compartments, key=lambda compartment: compartment.cost)
        if not np.isfinite(cheapest.cost):
            break
        cheapest.merge()
        remaining -= 1
    return [compartment.numbers() for compartment in compartments]


class _Compartment:
    """Clusters of one group, and what merging any two of them costs."""

    def __init__(self, clusters: np.ndarray, threshold: np.float32) -> None:
        self.clusters = clusters.copy()
        self.threshold = threshold
        # costs[i, j] is finite for i > j alone, and where it does not exceed the threshold.
        self.into = np.arange(len(clusters))
        self.alive = np.ones(len(clusters), bool)
        self.costs = np.full((len(clusters), len(clusters)), np.inf, np.float32)
        for i in range(1, len(clusters)):
            cost = merge_costs(clusters[i], clusters[:i])
            self.costs[i, :i] = np.where(cost <= threshold, cost, np.inf)
        self.cost = self.costs.min(initial=np.inf)

    def merge(self) -> None:
        """Merge the cheapest two: the later one remains."""
        i, j = np.unravel_index(np.argmin(self.costs), self.costs.shape)
        self.clusters[i] += self.clusters[j]
        self.into[j] = i
        self.alive[j] = False
        self.costs[j] = self.costs[:, j] = np.inf
        remaining = np.flatnonzero(self.alive & (np.arange(len(self.alive)) != i))
        cost = merge_costs(self.clusters[i], self.clusters[remaining])
        below = cost < self.threshold  # here Kaldi does not accept the threshold itself
        self.costs[np.maximum(i, remaining), np.minimum(i, remaining)] = np.where(
            below, cost, np.inf
        )
        self.cost = self.costs.min()

    def numbers(self) -> np.ndarray:
        """The number of the cluster that each one is part of now, counted without gaps."""
        # Follow the merges to their end: each round doubles the length of the steps.
        into = self.into
        while not np.array_equal(into, into[into]):
            into = into[into]
        return (np.cumsum(self.alive) - 1)[into]


def split_in_two(points: np.ndarray, random: Random) -> tuple[np.float32, np.ndarray]:
    """Divide n points [n, 1 + 2D] between two clusters: the best of some pseudo-random starts.

    Returns the gain over one cluster, and the cluster 0 or 1 of each point (ClusterKMeans).
    """
    attempts = [_split_from(_scatter(len(points), random), points) for _ in range(TRIES)]
    return max(attempts, key=lambda attempt: attempt[0])


def _scatter(count: int, random: Random) -> np.ndarray:
    """Deal points out to two clusters in turn, in steps that are coprime to their number."""
    # i * skip mod count visits every point once.
    skip = 1 + int(random.integers(1)[0]) % (count - 1)
    while np.gcd(skip, count) != 1:
        skip = 1 if skip == count - 1 else skip + 1
    assigned = np.empty(count, np.int64)
    assigned[np.arange(count) * skip % count] = np.arange(count) % 2
    return assigned


def _split_from(assigned: np.ndarray, points: np.ndarray) -> tuple[np.float32, np.ndarray]:
    clusters = np.stack([points[assigned == 0].sum(0), points[assigned == 1].sum(0)])
    gain = objective(clusters).sum(dtype=np.float32) - objective(clusters.sum(0))
    for _ in range(PASSES):
        improvement = refine(points, clusters, assigned)
        gain += improvement
        if improvement == 0:
            break
    return gain, assigned


def refine(points: np.ndarray, clusters: np.ndarray, assigned: np.ndarray) -> np.float32:
    """Move points one by one to the other cluster where that is better; return the gain.

    `clusters` [2, 1 + 2D] and `assigned` [n] change in place (RefineClusters). By C++ where that
    is built.
    """
    if not compiled.LIBRARY.usable:
        return refine_in_numpy(points, clusters, assigned)
    constant = points.shape[1] // 2 * LOG_2PI
    return compiled.refine(points, clusters, assigned, float(VARIANCE_FLOOR), constant, ROUNDS)


def refine_in_numpy(points: np.ndarray, clusters: np.ndarray, assigned: np.ndarray) -> np.float32:
    """The NumPy version of `refine`, which defines its result to the bit."""
    gain = np.float32(0)
    for _ in range(ROUNDS):
        # All gains behind a move are computed anew, since it has changed both clusters.
        position, moved = 0, False
        while position < len(points):
            gains = _moving_gains(points[position:], clusters, assigned[position:])
            better = np.flatnonzero(gains > 0)
            if not len(better):
                break
            gain += gains[better[0]]
            position += better[0]
            cluster = assigned[position]
            clusters[cluster] -= points[position]
            clusters[1 - cluster] += points[position]
            assigned[position] = 1 - cluster
            position, moved = position + 1, True
        if not moved:
            break
    return gain


def _moving_gains(points: np.ndarray, clusters: np.ndarray, assigned: np.ndarray) -> np.ndarray:
    """Gains float32 [n] of moving each point to the other of two clusters."""
    without, joined = clusters[assigned] - points, clusters[1 - assigned] + points
    objectives = objective(np.concatenate((joined, without, clusters)))
    after_joined, after_without, now = np.split(objectives, (len(points), 2 * len(points)))
    return after_joined + after_without - now[1 - assigned] - now[assigned]

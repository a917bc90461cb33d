"""Clusters of Gaussian statistics, against scipy's densities and brute force."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from bayes_asr.gmm import compiled
from bayes_asr.gmm.clusterable import (
    merge_clusters,
    merge_costs,
    objective,
    refine,
    refine_in_numpy,
    split_in_two,
    sum_by,
)
from bayes_asr.gmm.randomness import Random

INFINITE = np.float32(np.inf)


def sums_of(x: np.ndarray) -> np.ndarray:
    return np.concatenate([[len(x)], x.sum(0), (x * x).sum(0)])


def random_clusters(count: int, seed: int, apart: float = 3.0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(3, 30, count)
    return np.stack([sums_of(rng.normal(apart * rng.normal(size=4), 1, (n, 4))) for n in sizes])


def test_objective_is_the_log_likelihood_of_the_frames() -> None:
    x = np.random.default_rng(0).normal(1, 2, (50, 5))
    expected = norm.logpdf(x, x.mean(0), x.std(0)).sum()
    assert objective(sums_of(x)) == pytest.approx(expected, rel=1e-6)


def test_variances_have_a_floor() -> None:
    x = np.full((10, 1), 3.0) + [[0.0], [0.1]] * 5
    expected = norm.logpdf(x, x.mean(0), 0.1).sum()
    assert objective(sums_of(x)) == pytest.approx(expected, rel=1e-6)


def test_no_frames_have_no_likelihood() -> None:
    assert objective(np.zeros((2, 7))).tolist() == [0, 0]
    assert objective(np.zeros((2, 7))).dtype == np.float32


def test_sums_by_value() -> None:
    values, sums = sum_by(np.array([3, 1, 3, 3]), np.arange(8.0).reshape(4, 2))
    assert values.tolist() == [1, 3]
    assert sums.tolist() == [[2, 3], [10, 13]]


def cheapest_pairs(clusters: np.ndarray, until: int) -> list[set[int]]:
    """Merge the two clusters whose merging costs least, tried one by one."""
    parts = [({n}, row) for n, row in enumerate(clusters)]
    while len(parts) > until:
        pairs = itertools.combinations(range(len(parts)), 2)
        i, j = min(pairs, key=lambda p: merge_costs(parts[p[0]][1], parts[p[1]][1][None])[0])
        (one, here), (other, there) = parts[i], parts[j]
        parts = [part for n, part in enumerate(parts) if n not in (i, j)]
        parts.append((one | other, here + there))
    return sorted((members for members, _ in parts), key=min)


@pytest.mark.parametrize("least", [1, 4, 9])
def test_merging_is_that_of_brute_force(least: int) -> None:
    clusters = random_clusters(12, seed=least)
    (numbers,) = merge_clusters([clusters], INFINITE, least)
    ours = [set(np.flatnonzero(numbers == n).tolist()) for n in range(numbers.max() + 1)]
    assert sorted(ours, key=min) == cheapest_pairs(clusters, least)


def test_clusters_of_different_groups_are_not_merged() -> None:
    clusters = random_clusters(6, seed=1)
    together = merge_clusters([clusters, clusters[:3], clusters[:0]], INFINITE, 2)
    assert [numbers.tolist() for numbers in together] == [[0] * 6, [0] * 3, []]
    cheaper, dearer = merge_clusters([random_clusters(4, 2, apart=0.1), clusters[:4]], INFINITE, 5)
    assert cheaper.tolist() == [0] * 4
    assert dearer.tolist() == [0, 1, 2, 3]


def test_the_threshold_itself_is_a_price_that_is_paid() -> None:
    pair = random_clusters(2, seed=3)
    cost = merge_costs(pair[1], pair[:1])[0]
    assert merge_clusters([pair], cost)[0].tolist() == [0, 0]
    assert merge_clusters([pair], np.nextafter(cost, np.float32(0)))[0].tolist() == [0, 1]


def test_two_heaps_are_found() -> None:
    rng = np.random.default_rng(0)
    heap = rng.integers(0, 2, 20)
    points = np.stack([sums_of(rng.normal(20 * side, 1, (9, 3))) for side in heap])
    gain, halves = split_in_two(points, Random())
    assert len(set(zip(heap.tolist(), halves.tolist(), strict=True))) == 2
    apart = sum(objective(points[heap == side].sum(0)) for side in (0, 1))
    assert gain == pytest.approx(apart - objective(points.sum(0)), rel=1e-5)


@pytest.mark.parametrize("seed", range(5))
def test_no_point_would_gain_by_moving(seed: int) -> None:
    points = random_clusters(9, seed, apart=0.5)
    gain, halves = split_in_two(points, Random())

    def value(assigned: np.ndarray) -> float:
        return float(sum(objective(points[assigned == side].sum(0)) for side in (0, 1)))

    for point in range(len(points)):
        moved = halves.copy()
        moved[point] = 1 - moved[point]
        assert value(moved) <= value(halves) + 1e-3
    assert gain == pytest.approx(value(halves) - objective(points.sum(0)), abs=1e-2)


@pytest.mark.skipif(not compiled.LIBRARY.usable, reason="_gmm.so is not built")
@given(
    st.integers(1, 40),
    st.one_of(st.integers(1, 12), st.sampled_from([39, 128, 140, 270])),
    st.sampled_from([0, 0.05, 1, 20]),
    st.integers(0, 2**32 - 1),
)
def test_points_move_to_the_same_bits(count: int, dim: int, apart: float, seed: int) -> None:
    """Spreads below the floor, points without frames and equal points are among them."""
    rng = np.random.default_rng(seed)
    x = rng.normal(rng.normal(size=(count, 1, dim)) * apart, 0.1, (count, 3, dim))
    x[rng.integers(count, size=2)] = x[0]
    points = np.stack([sums_of(frames) for frames in x])
    points[rng.random(count) < 0.1] = 0
    assigned = rng.integers(2, size=count)
    clusters = np.stack([points[assigned == side].sum(0) for side in (0, 1)])
    twins = clusters.copy(), assigned.copy()
    assert refine(points, clusters, assigned).tobytes() == refine_in_numpy(points, *twins).tobytes()
    assert [x.tobytes() for x in (clusters, assigned)] == [x.tobytes() for x in twins]

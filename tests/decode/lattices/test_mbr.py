"""Paths and minimum Bayes risk against counting over all paths of small lattices."""

import tracemalloc
from itertools import product

import kaldialign
import numpy as np
import pytest

from bayes_asr.base.errors import InputError
from bayes_asr.decode.lattices.compiled import LIBRARY
from bayes_asr.decode.lattices.mbr import (
    build_arc_table,
    decode_mbr,
    expected_errors,
    expected_errors_in_numpy,
)
from bayes_asr.decode.lattices.paths import best_paths, pair_weights, sweep_words, weigh
from bayes_asr.decode.search.determinize import determinize
from bayes_asr.kaldi_io.lattice import CompactLattice
from tests.decode.search.test_determinize import PHONES, random_lattice
from tests.support.decode_cases import random_network, word_paths

LMWT, WIP = 1.5, 0.3


def word_lattice(seed: int, frames: int = 6) -> CompactLattice:
    assert random_network(seed).num_pdfs == 8
    return determinize(random_lattice(seed, frames), PHONES, 3.0)


def weighted_paths(
    lattice: CompactLattice, lmwt: float, wip: float
) -> list[tuple[float, tuple[int, ...]]]:
    """All paths with their costs at these weights, cheapest first."""
    return sorted(
        (graph + wip * len(words) + acoustic / lmwt, words)
        for words, _, graph, acoustic in word_paths(lattice)
    )


@pytest.mark.parametrize("seed", range(6))
def test_sweep_finds_the_cheapest_words_at_every_weight(seed: int) -> None:
    lattice = word_lattice(seed)
    grid = pair_weights([0.5, 1.0, 3.0], [-0.5, 0.0, 2.0])
    assert grid == list(product([0.5, 1.0, 3.0], [-0.5, 0.0, 2.0]))
    for (lmwt, wip), words in zip(grid, sweep_words(lattice, grid), strict=True):
        paths = weighted_paths(lattice, lmwt, wip)
        cost = next(cost for cost, found in paths if found == tuple(words))
        assert cost == pytest.approx(paths[0][0], abs=1e-4)


@pytest.mark.parametrize("seed", range(6))
def test_best_paths_come_in_order(seed: int) -> None:
    lattice = word_lattice(seed)
    expected = weighted_paths(lattice, LMWT, WIP)
    found = best_paths(lattice, 7, LMWT, WIP)
    costs = [p.graph_cost + WIP * len(p.words) + p.acoustic_cost / LMWT for p in found]
    np.testing.assert_allclose(costs, [cost for cost, _ in expected[:7]], atol=1e-4)
    assert len({tuple(path.words) for path in found}) == len(found)
    everything = best_paths(lattice, 10**6, LMWT, WIP)
    assert {tuple(path.words) for path in everything} == {words for _, words in expected}


def posteriors(lattice: CompactLattice) -> dict[tuple[int, ...], float]:
    paths = weighted_paths(lattice, LMWT, WIP)
    weights = np.exp(paths[0][0] - np.array([cost for cost, _ in paths]))
    return dict(zip((words for _, words in paths), weights / weights.sum(), strict=True))


def expected_distance(words: tuple[int, ...], shares: dict[tuple[int, ...], float]) -> float:
    return sum(
        share * kaldialign.edit_distance(list(map(str, other)), list(map(str, words)))["total"]
        for other, share in shares.items()
    )


@pytest.mark.parametrize("seed", range(12))
def test_risk_bounds_the_expected_distance_and_the_words_lower_it(seed: int) -> None:
    """The recursion is an upper bound of the expected edit distance (section 4 of the paper)."""
    lattice = word_lattice(seed)
    shares = posteriors(lattice)
    found = decode_mbr(lattice, LMWT, WIP)
    exact = expected_distance(tuple(one.word for one in found.words), shares)
    assert exact <= found.risk + 1e-3
    assert found.risk <= exact * 1.25 + 0.05
    best_path = decode_mbr(lattice, LMWT, WIP, change_words=False)
    assert [one.word for one in best_path.words] == sweep_words(lattice, [(LMWT, WIP)])[0]
    assert found.risk <= best_path.risk + 1e-6


@pytest.mark.parametrize("seed", range(12))
def test_times_are_in_order_and_confidences_are_posteriors(seed: int) -> None:
    found = decode_mbr(word_lattice(seed, frames=8), LMWT, WIP).words
    times = [time for one in found for time in (one.start, one.end)]
    assert times == sorted(times)
    assert all(0 <= time <= 8 for time in times)
    assert all(0 < one.confidence <= 1 + 1e-6 for one in found)


@pytest.mark.skipif(not LIBRARY.usable, reason="the C++ sums are not built")
@pytest.mark.parametrize("seed", range(12))
def test_cpp_expects_the_errors_that_numpy_expects(seed: int) -> None:
    table = build_arc_table(weigh(word_lattice(seed, frames=8), LMWT, WIP))
    rng = np.random.default_rng(seed)
    for length in (1, 5, 9):
        hypothesis = rng.integers(0, len(table.words), length)
        found, expected = (
            f(table, hypothesis) for f in (expected_errors, expected_errors_in_numpy)
        )
        for name, value in vars(expected).items():
            np.testing.assert_allclose(getattr(found, name), value, rtol=1e-12, atol=1e-12)


def test_lattice_that_would_take_too_much_memory_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("bayes_asr.decode.lattices.mbr.MOST_BYTES", 100)
    with pytest.raises(InputError, match=r"^hours: confidences of \d+ words .* cut the recording"):
        decode_mbr(word_lattice(0), LMWT, WIP, name="hours")


def test_memory_that_is_counted_is_what_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a path of 300 words in a row, by what NumPy takes."""
    ends, tids = np.r_[np.full(300, np.inf), 0].astype(np.float32), np.arange(301)
    lattice = CompactLattice(
        offsets=np.r_[tids, 300],
        word=np.arange(1, 301, dtype=np.int32),
        graph=np.zeros(300, np.float32),
        acoustic=np.zeros(300, np.float32),
        nextstate=np.arange(1, 301, dtype=np.int32),
        tid_offsets=tids,
        tids=np.ones(300, np.int32),
        final_graph=ends,
        final_acoustic=ends,
        final_tid_offsets=np.zeros(302, np.int64),
        final_tids=np.empty(0, np.int32),
    )
    tracemalloc.start()
    words = [timed.word for timed in decode_mbr(lattice, 1.0).words]
    taken = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert words == list(range(1, 301))
    monkeypatch.setattr("bayes_asr.decode.lattices.mbr.MOST_BYTES", 4 * taken)
    decode_mbr(lattice, 1.0)
    monkeypatch.setattr("bayes_asr.decode.lattices.mbr.MOST_BYTES", 0.9 * taken)
    with pytest.raises(InputError, match="confidences of 300 words"):
        decode_mbr(lattice, 1.0)


def test_single_path_is_certain() -> None:
    lattice = CompactLattice(
        offsets=np.array([0, 1, 2, 2]),
        word=np.array([5, 7], np.int32),
        graph=np.array([1, 2], np.float32),
        acoustic=np.array([3, 4], np.float32),
        nextstate=np.array([1, 2], np.int32),
        tid_offsets=np.array([0, 2, 5]),
        tids=np.array([1, 1, 2, 2, 2], np.int32),
        final_graph=np.array([np.inf, np.inf, 0.5], np.float32),
        final_acoustic=np.array([np.inf, np.inf, 0], np.float32),
        final_tid_offsets=np.array([0, 0, 0, 1]),
        final_tids=np.array([3], np.int32),
    )
    found = decode_mbr(lattice, 1.0)
    assert [(one.word, one.start, one.end, one.confidence) for one in found.words] == [
        (5, 0.0, 2.0, 1.0),
        (7, 2.0, 5.0, 1.0),
    ]
    assert found.risk == 0.0
    (path,) = best_paths(lattice, 3, 1.0)
    assert (path.words, path.graph_cost, path.acoustic_cost) == ([5, 7], 3.5, 7.0)

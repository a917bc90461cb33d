"""Numerators against every way to move the phones of an alignment, and against the denominator."""

import math
from collections.abc import Iterator
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayes_asr.base.errors import InputError
from bayes_asr.tasks.chain.leaky_hmm import LeakyHmm
from bayes_asr.tasks.chain.numerator import NumeratorBuilder, Tolerance
from bayes_asr.tasks.chain.objective import sum_numerator
from tests.support.chain_models import GRAPH, MODEL, SAID, TREE, spread_phones

SMALL = settings(max_examples=25, deadline=None)
PHONES = st.sampled_from(SAID)


def random_scores(seed: int, frames: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 2, (frames, MODEL.num_pdfs))


def splits(frames: int, parts: int) -> Iterator[list[int]]:
    for cuts in combinations(range(1, frames), parts - 1):
        yield np.diff([0, *cuts, frames]).tolist()


def is_allowed(
    tolerance: Tolerance, phones: list[int], durations: list[int], row: list[int]
) -> bool:
    """Whether each output frame lies within the tolerance around some such phone."""
    ends = np.cumsum(durations).tolist()
    return all(
        any(
            other == phone
            and end - own - tolerance.left_tolerance <= t * tolerance.frame_subsampling_factor
            and t * tolerance.frame_subsampling_factor < end + tolerance.right_tolerance
            for other, end, own in zip(phones, ends, durations, strict=True)
        )
        for t, phone in enumerate(row)
    )


def walk(pdfs: tuple[int, ...]) -> float:
    """What a sequence of pdfs sums to in the denominator graph, from any state to any."""
    mass = GRAPH.initial
    for pdf in pdfs:
        own = GRAPH.pdf == pdf
        moved = mass[GRAPH.source[own]] * GRAPH.prob[own]
        mass = np.bincount(GRAPH.target[own], moved, GRAPH.num_states)
    return float(mass.sum())


def enumerate_numerator(
    tolerance: Tolerance, phones: list[int], durations: list[int], scores: np.ndarray
) -> float:
    """The log of the sum over the different sequences of pdfs."""
    strings = {
        tuple(spread_phones(phones, moved, TREE))
        for moved in splits(len(scores), len(phones))
        if is_allowed(tolerance, phones, durations, np.repeat(phones, moved).tolist())
    }
    rows = np.arange(len(scores))
    return math.log(sum(walk(x) * math.exp(scores[rows, list(x)].sum()) for x in strings))


@SMALL
@given(
    seed=st.integers(0, 10**6),
    phones=PHONES,
    left=st.integers(1, 4),
    right=st.integers(1, 4),
    factor=st.integers(1, 3),
)
def test_sum_is_that_of_all_phones_moved_within_the_tolerance(
    seed: int, phones: list[int], left: int, right: int, factor: int
) -> None:
    durations = np.random.default_rng(seed).integers(factor, 7, len(phones)).tolist()
    tolerance = Tolerance(left, right, factor)
    scores = random_scores(seed, -(-sum(durations) // factor))
    lattice = NumeratorBuilder(MODEL, TREE, GRAPH, tolerance).build(phones, durations)
    found, share = sum_numerator(lattice, scores)
    wanted = enumerate_numerator(tolerance, phones, durations, scores)
    assert found == pytest.approx(wanted, abs=1e-10)
    np.testing.assert_allclose(share.sum(1), 1, atol=1e-10)


def test_sequences_of_pdfs_count_once_though_two_boundaries_give_them() -> None:
    """2 2 is one pdf in all frames, wherever the second begins."""
    scores = np.zeros((5, MODEL.num_pdfs))
    lattice = NumeratorBuilder(MODEL, TREE, GRAPH, Tolerance(9, 9, 1)).build([2, 2], [2, 3])
    found, _ = sum_numerator(lattice, scores)
    assert found == pytest.approx(math.log(walk((4,) * 5)), abs=1e-10)


@SMALL
@given(seed=st.integers(0, 10**6), phones=PHONES)
def test_numerators_are_parts_of_the_denominator(seed: int, phones: list[int]) -> None:
    durations = [4] * len(phones)
    lattice = NumeratorBuilder(MODEL, TREE, GRAPH, Tolerance()).build(phones, durations)
    scores = random_scores(seed, lattice.num_frames)
    denominator, _ = LeakyHmm(GRAPH, 1e-12).sum_paths(scores)
    assert sum_numerator(lattice, scores)[0] < denominator


def test_boundaries_are_those_of_kaldi() -> None:
    """By hand: 10 frames, of which 0, 3, 6 and 9 have outputs; tolerances 1 and 2."""
    allowed = Tolerance(1, 2, 3).allowed_phones([7, 8, 7], [2, 5, 3])
    assert allowed == [{7}, {7, 8}, {7, 8}, {7}]
    assert Tolerance(1, 1, 3).allowed_phones([7, 8, 7], [2, 5, 3]) == [{7}, {8}, {7, 8}, {7}]


def test_derivatives_are_differences() -> None:
    lattice = NumeratorBuilder(MODEL, TREE, GRAPH, Tolerance()).build([1, 2, 3], [4, 6, 5])
    scores, step = random_scores(1, 5), 1e-5
    share = sum_numerator(lattice, scores)[1]
    for cell in range(scores.size):
        moved = np.zeros(scores.size)
        moved[cell] = step
        more, less = (
            sum_numerator(lattice, scores + sign * moved.reshape(scores.shape))[0]
            for sign in (1, -1)
        )
        assert share.flat[cell] == pytest.approx((more - less) / (2 * step), abs=1e-8)


@pytest.mark.parametrize(
    ("phones", "durations", "said"),
    [
        ([1, 3, 1, 2], [1, 1, 1, 1], "4 phones do not fit into 2 output frames"),
        ([2, 1], [9, 9], "the denominator graph has no path"),
        ([5], [9], "phone 5"),
        ([], [], "no phones"),
    ],
)
def test_alignments_without_a_path_are_refused(
    phones: list[int], durations: list[int], said: str
) -> None:
    with pytest.raises(InputError, match=said):
        NumeratorBuilder(MODEL, TREE, GRAPH, Tolerance()).build(phones, durations)


@pytest.mark.parametrize("tolerance", [(-1, 5, 3), (0, 1, 3)])
def test_tolerances_that_leave_a_phone_without_frames_are_refused(
    tolerance: tuple[int, int, int],
) -> None:
    with pytest.raises(InputError, match="a phone may have no frame"):
        Tolerance(*tolerance)

"""Splitting as Kaldi splits."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayes_asr.gmm.mixing import choose_sizes, mix_up
from bayes_asr.kaldi_io.mixtures import Mixtures
from tests.support.mixtures import random_mixtures


@given(
    occupancies=st.lists(st.integers(0, 500), min_size=1, max_size=20),
    target=st.integers(0, 60),
    power=st.sampled_from([0.2, 0.25, 1.0]),
)
def test_sizes_are_as_equal_as_counts_permit(
    occupancies: list[int], target: int, power: float
) -> None:
    sizes = choose_sizes(np.array(occupancies), target, power)
    assert min(sizes) >= 1
    free = [
        pdf
        for pdf, (size, frames) in enumerate(zip(sizes, occupancies, strict=True))
        if frames > 20 * (size + 1)
    ]
    assert sum(sizes) == max(target, len(sizes)) or not free
    shares = np.array(occupancies, float) ** power / sizes
    for pdf in free:  # a Gaussian more for this pdf would be worth less than any that was given
        for other in np.flatnonzero(np.array(sizes) > 1):
            assert shares[pdf] <= shares[other] * sizes[other] / (sizes[other] - 1) * (1 + 1e-6)


def test_equal_pdfs_are_served_in_the_order_of_the_library() -> None:
    # What a C++ program with std::priority_queue answers (GNU's library).
    assert choose_sizes(np.full(9, 100.0), 13) == [2, 1, 2, 1, 1, 1, 2, 1, 2]
    assert choose_sizes(np.full(6, 1000.0), 16, power=0.2) == [3, 2, 3, 3, 3, 2]


def test_the_heaviest_is_split_and_moves_by_kaldis_numbers() -> None:
    mixtures = Mixtures.from_moments(
        np.array([0, 2, 3]), [0.25, 0.75, 1.0], np.zeros((3, 2)), np.full((3, 2), 4.0)
    )
    grown = mix_up(mixtures, np.array([1e6, 0.0]), 4)
    assert grown.offsets.tolist() == [0, 3, 4]
    np.testing.assert_array_equal(grown.weights, np.float32([0.25, 0.375, 0.375, 1]))
    np.testing.assert_array_equal(grown.inverse_variances, np.full((4, 2), 0.25, np.float32))
    step = 0.01 * 2 * np.array([-0.464892656, 0.20956026])
    np.testing.assert_allclose(grown.means, [[0, 0], -step, step, [0, 0]], rtol=1e-6)


def test_splitting_keeps_mean_and_weight_of_each_pdf() -> None:
    mixtures = random_mixtures([1, 2, 5], 3)
    grown = mix_up(mixtures, np.full(3, 1e5), 30)
    assert grown.num_gaussians == 30
    assert grown.sizes.min() >= 5
    for pdf in range(3):
        before, after = (slice(m.offsets[pdf], m.offsets[pdf + 1]) for m in (mixtures, grown))
        assert grown.weights[after].sum() == pytest.approx(1)
        np.testing.assert_allclose(
            grown.weights[after] @ grown.means[after],
            mixtures.weights[before] @ mixtures.means[before],
            atol=1e-6,
        )


def test_nothing_is_split_without_need() -> None:
    mixtures = random_mixtures([1, 2, 5], 3)
    assert mix_up(mixtures, np.full(3, 1e5), 3).num_gaussians == 8
    assert mix_up(mixtures, np.full(3, 30.0), 100).num_gaussians == 8

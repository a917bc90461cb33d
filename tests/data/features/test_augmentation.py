"""Masks of SpecAugment: spans found by brute force, widths and places as the paper draws them."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayes_asr.data.features.augmentation import Masks
from bayes_asr.data.features.front_end import append_context

KEYS = st.integers(-(2**63), 2**63 - 1)
FRAMES, BANDS = 30, 8


def ones(frames: int = FRAMES, columns: int = BANDS) -> np.ndarray:
    return np.ones((frames, columns), np.float32)


def unions_of_spans(size: int, count: int, widest: int) -> set[bytes]:
    """Every mask that `count` spans of up to `widest` places can make of `size` places."""
    spans = [(b, w) for w in range(min(widest, size) + 1) for b in range(size - w + 1)]
    found = set()
    for chosen in product(spans, repeat=count):
        mask = np.zeros(size, bool)
        for begin, width in chosen:
            mask[begin : begin + width] = True
        found.add(mask.tobytes())
    return found


@settings(deadline=None)
@given(KEYS, st.integers(1, 12), st.sampled_from([0, 1, 2]), st.sampled_from([0, 1, 2]))
def test_masks_are_unions_of_spans_and_all_else_stays(
    key: int, frames: int, of_time: int, of_frequency: int
) -> None:
    masks = Masks(of_time, 5, 0.5, of_frequency, 3)
    given = ones(frames)
    (found,) = masks([given], {"features": BANDS}, key)
    assert (given == 1).all()
    assert found.dtype == np.float32
    hidden_frames, hidden_bands = (found == 0).all(1), (found == 0).all(0)
    expected = ~(hidden_frames[:, None] | hidden_bands[None])
    np.testing.assert_array_equal(found, expected)
    if not hidden_bands.all():
        widest = min(5, int(0.5 * frames))
        assert hidden_frames.tobytes() in unions_of_spans(frames, of_time, widest)
    if not hidden_frames.all():
        assert hidden_bands.tobytes() in unions_of_spans(BANDS, of_frequency, 3)


@pytest.mark.slow
def test_widths_and_places_are_uniform() -> None:
    """Of one span of 0 to 3 of 4 frames: each width in a quarter, each place of it equally."""
    masks = Masks(1, 3, 1.0, 0, 0)
    counts: dict[bytes, int] = {}
    for key in range(12_000):
        hidden = (masks([ones(4, 2)], {"features": 2}, key)[0] == 0).all(1)
        counts[hidden.tobytes()] = counts.get(hidden.tobytes(), 0) + 1
    expected: dict[bytes, float] = {}
    for width in range(4):
        for begin in range(5 - width):
            mask = np.zeros(4, bool)
            mask[begin : begin + width] = True
            expected[mask.tobytes()] = expected.get(mask.tobytes(), 0) + 3000 / (5 - width)
    assert counts.keys() == expected.keys()
    for mask, number in expected.items():
        assert abs(counts[mask] - number) < 5 * np.sqrt(number)


def test_no_span_is_longer_than_its_share_of_the_utterance() -> None:
    masks = Masks(1, 100, 0.2, 0, 0)
    longest = max(
        (masks([ones(24)], {"features": BANDS}, key)[0] == 0).all(1).sum() for key in range(300)
    )
    assert longest == 4


def test_bands_are_masked_in_every_derivative_and_neighbour() -> None:
    """The columns that hold a band after deltas and context are those where its own number is."""
    band = np.tile(np.arange(1, BANDS + 1, dtype=np.float32), (FRAMES, 1))
    repeated = np.tile(np.arange(BANDS), 2 * 3)  # deltas, then context
    assert append_context(band, order=1, left=1, right=1).shape[1] == len(repeated)
    masks = Masks(0, 0, 0.0, 1, 3)
    seen = False
    for key in range(20):
        (found,) = masks([ones(columns=len(repeated))], {"features": BANDS}, key)
        hidden = (found == 0).all(0)
        for number in range(BANDS):
            assert len(set(hidden[repeated == number])) == 1
        seen = seen or hidden.any()
    assert seen


def test_streams_lose_the_same_frames_and_bands_of_their_own() -> None:
    masks = Masks(2, 6, 1.0, 1, 3)
    apart = 0
    for key in range(30):
        first, second = masks([ones(), ones(columns=5)], {"features": BANDS, "fbank": 5}, key)
        if (first != 0).any() and (second != 0).any():
            alive = [(x != 0).any(1) for x in (first, second)]
            np.testing.assert_array_equal(*alive)
        apart += (first[:, :5] != second).any()
    assert apart


def test_only_streams_that_are_named_lose_bands() -> None:
    bands = {"features": BANDS, "fbank": 5}
    masks, of_all = Masks(1, 6, 1.0, 1, 3, ("fbank",)), Masks(1, 6, 1.0, 1, 3)
    lost = 0
    for key in range(30):
        first, second = masks([ones(), ones(columns=5)], bands, key)
        np.testing.assert_array_equal((first == 0).any(1), (first == 0).all(1))
        hidden = (first == 0).all(1)
        np.testing.assert_array_equal(of_all([ones()], {"features": BANDS}, key)[0][hidden], 0)
        lost += (second[~hidden] == 0).any()
    assert lost


@pytest.mark.parametrize("key", [-5, 6, 2**63 - 1])
def test_masks_depend_on_the_key_alone(key: int) -> None:
    masks = Masks(2, 8, 1.0, 2, 3)
    first = masks([ones()], {"features": BANDS}, key)[0]
    np.random.standard_normal(3)  # the global state must not matter
    np.testing.assert_array_equal(masks([ones()], {"features": BANDS}, key)[0], first)
    others = [masks([ones()], {"features": BANDS}, key + 1 + n)[0] for n in range(5)]
    assert any(not np.array_equal(first, other) for other in others)

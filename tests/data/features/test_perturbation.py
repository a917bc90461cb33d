"""Perturbed utterances: by their key alone, labels with their frames, closed forms."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayes_asr.data.features.augmentation import perturb

KEYS = st.integers(-(2**63), 2**63 - 1)


def ramp(frames: int) -> np.ndarray:
    """Two columns that grow with the frame: interpolated, they tell the place they are from."""
    return np.outer(np.arange(frames), [1, -2]).astype(np.float32)


def test_nothing_asked_changes_nothing() -> None:
    matrix = ramp(7)
    (found,), nearest = perturb([matrix], 1, noise=0, tempo=0)
    np.testing.assert_array_equal(found, matrix)
    assert nearest.tolist() == list(range(7))


@settings(deadline=None)
@given(st.integers(1, 60), KEYS, st.sampled_from([0.05, 0.3]))
def test_tempo_stretches_evenly_and_labels_follow(frames: int, key: int, tempo: float) -> None:
    (found,), nearest = perturb([ramp(frames)], key, noise=0, tempo=tempo)
    assert found.dtype == np.float32
    assert len(found) == len(nearest) > 0
    assert frames / (1 + tempo) - 1 <= len(found) <= frames / (1 - tempo) + 1
    places = found[:, 0]
    np.testing.assert_allclose(found[:, 1], -2 * places, atol=1e-4)
    assert places[0] == 0
    assert 0 <= nearest.min() <= nearest.max() < frames
    assert (np.abs(nearest - places) <= 0.5001).all()
    steps = np.diff(places[:-1])  # the last may be cut at the end
    np.testing.assert_allclose(steps, steps[0] if len(steps) else 0, atol=1e-4)
    assert ((steps >= 1 - tempo - 1e-4) & (steps <= 1 + tempo + 1e-4)).all()


def test_noise_has_the_deviation_that_was_asked() -> None:
    matrix = np.full((4000, 5), 3, np.float32)
    (found,), _ = perturb([matrix], 7, noise=0.5, tempo=0)
    assert found.dtype == np.float32
    np.testing.assert_allclose((found - 3).mean(0), 0, atol=0.03)
    np.testing.assert_allclose((found - 3).std(0), 0.5, atol=0.03)
    assert (matrix == 3).all()


@pytest.mark.parametrize(("noise", "tempo"), [(0.5, 0.0), (0.0, 0.3)])
def test_it_depends_on_the_key_and_on_nothing_else(noise: float, tempo: float) -> None:
    def again(key: int) -> np.ndarray:
        np.random.standard_normal(3)  # the global state must not matter
        return perturb([ramp(50)], key, noise=noise, tempo=tempo)[0][0]

    np.testing.assert_array_equal(again(-5), again(-5))
    assert not np.array_equal(again(-5)[:30], again(6)[:30])


def test_streams_stay_together() -> None:
    """A second stream has the tempo of the first, noise of its own, and changes nothing there."""
    first, second = ramp(50), ramp(50) + 1
    (alone,), places = perturb([first], 3, noise=0.5, tempo=0.2)
    (found, other), nearest = perturb([first, second], 3, noise=0.5, tempo=0.2)
    np.testing.assert_array_equal(found, alone)
    np.testing.assert_array_equal(nearest, places)
    (still, moved), _ = perturb([first, second], 3, noise=0.0, tempo=0.2)
    np.testing.assert_allclose(moved, still + 1, atol=1e-4)
    assert np.abs((other - moved) - (found - still)).min() > 0

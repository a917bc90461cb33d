"""Segments of speech: in order, apart, of allowed lengths, and with all that is surely speech."""

import io
import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayes_asr.data.sound.long import LongSound
from bayes_asr.data.sound.speech import (
    RATE,
    WINDOW,
    SegmentOptions,
    detect_speech,
    find_segments,
    load_detector,
)
from tests.support.sounds import riff

STEP = 0.01
DEFAULT = SegmentOptions()
PARTS = st.lists(st.tuples(st.sampled_from([0.0, 0.4, 1.0]), st.integers(1, 300)), max_size=12)


def segments(
    frames: np.ndarray, options: SegmentOptions = DEFAULT, block: int = 70
) -> list[tuple[float, float]]:
    """Of frames that come in blocks."""
    blocks = (frames[i : i + block] for i in range(0, len(frames), block))
    return [*find_segments(blocks, STEP, options)]


@given(PARTS)
def test_segments_are_apart_and_hold_the_speech(parts: list[tuple[float, int]]) -> None:
    frames = np.concatenate([np.empty(0), *(np.full(n, p) for p, n in parts)])
    options = SegmentOptions(longest=4.0)
    spans = segments(frames, options)
    assert spans == segments(frames, options, block=len(frames) + 1)
    assert all(a[1] <= b[0] + 1e-9 for a, b in itertools.pairwise(spans))
    for begin, end in spans:
        assert end - begin <= options.longest + 2 * options.padding + 1e-9
    inside = np.zeros(len(frames), bool)
    for begin, end in spans:
        inside[max(0, round(begin / STEP)) : round(end / STEP)] = True
    # What is surely speech is outside only where the whole run is too short for a segment.
    for run in np.split(np.arange(len(frames)), np.flatnonzero(np.diff(frames >= 0.35)) + 1):
        surely = run[frames[run] >= 0.5]
        if len(surely) and (run[-1] + 1 - surely[0]) * STEP >= options.shortest:
            assert inside[surely].all()


def test_pauses_divide_and_padding_stays_inside_them() -> None:
    frames = np.concatenate([np.zeros(100), np.ones(100), np.zeros(20), np.ones(50), np.zeros(60)])
    assert segments(frames) == [pytest.approx((0.8, 2.9))]
    far = np.concatenate([frames, np.ones(100)])
    assert segments(far) == [pytest.approx((0.8, 2.9)), pytest.approx((3.1, 4.5))]
    assert segments(far, SegmentOptions(padding=1.0)) == [
        pytest.approx((0.0, 3.0)),
        pytest.approx((3.0, 5.3)),
    ]


def test_long_speech_is_cut_where_it_is_least_probable() -> None:
    frames = np.ones(900)
    frames[430:436] = 0.6
    spans = segments(frames, SegmentOptions(longest=5.0, padding=0.0))
    assert spans[0][1] == pytest.approx(4.33, abs=0.06)
    assert spans[-1][1] == pytest.approx(9.0)


def test_silero_hears_no_speech_in_noise_whatever_the_blocks() -> None:
    pytest.importorskip("silero_vad")
    noise = np.random.default_rng(0).normal(0, 300, (3 * RATE, 1)).astype(np.int16)
    sound = LongSound("x", 0, io.BytesIO(riff(noise, RATE)))
    detector = load_detector("none")
    probabilities = np.concatenate([*detect_speech(sound.blocks(), sound.rate, detector)])
    assert len(probabilities) == len(noise) // WINDOW
    assert not [*find_segments([probabilities], WINDOW / RATE)]


def test_the_rest_of_a_run_that_is_cut_is_not_lost() -> None:
    """The least probable frame is the last but one of those that a segment may have."""
    frames = np.full(401, 0.9)
    frames[398] = 0.5
    spans = segments(frames, SegmentOptions(longest=4.0))
    assert spans[-1][1] == pytest.approx(401 * STEP + SegmentOptions().padding)

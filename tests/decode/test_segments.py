"""Segments of speech: digital silence and what a network hears as silence are in none."""

import sys
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from bayes_asr.base.errors import InputError
from bayes_asr.decode.segments import Segmentation, SegmentedFile, Segmenter, SilenceModel
from bayes_asr.decode.speakers import RecordingFeatures, Speaker
from tests.support.sounds import riff

RATE = 16000
SPEECH, NOISE, SILENCE = 9000, 90, 0  # the loudness of parts of a file
NOBODY = Speaker({}, {})


class LoudnessModel:
    """A silence model that hears speech where it is loud."""

    step = 0.01

    def __call__(self, recording: RecordingFeatures) -> np.ndarray:
        """Probabilities [T]."""
        return (recording.features["features"][:, 0] > 1000).astype(float)


def frames(name: str, samples: np.ndarray, rate: int, announce: Any) -> RecordingFeatures:
    """The loudness of frames of 10 ms."""
    count = len(samples) * 100 // rate
    loudness = np.abs(samples[: count * rate // 100]).reshape(count, -1).max(1)
    return RecordingFeatures(name, len(samples) / rate, {"features": loudness[:, None]})


def write(
    folder: Path, parts: list[tuple[int, float]], segmenter: Segmenter | None = None
) -> SegmentedFile:
    """A file of parts of (loudness, seconds)."""
    rng = np.random.default_rng(0)
    sounds = [
        np.round(loudness * rng.uniform(-1, 1, round(seconds * RATE)))
        for loudness, seconds in parts
    ]
    path = folder / "sound.wav"
    path.write_bytes(riff(np.concatenate(sounds).astype(np.int16)[:, None], RATE))
    model = cast(SilenceModel, LoudnessModel())
    return Segmentation(frames, segmenter, "network", lambda: model).open(str(path), None)


def find(
    folder: Path, parts: list[tuple[int, float]], segmenter: Segmenter | None = None
) -> tuple[list[tuple[float, float]], list[float]]:
    """The segments of a file of parts of (loudness, seconds), and the seconds that are read."""
    file = write(folder, parts, segmenter)
    spans = file.find_speech(NOBODY)
    return spans, [segment.recording.seconds for segment in file.read(spans, NOBODY)]


def test_a_file_of_speech_stays_whole(tmp_path: Path) -> None:
    parts = [(NOISE, 1.0), (SPEECH, 1.0), (NOISE, 2.0), (SPEECH, 1.0), (SILENCE, 0.4)]
    assert find(tmp_path, parts) == ([(0.0, 5.4)], [5.4])


@pytest.mark.parametrize("segmenter", [None, "none", "network"])
@pytest.mark.parametrize("seconds", [0.3, 5.0])
def test_digital_silence_is_no_speech(
    segmenter: Segmenter | None, seconds: float, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert find(tmp_path, [(SILENCE, seconds)], segmenter) == ([], [])
    assert "sound.wav: no speech is heard in it" in caplog.text


def test_digital_silence_is_cut_out(tmp_path: Path) -> None:
    spans, read = find(tmp_path, [(SILENCE, 1.0), (SPEECH, 2.0), (SILENCE, 0.6), (SPEECH, 1.0)])
    np.testing.assert_allclose(spans, [(1.0, 3.0), (3.6, 4.6)], atol=0.001)
    np.testing.assert_allclose(read, [2.0, 1.0], atol=0.001)


@pytest.mark.parametrize("segmenter", ["none", "network", "vad"])
def test_digital_silence_tells_nothing_of_the_speaker(
    segmenter: Segmenter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bayes_asr.decode.segments.load_detector", lambda _: None)
    monkeypatch.setattr(SegmentedFile, "_detected", [(0.5, 4.5), (4.8, 46.0)])  # as by silero-vad
    parts = [(SILENCE, 3.0), (SPEECH, 2.0), (SILENCE, 40.0), (SPEECH, 1.0)]
    seconds = [sound.seconds for sound in write(tmp_path, parts, segmenter).sample()]
    expected = {"none": 3.0, "network": 3.0, "vad": 1.5 + 0.2 + 1.0}
    assert sum(seconds) == pytest.approx(expected[segmenter], abs=0.001)
    parts = [(SILENCE, 46.0)]
    assert write(tmp_path, parts, segmenter).sample() == []


def test_noise_without_speech_gives_nothing_unless_it_is_asked_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert find(tmp_path, [(NOISE, 4.0)]) == ([], [])
    assert "no speech is heard from 0.00 to 4.00 s; --segments none looks" in caplog.text
    assert find(tmp_path, [(NOISE, 4.0)], "none") == ([(0.0, 4.0)], [4.0])
    spans, _ = find(tmp_path, [(SPEECH, 1.0), (NOISE, 4.0), (SPEECH, 1.0)])
    np.testing.assert_allclose(spans, [(0.0, 1.2), (4.8, 6.0)], atol=0.02)


def test_a_model_without_silence_takes_all(tmp_path: Path) -> None:
    def refuse() -> SilenceModel:
        raise InputError("no silence phones")

    path = tmp_path / "x.wav"
    path.write_bytes(riff((np.arange(4 * RATE) % 9).astype(np.int16)[:, None], RATE))
    file = Segmentation(frames, None, "network", refuse).open(str(path), None)
    assert file.find_speech(NOBODY) == [(0.0, 4.0)]


@pytest.mark.parametrize(("automatic", "otherwise"), [("network", "network"), ("vad", "none")])
def test_without_silero_a_segmenter_that_the_run_takes_is_named(
    automatic: Segmenter, otherwise: Segmenter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "silero_vad", None)

    def open_silence() -> SilenceModel:
        if automatic == "vad":
            raise InputError("a decoder hears no silence")
        return cast(SilenceModel, LoudnessModel())

    segmentation = Segmentation(frames, "vad", automatic, open_silence)
    with pytest.raises(InputError, match=f"silero-vad.*--segments {otherwise}$"):
        segmentation.prepare("vad")
    segmentation.prepare(otherwise)

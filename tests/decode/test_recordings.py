"""The front end of recordings: whom it adapts to, and what digital silence tells of him."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from bayes_asr.data.features.front_end import FrontEnd, cmvn_statistics
from bayes_asr.data.sound.long import LongSound
from bayes_asr.data.sound.spectrum import Analysis
from bayes_asr.decode.recordings import RecordingFrontEnd
from bayes_asr.decode.speakers import RecordingFeatures
from tests.support.sounds import riff

ANALYSIS = Analysis("fbank", bands=24)
RATE = 16000


class MeanAdapter:
    """An adapter that, as that of fMLLR, knows a speaker by the statistics of his cepstra."""

    def estimate(
        self, speaker: str, cepstra: Mapping[str, np.ndarray]
    ) -> Callable[[np.ndarray], np.ndarray]:
        statistics = cmvn_statistics(cepstra.values())
        mean = statistics[0, :-1] / statistics[0, -1]
        return lambda x: x - mean


def test_nobody_is_adapted_to_where_no_speech_is_found() -> None:
    front_end = RecordingFrontEnd({}, {}, {"features": MeanAdapter()})
    speaker = front_end.estimate("silence.wav", [])
    assert (speaker.adapted, speaker.statistics) == ({}, {})


def read(folder: Path, samples: np.ndarray) -> RecordingFeatures:
    """A file of samples [N], adapted to its speaker."""
    path = folder / "sound.wav"
    path.write_bytes(riff(samples[:, None], RATE))
    front_ends = {"features": cast(FrontEnd, None)}
    front_end = RecordingFrontEnd(front_ends, {"features": ANALYSIS}, {"features": MeanAdapter()})
    return front_end.read(LongSound.open(str(path), None))


@pytest.mark.parametrize("behind", [0, RATE])
def test_digital_silence_has_frames_and_tells_nothing_of_the_speaker(
    behind: int, tmp_path: Path
) -> None:
    noise = np.random.default_rng(2).integers(100, 4000, 2 * RATE).astype(np.int16)
    padded = np.concatenate([np.zeros(3 * RATE, np.int16), noise, np.zeros(behind, np.int16)])
    of_noise, of_all = (ANALYSIS(samples.astype(np.float32)) for samples in (noise, padded))
    recording = read(tmp_path, padded)
    np.testing.assert_allclose(recording.features["features"], of_all - of_noise.mean(0), atol=1e-4)
    statistics = cmvn_statistics([of_noise - of_noise.mean(0)])
    np.testing.assert_allclose(recording.statistics["features"], statistics, atol=0.1)


@pytest.mark.parametrize(("silent", "heard"), [(3 * RATE, 0), (RATE // 5, 0), (RATE, RATE // 20)])
def test_a_file_of_hardly_anything_else_is_its_own_speaker(
    silent: int, heard: int, tmp_path: Path
) -> None:
    samples = np.concatenate([np.zeros(silent, np.int16), np.full(heard, 5000, np.int16)])
    expected = ANALYSIS(samples.astype(np.float32))
    features = read(tmp_path, samples).features["features"]
    np.testing.assert_allclose(features, expected - expected.mean(0), atol=1e-4)

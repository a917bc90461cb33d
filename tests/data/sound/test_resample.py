"""Another sampling rate: tones keep their frequency and amplitude, aliases go."""

import numpy as np
import pytest

from bayes_asr.data.sound.audio import resample


@pytest.mark.parametrize("share", [0.05, 0.4, 0.8])
@pytest.mark.parametrize("rate", [8000, 11025, 22050, 44100, 48000])
def test_resampling_keeps_frequency_and_amplitude(rate: int, share: float) -> None:
    """A sine is a sine of the same frequency and amplitude at any rate (least squares, 1 s)."""
    angle = 2 * np.pi * share * min(rate, 16000) / 2 * np.arange(48000)
    tone = resample(1000 * np.sin(angle[:rate] / rate), rate, 16000)
    assert len(tone) == 16000
    inner = slice(400, -400)
    basis = np.stack([np.sin(angle[:16000] / 16000), np.cos(angle[:16000] / 16000)], 1)[inner]
    (sine, cosine), *_ = np.linalg.lstsq(basis, tone[inner], rcond=None)
    assert sine == pytest.approx(1000, rel=0.005)
    assert cosine == pytest.approx(0, abs=1)
    assert np.abs(tone[inner] - basis @ [sine, cosine]).max() < 2


@pytest.mark.parametrize("rate", [22050, 44100, 48000])
def test_resampling_removes_what_the_new_rate_cannot_hold(rate: int) -> None:
    tone = resample(np.sin(2 * np.pi * 9500 * np.arange(rate) / rate), rate, 16000)
    assert np.abs(tone[400:-400]).max() < 0.01


@pytest.mark.parametrize("rate", [8000, 22050, 44100])
def test_resampling_keeps_a_tone(rate: int) -> None:
    seconds = np.arange(rate) / rate
    tone = resample(1000 * np.sin(2 * np.pi * 440 * seconds), rate, 16000)
    expected = 1000 * np.sin(2 * np.pi * 440 * np.arange(16000) / 16000)
    assert len(tone) == 16000
    assert np.abs(tone - expected)[200:-200].max() < 5

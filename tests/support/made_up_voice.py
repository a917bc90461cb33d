"""A made-up voice, and what Kaldi's programs compute of it.

`python -m tests.support.made_up_voice FOLDER` writes it as WAV files, of which kaldi_voice.txt was
made by

    for rate in 16000 8000 11025; do
        compute-kaldi-pitch-feats --sample-frequency=$rate "scp:echo $rate $rate.wav |" ark,t:-
    done
    compute-kaldi-pitch-feats "scp:echo processed 16000.wav |" ark:- |
        process-kaldi-pitch-feats --delta-pitch-noise-stddev=0 ark:- ark,t:-
    compute-plp-feats --use-energy=false --dither=0 "scp:echo plp 16000.wav |" ark,t:-

of Kaldi 5.5.
"""

import sys
import wave
from pathlib import Path

import numpy as np
import pytest

GOLDEN = Path(__file__).with_name("kaldi_voice.txt")
RATES = (16000, 8000, 11025)  # Hz


def speak(rate: int) -> np.ndarray:
    """Half a second of a voice that glides up, a pause, and a higher one: float32 [N] as int16."""
    time = np.arange(int(0.9 * rate)) / rate
    pitch = np.where(time < 0.5, 110 + 90 * time, 230 - 40 * time)
    phase = 2 * np.pi * np.cumsum(pitch) / rate
    voice = sum(np.sin(n * phase) / n for n in range(1, 8))
    noise = np.random.default_rng(1).normal(0, 1, len(time))
    loudness = np.where((time > 0.5) & (time < 0.6), 0, 3000)
    return np.round(loudness * voice + 60 * noise).astype(np.float32)


def check_tracked(tracked: np.ndarray, expected: np.ndarray, share: float = 0.05) -> None:
    """The same pitch, but for lags side by side that cost the same, at a `share` of the frames."""
    assert tracked.dtype == np.float32
    assert tracked.shape == expected.shape
    ratio = np.abs(tracked[:, 1] / expected[:, 1] - 1)
    same = ratio < 1e-4
    assert (~same).mean() <= share
    assert ratio.max() < 0.021
    assert tracked[same, 0] == pytest.approx(expected[same, 0], abs=1e-3)


if __name__ == "__main__":
    for rate in RATES:
        with wave.open(str(Path(sys.argv[1], f"{rate}.wav")), "wb") as file:
            file.setparams((1, 2, rate, 0, "NONE", ""))
            file.writeframes(speak(rate).astype("<i2").tobytes())

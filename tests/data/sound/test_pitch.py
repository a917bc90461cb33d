"""Pitch and PLP against what Kaldi made of a made-up voice, and their equations."""

import itertools
from pathlib import Path

import numpy as np
import pytest
from scipy.linalg import solve_toeplitz

from bayes_asr.base.errors import InputError
from bayes_asr.cli import main
from bayes_asr.data.sound.pitch import (
    DELTA_PITCH,
    PENALTY_FACTOR,
    best_path,
    pitch_features,
    process_pitch,
    track_pitch,
)
from bayes_asr.data.sound.plp import predict_linearly
from bayes_asr.data.sound.spectrum import Analysis, Kind
from bayes_asr.kaldi_io.ark import iter_matrices
from tests.support.made_up_voice import GOLDEN, RATES, check_tracked, speak
from tests.support.sounds import riff

RNG = np.random.default_rng(4)


@pytest.fixture(scope="module")
def kaldis() -> dict[str, np.ndarray]:
    """What Kaldi's programs made of the made-up voice."""
    return dict(iter_matrices(GOLDEN))


@pytest.mark.parametrize("rate", RATES)
def test_pitch_is_kaldis(rate: int, kaldis: dict[str, np.ndarray]) -> None:
    check_tracked(track_pitch(speak(rate), rate), kaldis[str(rate)])


def test_features_of_the_pitch_are_kaldis(kaldis: dict[str, np.ndarray]) -> None:
    assert process_pitch(kaldis["16000"]) == pytest.approx(kaldis["processed"], abs=1e-4)


def test_plp_is_kaldis(kaldis: dict[str, np.ndarray]) -> None:
    pytest.importorskip("kaldi_native_fbank")
    assert Analysis("plp")(speak(16000)) == pytest.approx(kaldis["plp"], abs=1e-3)


def test_the_pitch_of_a_tone_is_its_frequency() -> None:
    time = np.arange(16000) / 16000
    for hertz in (80, 143, 320):
        tracked = track_pitch(1000 * np.sign(np.sin(2 * np.pi * hertz * time)), 16000)
        assert tracked[:-3, 1] == pytest.approx(hertz, rel=0.006)
        assert tracked[:-3, 0].min() > 0.98


def test_the_cheapest_of_all_paths_is_taken() -> None:
    costs = RNG.random((5, 4)).astype(np.float32)
    costs[2] *= 1e-5
    penalty = PENALTY_FACTOR * np.log1p(DELTA_PITCH) ** 2

    def cost(path: tuple[int, ...]) -> float:
        return float(costs[np.arange(5), path].sum() + penalty * np.square(np.diff(path)).sum())

    best = min(itertools.product(range(4), repeat=5), key=cost)
    np.testing.assert_array_equal(best_path(costs), best)


def test_linear_prediction_solves_the_normal_equations() -> None:
    autocorrelation = np.array(
        [np.correlate(x, x, "full")[49:56] for x in RNG.normal(size=(3, 50))]
    )
    coefficients, residual = predict_linearly(autocorrelation)
    for r, a, left in zip(autocorrelation, coefficients, residual, strict=True):
        assert a == pytest.approx(-solve_toeplitz(r[:-1], r[1:]))
        assert left == pytest.approx(r[0] + a @ r[1:])


def test_silence_and_too_little_sound_are_finite_or_none() -> None:
    sound = np.concatenate([np.zeros(4000), speak(16000)[:6000], np.zeros(4000)])
    assert np.isfinite(pitch_features(sound.astype(np.float32), 16000)).all()
    assert pitch_features(np.ones(300, np.float32), 16000).shape == (0, 3)


@pytest.mark.parametrize(
    ("kind", "spectrum"), [("mfcc-pitch", "mfcc"), ("fbank-pitch", "fbank"), ("plp-pitch", "plp")]
)
def test_pitch_stands_beside_other_features(kind: Kind, spectrum: Kind) -> None:
    pytest.importorskip("kaldi_native_fbank")
    sound = speak(11025)
    joined = Analysis(kind, sample_rate=11025)(sound)
    width = joined.shape[1] - 3
    alone = Analysis(spectrum, sample_rate=11025)(sound)
    assert abs(len(alone) - len(joined)) <= 1
    np.testing.assert_array_equal(joined[:, :width], alone[: len(joined)])
    np.testing.assert_array_equal(joined[:, width:], pitch_features(sound, 11025)[: len(joined)])


def test_features_writes_them(tmp_path: Path) -> None:
    pytest.importorskip("kaldi_native_fbank")
    (tmp_path / "a.wav").write_bytes(riff(speak(16000)[:, None].astype("<i2")))
    (tmp_path / "wav.scp").write_text(f"a {tmp_path}/a.wav\n")
    (tmp_path / "utt2spk").write_text("a a\n")
    for kind, width in (("pitch", 3), ("plp", 13), ("fbank-pitch", 43)):
        assert main(["features", "--kind", kind, str(tmp_path)]) == 0
        ((_, matrix),) = iter_matrices(tmp_path / "feats.scp")
        assert matrix.shape == (88, width)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "plp", "cepstra": 14}, "14 cepstra of plp; .* has 13"),
        ({"kind": "pitch", "sample_rate": 1600}, "pitch at 1600 Hz; it wants sound of 2000 Hz"),
    ],
)
def test_what_cannot_be_computed_is_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Analysis(**options)  # type: ignore[arg-type]

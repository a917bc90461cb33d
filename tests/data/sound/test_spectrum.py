"""Features of sound against Kaldi's programs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bayes_asr.base.errors import InputError
from bayes_asr.data.features.front_end import add_deltas
from bayes_asr.data.sound import spectrum
from bayes_asr.data.sound.audio import read_audio
from bayes_asr.data.sound.spectrum import Analysis
from bayes_asr.kaldi_io.ark import iter_matrices

pytest.importorskip("kaldi_native_fbank")
RNG = np.random.default_rng(2)


@pytest.mark.parametrize(
    ("name", "front_end"),
    [("mfcc", Analysis()), ("fbank40", Analysis("fbank", bands=40))],
    ids=["mfcc", "fbank"],
)
def test_features_are_kaldis(
    name: str, front_end: Analysis, shared_data: Path, kaldi_corpus: Callable[[str], Path]
) -> None:
    golden = kaldi_corpus("timit_sample") / "golden"
    count = 0
    for utt, expected in iter_matrices(golden / f"{name}_dither0.ark"):
        speaker, sentence = utt.split("_")
        (sound,) = (shared_data / "timit_sample").glob(f"*-{speaker}/{sentence}.wav")
        found = front_end(read_audio(sound)[0])
        assert found.dtype == np.float32
        assert found == pytest.approx(expected, abs=1e-3)
        count += 1
    assert count == 6


def test_deltas_are_kaldis(kaldi_corpus: Callable[[str], Path]) -> None:
    golden = kaldi_corpus("timit_sample") / "golden"
    expected = dict(iter_matrices(golden / "mfcc_deltas.ark"))
    for utt, matrix in iter_matrices(golden / "mfcc_dither0.ark"):
        assert add_deltas(matrix, 2) == pytest.approx(expected[utt], abs=1e-4)


@pytest.mark.parametrize(("samples", "frames"), [(399, 0), (400, 1), (559, 1), (560, 2)])
def test_a_frame_is_25_ms_every_10_ms(samples: int, frames: int) -> None:
    assert Analysis()(np.ones(samples, np.float32)).shape == (frames, 13)
    assert Analysis(sample_rate=8000)(np.ones(samples // 2, np.float32)).shape == (frames, 13)


@pytest.mark.parametrize("kind", ["mfcc", "fbank"])
def test_sound_in_parts_has_the_same_features(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    samples = np.random.default_rng(0).normal(0, 900, 5000).astype(np.float32)
    entire = Analysis(kind)(samples)
    monkeypatch.setattr(spectrum, "BLOCK", 399)
    assert Analysis(kind)(samples).tobytes() == entire.tobytes()


@pytest.mark.parametrize(("samples", "frames"), [(399, 0), (400, 1), (559, 1), (560, 2)])
def test_samples_have_the_frames_of_other_features(samples: int, frames: int) -> None:
    assert Analysis("samples")(np.ones(samples, np.float32)).shape == (frames, 3200)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kind": "hlda"}, "front end 'hlda'; known: mfcc, fbank, plp, pitch, mfcc-pitch"),
        ({"kind": "samples", "window": 5}, "windows of 5 ms; they have 25 to 1000 ms"),
        ({"cepstra": 30}, "30 cepstra of 23 mel bands"),
        ({"sample_rate": 0}, "at 0 Hz"),
        ({"kind": "fbank", "bands": 127}, "127 mel bands at 16000 Hz; .* take fewer --bands"),
        ({"kind": "mfcc-pitch", "bands": 96, "sample_rate": 8000}, "96 mel bands at 8000 Hz"),
    ],
)
def test_impossible_front_ends_are_refused(arguments: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Analysis(**arguments)


@pytest.mark.parametrize(("rate", "bands"), [(1000, 25), (8000, 95), (16000, 126), (44100, 200)])
def test_the_most_bands_that_a_spectrum_fills_vary(rate: int, bands: int) -> None:
    noise = RNG.normal(0, 3000, rate)
    assert Analysis("fbank", bands=bands, sample_rate=rate)(noise).std(axis=0).min() > 0.1


@pytest.mark.parametrize("kind", ["mfcc", "fbank", "plp"])
def test_dither_is_gaussian_noise_of_so_many_steps(kind: Any) -> None:
    """Features of silence with dither are those of white noise, of whichever draw."""
    analysis = Analysis(kind, dither=3.0)
    silence = analysis(np.zeros(60 * 16000, np.float32))
    plain = Analysis(kind)
    noise = plain(3 * RNG.standard_normal(60 * 16000).astype(np.float32))
    # A minute has 3,000 frames that do not overlap: five standard deviations of a mean.
    spread = noise.std(0)
    np.testing.assert_array_less(abs(silence.mean(0) - noise.mean(0)), 0.13 * spread)
    np.testing.assert_allclose(silence.std(0), spread, rtol=0.1)
    assert len(np.unique(silence[:2000], axis=0)) == 2000, "no two frames are alike"


def test_loud_sound_with_dither_is_nearly_that_without() -> None:
    samples = 1000 * RNG.standard_normal(16000).astype(np.float32)
    np.testing.assert_allclose(Analysis(dither=1)(samples), Analysis()(samples), atol=0.1)


@pytest.mark.parametrize("dither", [-1.0, 1001.0, float("nan")])
def test_other_dither_is_refused(dither: float) -> None:
    with pytest.raises(InputError, match="a dither of"):
        Analysis(dither=dither)


@pytest.mark.parametrize("kind", ["samples", "pitch"])
def test_what_has_no_spectrum_has_no_dither(kind: Any) -> None:
    with pytest.raises(InputError, match=f"features of {kind} have none"):
        Analysis(kind, dither=1.0)

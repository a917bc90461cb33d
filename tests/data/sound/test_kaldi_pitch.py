"""Pitch and PLP of speech by Kaldi's programs, where KALDI_ROOT says that they are."""

from pathlib import Path

import pytest

from bayes_asr.data.sound.audio import read_audio
from bayes_asr.data.sound.pitch import process_pitch, track_pitch
from bayes_asr.data.sound.spectrum import Analysis
from bayes_asr.kaldi_io.ark import iter_matrices
from tests.support.kaldi_programs import NEEDS_KALDI, run_kaldi
from tests.support.made_up_voice import check_tracked

pytestmark = NEEDS_KALDI
PITCH = """
compute-kaldi-pitch-feats scp:wav.scp ark:pitch.ark
process-kaldi-pitch-feats --delta-pitch-noise-stddev=0 ark:pitch.ark ark:processed.ark
"""
PLP = "compute-plp-feats --use-energy=false --dither=0 scp:wav.scp ark:plp.ark"


@pytest.fixture
def speech(shared_data: Path, tmp_path: Path) -> dict[str, Path]:
    """A sentence of each speaker of the TIMIT sample, and wav.scp of them."""
    folders = sorted((shared_data / "timit_sample").glob("dr*-*"))
    sounds = {folder.name: min(folder.glob("sx*.wav")) for folder in folders}
    lines = (f"{name} {sound}\n" for name, sound in sounds.items())
    (tmp_path / "wav.scp").write_text("".join(lines))
    return sounds


def test_pitch_of_speech(speech: dict[str, Path], tmp_path: Path) -> None:
    run_kaldi(tmp_path, PITCH)
    processed = dict(iter_matrices(tmp_path / "processed.ark"))
    for name, expected in iter_matrices(tmp_path / "pitch.ark"):
        check_tracked(track_pitch(*read_audio(speech[name])), expected, share=0.1)
        assert process_pitch(expected) == pytest.approx(processed[name], abs=1e-4)
    assert processed.keys() == speech.keys()


def test_plp_of_speech(speech: dict[str, Path], tmp_path: Path) -> None:
    pytest.importorskip("kaldi_native_fbank")
    run_kaldi(tmp_path, PLP)
    matrices = dict(iter_matrices(tmp_path / "plp.ark"))
    assert matrices.keys() == speech.keys()
    for name, expected in matrices.items():
        samples, _ = read_audio(speech[name])
        assert Analysis("plp")(samples) == pytest.approx(expected, abs=1e-3)

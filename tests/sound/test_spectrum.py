"""The front end against Kaldi's programs, and the files that it writes in a data directory."""

import json
import logging
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from bayes_asr.cli import main
from bayes_asr.errors import InputError
from bayes_asr.features.front_end import deltas, statistics
from bayes_asr.sound.audio import read_audio
from bayes_asr.sound.spectrum import Analysis, write_features
from bayes_asr.tables.ark import iter_matrices, read_matrix
from bayes_asr.tables.text import read_data_dir
from tests.sound.test_audio import riff

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
        assert deltas(matrix, 2) == pytest.approx(expected[utt], abs=1e-4)


@pytest.mark.parametrize(("samples", "frames"), [(399, 0), (400, 1), (559, 1), (560, 2)])
def test_a_frame_is_25_ms_every_10_ms(samples: int, frames: int) -> None:
    assert Analysis()(np.ones(samples, np.float32)).shape == (frames, 13)
    assert Analysis(sample_rate=8000)(np.ones(samples // 2, np.float32)).shape == (frames, 13)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kind": "plp"}, "front end 'plp'; known: mfcc, fbank"),
        ({"cepstra": 30}, "30 cepstra of 23 mel bands"),
        ({"sample_rate": 0}, "at 0 Hz"),
    ],
)
def test_impossible_front_ends_are_refused(arguments: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Analysis(**arguments)


def corpus(folder: Path, seconds: dict[str, float], rate: int = 16000) -> Path:
    """A data directory whose utterances last so long; the speaker is the first letter."""
    folder.mkdir(exist_ok=True)
    for utt, duration in seconds.items():
        samples = RNG.integers(-9000, 9000, (int(duration * rate), 1))
        (folder / f"{utt}.wav").write_bytes(riff(samples, rate))
    lines = {
        "wav.scp": (f"{utt} {utt}.wav" for utt in seconds),
        "utt2spk": (f"{utt} {utt[0]}" for utt in seconds),
    }
    for name, rows in lines.items():
        (folder / name).write_text("".join(f"{row}\n" for row in rows))
    return folder


def test_a_data_directory_gets_features_and_statistics(tmp_path: Path) -> None:
    folder, front_end = corpus(tmp_path / "d", {"a1": 0.5, "a2": 0.3, "b1": 0.4}), Analysis()
    write_features(folder, front_end)
    data = read_data_dir(folder)
    assert data.feats is not None
    assert data.cmvn is not None
    found = {utt: read_matrix(name, utt) for utt, name in data.feats.items()}
    for utt, matrix in found.items():
        assert np.array_equal(matrix, front_end(read_audio(folder / f"{utt}.wav")[0]))
    stored = read_matrix(data.cmvn["a"], "a")
    assert stored == pytest.approx(statistics([found["a1"], found["a2"]]), rel=1e-6)
    assert Analysis(**json.loads((folder / "frontend.json").read_text())) == front_end


def test_segments_are_cut_as_extract_segments_does(tmp_path: Path) -> None:
    folder = corpus(tmp_path / "d", {"r": 2.0})
    samples = read_audio(folder / "r.wav")[0]
    (folder / "segments").write_text("r-a r 0.5 1.00004\nr-b r 1.5 2.4\nr-c r 0.25 -1 0\n")
    (folder / "utt2spk").write_text("r-a s\nr-b s\nr-c s\n")
    write_features(folder, Analysis())
    found = dict(iter_matrices(folder / "feats.scp"))
    for utt, part in (
        ("r-a", samples[8000:16001]),
        ("r-b", samples[24000:]),
        ("r-c", samples[4000:]),
    ):
        assert np.array_equal(found[utt], Analysis()(part))


def test_utterances_without_features_are_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Kaldi's extract-segments passes over a tenth of a second too: its limit is a float."""
    folder = corpus(tmp_path / "d", {"r": 1.0})
    (folder / "segments").write_text("r-a r 0 0.5\nr-late r 0.5 1.6\nr-short r 0 0.1\n")
    (folder / "utt2spk").write_text("r-a s\nr-late s\nr-none s\nr-short s\n")
    with caplog.at_level(logging.WARNING, "bayes_asr"):
        write_features(folder, Analysis(), max_skipped=0.75)
    assert "3 of 4 utterances have too little sound" in caplog.text
    assert "r-late, r-none, r-short" in caplog.text
    assert read_data_dir(folder).feats.keys() == {"r-a"}


@pytest.mark.parametrize(
    ("late", "options", "message"),
    [
        ("b1", [], "1 of 2 utterances have too little sound, or none, and get no features: b1;"),
        ("a1 b1", ["--max-skipped=1"], "features: a1, b1; nothing is left to write"),
    ],
)
def test_features_of_too_few_are_refused_and_the_old_ones_stay(
    late: str,
    options: list[str],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = corpus(tmp_path / "d", {"a1": 0.5, "b1": 0.5})
    assert main(["features", str(folder)]) == 0
    starts = {utt: 9 if utt in late.split() else 0 for utt in ("a1", "b1")}
    lines = (f"{utt} {utt} {start} {start + 0.4}\n" for utt, start in starts.items())
    (folder / "segments").write_text("".join(lines))
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert main(["features", str(folder), "--kind=fbank", *options]) == 1
    assert message in capsys.readouterr().err
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("utt2spk", "a1 a\n", "lacks the utterance b1"),
        ("wav.scp", "a1 a1.wav\nb1 nowhere.wav\n", "nowhere.wav: cannot open b1: No such file"),
        ("wav.scp", "a1 a1.wav\nb1 touch boom |\n", "refusing to run the command"),
        ("segments", "b1 c 0 1\n", "wav.scp: lacks c, of the segment b1"),
        ("segments", "b1 a1 0.5 0.4\n", "line 1: b1 from 0.5 to 0.4 s"),
        ("segments", "b1 a1 0 0.5 -2\n", "line 1: b1 from 0 to 0.5 s"),
        ("segments", "b1 a1 0 0.5\nb1 a1 0 0.4\n", "b1 is there a second time"),
        ("segments", "b1 a1 x 1\n", "line 1: not `utt recording start end`"),
    ],
)
def test_faults_of_the_tables_are_named(
    name: str, content: str, message: str, tmp_path: Path
) -> None:
    folder = corpus(tmp_path / "d", {"a1": 0.5, "b1": 0.5})
    (folder / name).write_text(content)
    with pytest.raises(InputError, match=message):
        write_features(folder, Analysis())
    assert not (folder / "feats.scp").exists()


def test_another_rate_is_refused(tmp_path: Path) -> None:
    folder = corpus(tmp_path / "d", {"a1": 0.5}, rate=8000)
    with pytest.raises(InputError, match=r"a1 has 8000 samples a second, the front end 16000"):
        write_features(folder, Analysis())

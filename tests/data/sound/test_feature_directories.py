"""Features of data directories: sound, tables and segments in, archives and statistics out."""

import errno
import itertools
import json
import logging
import os
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import settle
from bayes_asr.base.installed import SCRIPT
from bayes_asr.cli import main
from bayes_asr.data.features.front_end import cmvn_statistics, read_analysis
from bayes_asr.data.features.skipped import report_skipped
from bayes_asr.data.sound.audio import read_audio
from bayes_asr.data.sound.feature_directories import write_features
from bayes_asr.data.sound.recordings import Recordings, list_recordings
from bayes_asr.data.sound.spectrum import Analysis
from bayes_asr.kaldi_io.ark import iter_matrices, read_matrix
from bayes_asr.kaldi_io.data_dir import read_data_dir
from tests.support.sounds import corpus, riff

RNG = np.random.default_rng(2)


def windows_of_theirs(signal: np.ndarray, rate: int, window: int) -> np.ndarray:
    """The loop of pytorch-kaldi's save_raw_fea.py, without its division by the loudest sample."""
    width, length, shift = (rate * ms // 1000 for ms in (window, 25, 10))
    found, begin = [], 0
    while begin + length < len(signal):
        frame = np.zeros(width)
        middle, of_frame = int(begin + length / 2 - 1), int(width / 2 - 1)
        first, last = int(middle - width / 2), int(middle + width / 2)
        if first >= 0 and last <= len(signal):
            frame = signal[first:last]
        elif first < 0:
            frame[of_frame - middle + 1 :] = signal[0:last]
        else:
            frame[0 : of_frame + len(signal) - middle + 1] = signal[first:]
        found.append(frame)
        begin += shift
    return np.array(found, np.float32)


@pytest.mark.parametrize(("rate", "window"), [(16000, 200), (8000, 100), (16000, 30)])
def test_samples_are_those_of_pytorch_kaldi(rate: int, window: int) -> None:
    signal = RNG.integers(-9000, 9000, rate // 2 + 77).astype(np.float32)
    found = Analysis("samples", sample_rate=rate, window=window)(signal)
    np.testing.assert_array_equal(found, windows_of_theirs(signal, rate, window))
    assert len(found) == len(Analysis(sample_rate=rate)(signal))


def test_samples_are_features_of_a_data_directory(tmp_path: Path) -> None:
    data = corpus(tmp_path / "data", {"a-1": 0.3, "b-1": 0.2})
    assert main(["features", str(data), "--kind=samples", "--window=50"]) == 0
    found = dict(iter_matrices(data / "feats.ark"))
    for utt, matrix in found.items():
        samples = read_audio(data / f"{utt}.wav")[0]
        np.testing.assert_array_equal(matrix, windows_of_theirs(samples, 16000, 50)[: len(matrix)])
    analysis = read_analysis(data)
    assert analysis is not None
    assert (analysis["kind"], analysis["window"]) == ("samples", 50)


def test_a_data_directory_gets_features_and_statistics(tmp_path: Path) -> None:
    folder, front_end = corpus(tmp_path / "d", {"a1": 0.5, "a2": 0.3, "b1": 0.4}), Analysis()
    (folder / "fmllr.json").write_text("{}")  # of features that were there before
    write_features(folder, front_end)
    assert not (folder / "fmllr.json").exists()
    data = read_data_dir(folder)
    assert data.feats is not None
    assert data.cmvn is not None
    found = {utt: read_matrix(name, utt) for utt, name in data.feats.items()}
    for utt, matrix in found.items():
        assert np.array_equal(matrix, front_end(read_audio(folder / f"{utt}.wav")[0]))
    stored = read_matrix(data.cmvn["a"], "a")
    assert stored == pytest.approx(cmvn_statistics([found["a1"], found["a2"]]), rel=1e-6)
    assert Analysis(**json.loads((folder / "frontend.json").read_text())) == front_end


def test_digital_silence_is_named_and_dither_gives_each_utterance_its_own_noise(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """At 8 kHz: 0.2 s of zeros before and behind 0.1 s of sound, and 0.05 s of them."""
    folder = corpus(tmp_path / "d", {"a1": 0.1, "a2": 0.1, "b1": 0.5}, rate=8000)
    for utt, zeros in {"a1": 1600, "a2": 1600, "b1": 400}.items():
        sound = RNG.integers(-9000, 9000, 800)
        (folder / f"{utt}.wav").write_bytes(riff(np.pad(sound, zeros)[:, None], 8000))
    write_features(folder, Analysis(sample_rate=8000))
    assert "a1 (and 1 more): has 0.1 s or more of digital silence" in caplog.text
    assert "--dither 1" in caplog.text
    found = dict(iter_matrices(folder / "feats.ark"))
    np.testing.assert_array_equal(found["a1"][0], found["a1"][1])
    caplog.clear()
    archives = []
    for _ in range(2):
        assert main(["features", str(folder), "--sample-rate=8000", "--dither=1"]) == 0
        archives.append((folder / "feats.ark").read_bytes())
    assert not caplog.text
    assert archives[0] == archives[1]
    found = dict(iter_matrices(folder / "feats.ark"))
    assert not np.array_equal(found["a1"][0], found["a1"][1])
    assert not np.array_equal(found["a1"][0], found["a2"][0])
    assert (read_analysis(folder) or {})["dither"] == 1


def test_utterances_without_features_are_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Kaldi's extract-segments passes over a tenth of a second too: its limit is a float."""
    folder = corpus(tmp_path / "d", {"r": 1.0})
    (folder / "segments").write_text("r-a r 0 0.5\nr-late r 0.5 1.6\nr-short r 0 0.1\n")
    (folder / "utt2spk").write_text("r-a s\nr-late s\nr-none s\nr-short s\n")
    with caplog.at_level(logging.WARNING, "bayes_asr"):
        write_features(folder, Analysis(), max_skipped=0.75)
    assert (
        f"{folder}: wav.scp and segments name no sound of 1 of 4 utterances: r-none" in caplog.text
    )
    assert "3 of 4 utterances have too little sound" in caplog.text
    assert "r-late, r-none, r-short" in caplog.text
    assert read_data_dir(folder).feats.keys() == {"r-a"}


def test_why_there_are_no_features_is_said_with_the_numbers(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = corpus(tmp_path / "d", {"r": 1.0, "dead": 1.0})
    (folder / "dead.wav").write_bytes(riff(np.zeros((16000, 1))))
    (folder / "segments").write_text(
        "d-a dead 0 0.5\nr-a r 0 0.5\nr-late r 0.5 1.6\nr-short r 0.25 0.3\nz-a gone 0 1\n"
    )
    (folder / "utt2spk").write_text("d-a s\nr-a s\nr-late s\nr-short s\nz-a s\n")
    with caplog.at_level(logging.WARNING, "bayes_asr"):
        write_features(folder, Analysis(), max_skipped=0.8)
    for said in (
        "wav.scp: lacks gone, of the segment z-a; recordings of 1 of 5 utterances are not there",
        "d-a (0 to 0.5 s of dead, which has 1 s): is digital silence",
        "r-late (0.5 to 1.6 s of r, which has 1 s): ends more than 0.5 s after its recording",
        "r-short (0.25 to 0.3 s of r, which has 1 s): is shorter than 0.1 s",
        "4 of 5 utterances have too little sound, or none, and get no features: d-a, r-late,",
    ):
        assert said in caplog.text
    assert read_data_dir(folder).feats.keys() == {"r-a"}


@pytest.mark.parametrize(
    ("late", "options", "message"),
    [
        (
            "b1",
            [],
            "1 of 2 utterances have too little sound, or none, and get no features: b1; more than"
            " --max-skipped = 0.05 allows: mend them, or skip them by --max-skipped 0.5",
        ),
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


TABLES = ("feats.scp", "cmvn.scp")


@pytest.mark.parametrize(
    ("place", "is_ours"),
    [
        ("{d}/feats.ark:7", True),
        ("feats.ark:7[0:9]", True),
        ("copy-feats ark:x ark:- |", True),
        ("{d}/my_feats.ark:7", True),
        ("{d}/raw_fbank_d.1.ark:7", False),
        ("copy-feats ark:{d}/raw_mfcc_d.12.ark ark:- |", False),
    ],
)
def test_a_record_beside_features_of_kaldis_scripts_is_not_taken(
    place: str, is_ours: bool, tmp_path: Path, messages: Callable[[], str]
) -> None:
    folder = corpus(tmp_path / "d", {"a1": 0.1})
    write_features(folder, Analysis("fbank"))
    (folder / "feats.scp").write_text(f"a1 {place.format(d=folder)}\n")
    assert (read_analysis(folder) is not None) == is_ours
    assert ("frontend.json: not read" in messages()) == (not is_ours)


CHANGES = ("fsync", "replace", "rename", "unlink", "rmdir")  # what os does to files


def read_all(folder: Path) -> list[dict]:
    """Features, statistics and what made them, as a reader finds them."""
    tables = [{u: m.tolist() for u, m in iter_matrices(folder / f)} for f in TABLES]
    return [*tables, read_analysis(folder) or {}]


@pytest.mark.slow
@pytest.mark.parametrize("how", ["killed", "refused"])
def test_features_of_two_commands_are_never_mixed(how: str, tmp_path: Path) -> None:
    """Stopped at its n-th change of a file, for all n: all old features, or all new ones."""
    folder, fbank = corpus(tmp_path / "d", {"a1": 0.1, "b1": 0.1}), Analysis("fbank")
    write_features(folder, fbank)
    new = read_all(folder)
    outcomes = []
    for last in range(100):
        write_features(folder, Analysis())
        old = read_all(folder)
        status = in_a_process_of_its_own(lambda: write_features(folder, fbank), how, last)
        with suppress(InputError, FileNotFoundError):  # readers may have to wait
            assert read_all(folder) in (old, new)
        settle(folder)
        outcomes.append((found := read_all(folder)) == new)
        assert found in (old, new)
        if not status:
            break
    assert outcomes[0] is False
    assert outcomes[-1] is True
    assert len(outcomes) > 20
    assert how == "refused" or outcomes == sorted(outcomes)


def in_a_process_of_its_own(work: Callable[[], None], how: str, last: int) -> int:
    """Do it in a copy of this process that is killed, or refused, at a change of a file.

    Returns 0 if it ended well without that many changes.
    """
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1]
    count = itertools.count()

    def stopping(change: Callable) -> Callable:
        def changed(*arguments: object, **options: object) -> object:
            if next(count) == last:
                if how == "killed":
                    os._exit(9)
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return change(*arguments, **options)

        return changed

    for name in CHANGES:
        setattr(os, name, stopping(getattr(os, name)))
    try:
        work()
        os._exit(next(count) > last)
    except BaseException:  # pytest must not go on in the copy
        os._exit(1)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("utt2spk", "a1 a\n", "lacks the utterance b1"),
        (
            "wav.scp",
            "a1 a1.wav\nb1 nowhere.wav\n",
            "b1: nowhere.wav: cannot be opened: No such file",
        ),
        ("wav.scp", "a1 a1.wav\nb1 utt2spk\n", "wav.scp: b1: .*utt2spk: is none of RIFF"),
        ("wav.scp", "a1 a1.wav\nb1 touch boom |\n", "refusing to run the command"),
        ("segments", "b1 c 0 1\n", "wav.scp: lacks c, of the segment b1"),
        (
            "segments",
            "b1 a1 0 0.5 1\n",
            r"a1.wav \(a1\): channel 1 is asked for, counted from 0; there are 1: take another",
        ),
        ("segments", "b1 a1 0.5 0.4\n", "line 1: b1 from 0.5 to 0.4 s"),
        (
            "segments",
            "b1 a1 0 0.5 -2\n",
            "a channel counted from 0 where one is named: b1 a1 0 0.5 -2",
        ),
        ("segments", "b1 a1 0 0.5\nb1 a1 0 0.4\n", "b1 is there a second time"),
        ("segments", "b1 a1 x 1\n", "line 1: not `utt recording start end`"),
        ("segments", "b1 a1 0 1 A\n", "channel counted from 0 where one is named: b1 a1 0 1 A"),
        ("segments", "b1 a1 0 00:01\n", "with times in seconds, .*: b1 a1 0 00:01"),
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


def test_a_directory_of_no_utterance_gets_no_features(tmp_path: Path) -> None:
    """Be there segments or not."""
    for name, content in {"utt2spk": "", "wav.scp": "", "segments": "b1 c 0 1\n"}.items():
        (tmp_path / name).write_text(content)
        if name != "utt2spk":
            with pytest.raises(InputError, match="utt2spk: names no utterance"):
                write_features(tmp_path, Analysis())
    assert not (tmp_path / "feats.scp").exists()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("utt2spk", "a1 a\n", "lacks the utterance b1"),
        ("wav.scp", "a1 a1.wav\nb1 gone.wav\n", "b1: gone.wav: cannot be opened: No such file"),
        ("wav.scp", "a1 a1.wav\nb1 gone.wav[speed=0.9]\n", "b1: gone.wav: cannot be opened"),
        ("wav.scp", "a1 a1.wav\nb1 b1.wav[speed=99]\n", "b1: .*a speed is a number from 0.1"),
    ],
)
def test_what_is_missing_is_named_before_the_first_sound_is_read(
    name: str, content: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Features of a corpus take hours."""
    folder = corpus(tmp_path / "d", {"a1": 0.5, "b1": 0.5})
    (folder / name).write_text(content)
    monkeypatch.setattr(Recordings, "read", lambda *_: pytest.fail("a sound is read"))
    with pytest.raises(InputError, match=message):
        write_features(folder, Analysis())


@pytest.mark.parametrize(
    ("script", "advice"),
    [
        (None, "by --max-skipped 0.5"),
        ("gmm.sh", "by --max-skipped 0.5"),
        ("run.sh", "by run.sh --set data.max_skipped=0.5"),
    ],
)
def test_advice_names_the_options_of_what_the_user_runs(
    script: str | None, advice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if script:
        monkeypatch.setenv(SCRIPT, script)
    with pytest.raises(InputError, match=re.escape(advice) + "$"):
        report_skipped("no features", ["a"], 2, 0.05, "--max-skipped")
    with pytest.raises(InputError, match=r"by --set data\.max_skipped=0\.5$"):
        report_skipped("no features", ["a"], 2, 0.05)


def test_limit_that_the_message_names_lets_as_many_be_skipped(tmp_path: Path) -> None:
    (tmp_path / "wav.scp").write_text("there there.wav\n")
    lost = [f"u{number} lost{number} 0 1\n" for number in range(29)]
    (tmp_path / "segments").write_text("".join([*lost, "u there 0 1\n"]))
    sounds = Recordings(tmp_path, 16000, None, None)
    with pytest.raises(InputError, match=r"--max-skipped 0\.29$"):
        list_recordings(tmp_path, sounds, 100, 0.28)
    assert [name for name, _ in list_recordings(tmp_path, sounds, 100, 0.29)] == ["there"]

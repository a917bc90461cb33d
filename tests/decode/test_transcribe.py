"""From sound alone to words with times: all commands in a row, on words made of tones."""

import errno
import json
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

import bayes_asr
from bayes_asr.base.errors import InputError
from bayes_asr.cli import main
from bayes_asr.config.merge import load
from bayes_asr.data.sound.audio import resample
from bayes_asr.data.sound.feature_directories import write_features
from bayes_asr.data.sound.spectrum import Analysis
from bayes_asr.decode import packed
from bayes_asr.decode.recognise import RecognisedWord
from bayes_asr.decode.transcribe import Transcript, transcribe
from bayes_asr.kaldi_io.side_files import CONFIG
from bayes_asr.train.runs import checkpoint
from tests.attacks.breakages import unprivileged
from tests.support.places import CONF
from tests.support.sounds import riff, sphere, written
from tests.support.tones import RATE, SETS, TINY, command, speak

pytest.importorskip("kaldi_native_fbank")
pytest.importorskip("kaldifst")
pytestmark = pytest.mark.slow


def test_it_makes_few_errors(run: Path) -> None:
    (score,) = json.loads((run / "score_test.json").read_text())
    assert score["tokens"] == 32
    assert score["rate"] < 10


@pytest.mark.parametrize("form", ["riff", "sphere", "8 kHz"])
def test_words_and_times_are_those_spoken(
    form: str,
    run: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    spoken = speak(["six", "one", "two", "two"], np.random.default_rng(99))
    contents = {
        "riff": riff(spoken.samples),
        "sphere": sphere(spoken.samples),
        "8 kHz": riff(resample(spoken.samples[:, 0], RATE, 8000)[:, None].round(), 8000),
    }
    file = tmp_path / "sound"
    file.write_bytes(contents[form])
    capsys.readouterr()
    command("transcribe", run, file, "--json", "--ctm", tmp_path / "ctm")
    printed = capsys.readouterr()
    (heard,) = json.loads(printed.out)
    assert heard["file"] == str(file)
    assert heard["seconds"] == pytest.approx(len(spoken.samples) / RATE, abs=0.001)
    assert ("resampled from 8000 to 16000 Hz" in printed.err) == (form == "8 kHz")
    assert "normalised (mean-variance) over each file by itself" in printed.err
    if form == "8 kHz":  # a network that has never seen an empty upper half may mishear
        return
    assert [word["word"] for word in heard["words"]] == [word for word, _, _ in spoken.words]
    for word, (_, start, end) in zip(heard["words"], spoken.words, strict=True):
        assert word["start"] == pytest.approx(start, abs=0.05)
        assert word["end"] == pytest.approx(end, abs=0.05)
    first = (tmp_path / "ctm").read_text().splitlines()[0].split()
    assert first[:2] == ["sound", "1"]
    assert first[4] == "six"


def test_only_files_that_are_used_are_named(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Transcribing needs the model that came with the alignments, not the alignments."""
    (tmp_path / "sound").write_bytes(riff(speak(["six"], np.random.default_rng(99)).samples))
    capsys.readouterr()
    command("transcribe", run, tmp_path / "sound")
    said = capsys.readouterr().err
    assert "model: " in said
    assert "alignments" not in said


def test_python_hears_as_the_command_does(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Words of files, and features with statistics that the network takes as `forward` does."""
    file = tmp_path / "sound"
    file.write_bytes(riff(speak(["six", "one"], np.random.default_rng(99)).samples))
    capsys.readouterr()
    command("transcribe", run, file, "--json")
    (transcript,) = bayes_asr.transcribe(run, [str(file)])
    assert [asdict(transcript)] == json.loads(capsys.readouterr().out)
    features, cmvn = bayes_asr.features(run, file)
    assert cmvn["features"].shape == (2, features["features"].shape[1] + 1)
    network = bayes_asr.load(run)
    assert len(network(features, cmvn)) == len(features["features"])
    with pytest.raises(ValueError, match=r"bayes_asr\.features returns them"):
        network(features)
    with pytest.raises(InputError, match="absent"):
        bayes_asr.transcribe(run, [file, tmp_path / "absent"])


def test_archive_of_a_run_hears_where_nothing_else_is(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sound = run.parent / "data" / "test" / "s0-0.wav"
    archives = tmp_path / "run.zip", tmp_path / "again.zip"
    for archive in archives:
        command("export", run, "--archive", archive)
    assert archives[0].read_bytes() == archives[1].read_bytes()
    expected = bayes_asr.transcribe(run, [sound])
    log_likelihoods = bayes_asr.load(run)(*bayes_asr.features(run, sound))
    shutil.copy(sound, tmp_path / "a.wav")
    moved = run.parent.rename(tmp_path / "elsewhere")
    try:
        with zipfile.ZipFile(archives[0]) as archive:
            archive.extractall(tmp_path / "unpacked")
        for packed in (archives[0], tmp_path / "unpacked"):
            (transcript,) = bayes_asr.transcribe(packed, [tmp_path / "a.wav"])
            assert transcript.words == expected[0].words
            again = bayes_asr.load(packed)(*bayes_asr.features(packed, tmp_path / "a.wav"))
            assert again.equal(log_likelihoods)
        command("transcribe", archives[0], tmp_path / "a.wav", "--json")
        (entry,) = json.loads(capsys.readouterr().out.splitlines()[-1])
        assert [word["word"] for word in entry["words"]] == [w.word for w in expected[0].words]
        assert main(["export", str(tmp_path / "unpacked"), "--archive", str(archives[1])]) == 0
        assert archives[0].read_bytes() == archives[1].read_bytes()
        assert main(["forward", str(archives[0]), "--on", "dev"]) == 1
        assert "it is a file (unpack one of export --archive)" in capsys.readouterr().err
    finally:
        moved.rename(run.parent)


def test_archive_says_what_others_will_lack(
    run: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    archive, poor = tmp_path / "run.zip", shutil.copytree(run, tmp_path / "run")
    command("export", run, "--archive", archive)
    assert f"{archive}: " not in capsys.readouterr().err
    (poor / "score_dev.json").unlink()
    content = checkpoint.read(poor / "best.pt")
    content["front_ends"]["features"]["sound"] = None
    checkpoint.save(poor / "best.pt", content)
    monkeypatch.setattr(packed, "hash_files", lambda architecture: {"mine.py": "its hash"})
    command("export", poor, "--archive", archive)
    warnings = capsys.readouterr().err
    for lack in ("has a unit of mine.py", "has no LM weight", "transcribe cannot take it"):
        assert f"{archive}: {lack}" in warnings
    assert archive.exists()


def test_archive_leaves_nothing_out_that_may_not_be_read(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (words,) = run.parent.rglob("graph*/words.txt")
    more = words.parent / "more"
    more.mkdir(mode=0)
    try:
        with unprivileged():
            assert main(["export", str(run), "--archive", str(tmp_path / "run.zip")]) == 1
    finally:
        more.rmdir()
    assert f"{more}: Permission denied" in capsys.readouterr().err
    assert not (tmp_path / "run.zip").exists()


def test_files_of_one_speaker_are_normalised_together(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The words of a dev speaker are those that decoding the set gave."""
    dev = run.parent / "data" / "dev"
    files = [dev / f"s0-{number}.wav" for number in range(4)]
    command("transcribe", run, *files, "--one-speaker")
    printed = capsys.readouterr()
    assert "all 4 files as of one speaker" in printed.err
    score = json.loads((run / "score_dev.json").read_text())[0]
    name = f"words.lmwt{score['lm_weight']:g}.wip{score['insertion_penalty']:.1f}.txt"
    decoded = (run / "decode_dev" / name).read_text().splitlines()[:4]
    heard = [line for line in printed.out.splitlines() if line.startswith(str(dev))]
    assert [line.split(": ")[1] for line in heard] == [d.split(None, 1)[1] for d in decoded]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"MThd" * 99, "sound: is none of RIFF, "),
        (b"", "sound: is empty"),
        (riff(np.ones((1, 1), np.int16)), "sound: 0.000 s of sound hold no frame of 0.025 s"),
        (riff(np.zeros((300, 1), np.int16)), "sound: 0.019 s of sound hold no frame of 0.025 s"),
    ],
)
def test_files_that_hold_nothing_are_named(
    content: bytes, message: str, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "sound"
    file.write_bytes(content)
    assert main(["transcribe", str(run), str(file)]) == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("form", ["text", "--json", "--one-speaker"])
def test_good_files_are_printed_beside_bad_ones(
    form: str, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spoken = speak(["six", "one", "two", "two"], np.random.default_rng(99))
    nan = np.full(RATE, np.nan, np.float32)
    contents = {
        "first.wav": riff(spoken.samples),
        "empty.wav": b"",
        "text.wav": b"Dear diary",
        "cut.wav": riff(spoken.samples)[:-7],
        "nothing.wav": riff(spoken.samples[:0]),
        "sample.wav": riff(spoken.samples[:1]),
        "nan.wav": written(nan, "WAV", "FLOAT"),
        "fast.wav": riff(spoken.samples, 2**31 - 1),
        "last.flac": written(spoken.samples, "FLAC", "PCM_16"),
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    files = [tmp_path / name for name in [*contents, "absent.wav", "."]]
    capsys.readouterr()
    options = [] if form == "text" else [form]
    assert main(["transcribe", *map(str, [run, *files, *options, "--ctm", tmp_path / "ctm"])]) == 1
    printed = capsys.readouterr()
    said = printed.err.splitlines()
    for file in files:
        good = file.name in ("first.wav", "last.flac")
        assert sum(line.startswith(f"{file}: ") for line in said) == (not good), file
        assert (str(file) in printed.out) == good or file == tmp_path
    assert said[-1].startswith("bayes-asr transcribe: error: nothing was heard in 9 of 11 files")
    assert {line.split()[0] for line in (tmp_path / "ctm").read_text().splitlines()} == {
        "first",
        "last",
    }
    if form == "--json":
        heard = json.loads(printed.out)
        assert [one["file"] for one in heard] == [str(files[0]), str(files[8])]
        assert heard[0]["words"] == heard[1]["words"]


def test_a_file_is_complete_before_the_next_is_opened(run: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "first.wav", tmp_path / "second.wav"
    content = riff(speak(["six", "one"], np.random.default_rng(97)).samples)
    first.write_bytes(content)
    results = transcribe(run, [first, second])
    heard = next(results)
    assert isinstance(heard, Transcript)
    second.write_bytes(content)
    assert [*results] == [replace(heard, file=str(second))]


def test_what_was_heard_before_an_end_is_written(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def end_early(*_given: object, **_options: object) -> Iterator[Transcript]:
        word = RecognisedWord("one", 0.5, 1.0, 0.9)
        yield Transcript("a.wav", 2.0, [word], [[0.0, 2.0]], [])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("bayes_asr.cli.transcribe.transcribe", end_early)
    ctm, rttm = tmp_path / "out.ctm", tmp_path / "out.rttm"
    given = ["a.wav", "b.wav", "--json", f"--ctm={ctm}", f"--rttm={rttm}"]
    assert main(["transcribe", str(run), *given]) == 1
    said = capsys.readouterr()
    assert [one["file"] for one in json.loads(said.out)] == ["a.wav"]
    assert ctm.read_text() == "a 1 0.50 0.50 one 0.90\n"
    assert main(["transcribe", str(run), *given, "--channel=1"]) == 1
    assert ctm.read_text() == "a 2 0.50 0.50 one 0.90\n"
    assert rttm.read_text() == "SPEAKER a 2 0.000 2.000 <NA> <NA> speech <NA> <NA>\n"
    assert "ended after 1 of 2 files" in said.err


def test_speaker_of_files_that_hold_nothing_is_not_spoken_of(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    absent = str(tmp_path / "absent.wav")
    assert main(["transcribe", str(run), absent, absent, "--one-speaker"]) == 1
    said = capsys.readouterr().err
    assert "as of one speaker" not in said
    assert "nothing was heard in 2 of 2 files" in said


@pytest.mark.parametrize("seconds", [3, 20, 120])
def test_words_behind_digital_silence_are_those_without_it(
    seconds: int, run: Path, tmp_path: Path
) -> None:
    """Silence alters no words of its file, nor of others of its speaker, some of which say nothing
    at all.
    """
    plain, padded, silent = (tmp_path / f"{name}.wav" for name in ("plain", "padded", "silent"))
    spoken = speak(["six", "one", "two", "two"], np.random.default_rng(99)).samples
    zeros = np.zeros((seconds * RATE, 1), np.int16)
    plain.write_bytes(riff(spoken))
    padded.write_bytes(riff(np.concatenate([zeros, spoken])))
    silent.write_bytes(riff(zeros))
    (alone,), (behind,) = (bayes_asr.transcribe(run, [file]) for file in (plain, padded))
    together = bayes_asr.transcribe(run, [silent, padded, plain], one_speaker=True)
    expected = [word.word for word in alone.words]
    assert expected == ["six", "one", "two", "two"]
    said = [[word.word for word in heard.words] for heard in (behind, *together)]
    assert said == [expected, [], expected, expected]
    for word, without in zip(behind.words, alone.words, strict=True):
        assert word.start == pytest.approx(seconds + without.start, abs=0.021)


def test_standard_input_and_a_channel_are_heard(run: Path) -> None:
    spoken = speak(["six", "one"], np.random.default_rng(98)).samples
    stereo = np.concatenate([np.zeros_like(spoken), spoken], 1)
    command = [sys.executable, "-m", "bayes_asr", "transcribe", str(run), "-", "--channel=1"]
    content = written(stereo, "FLAC", "PCM_16")
    done = subprocess.run(command, input=content, capture_output=True)
    assert done.stdout.decode().splitlines()[0] == "-: six one"
    assert done.returncode == 0
    done = subprocess.run([*command, "--channel=7"], input=content, capture_output=True)
    assert b"-: channel 7 is asked for, counted from 0; there are 2" in done.stderr
    assert done.returncode == 1


def test_an_absent_library_is_named_once(
    small_run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "soundfile", None)
    assert main(["transcribe", str(small_run), "a.wav", "b.wav"]) == 1
    (said,) = capsys.readouterr().err.splitlines()
    assert "reading sound needs soundfile: pip install soundfile" in said


def test_a_run_on_other_features_says_what_is_missing(
    small_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["transcribe", str(small_run), str(tmp_path / "sound.wav")]) == 1
    said = capsys.readouterr().err
    assert "not of the built-in front end" in said
    assert "fMLLR transform of its speaker" in said
    assert "./run.sh --features fbank" in said


def test_a_run_whose_data_moved_says_where_to_write_that(
    small_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, gone = tmp_path / "run", tmp_path / "gone"
    shutil.copytree(small_run, run)
    config = load([run / CONFIG])
    replace(config, data=replace(config.data, dir=str(gone))).save(run / CONFIG)
    assert main(["transcribe", str(run), str(tmp_path / "sound.wav")]) == 1
    said = capsys.readouterr().err
    assert f"data.dir, {gone}, where they and their models were, is not there" in said
    assert str(run / CONFIG) in said


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        (
            {"kind": "Sphinx MFCC"},
            "its features cannot be made of sound here: front end 'Sphinx MFCC'",
        ),
        ({"kind": "mfcc", "pitch": True}, "made with a front end of kind, pitch, which this"),
    ],
)
def test_front_ends_that_are_not_there_are_named_with_their_run(
    fields: dict[str, object],
    says: str,
    small_run: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = shutil.copytree(small_run, tmp_path / "run")
    content = checkpoint.read(run / "best.pt")
    content["front_ends"]["features"]["sound"] = fields
    checkpoint.save(run / "best.pt", content)
    assert main(["transcribe", str(run), str(tmp_path / "sound.wav")]) == 1
    assert f"{run / 'best.pt'}: {says}" in (said := capsys.readouterr().err)
    assert "; train " in said


def test_streams_of_a_network_are_made_of_the_sound(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The words are those that decoding gives; where a stream is not of sound, that is said."""
    root = run.parent
    for name in ("train", "dev", "test"):
        for folder in ("mfcc", "elsewhere"):
            shutil.copytree(root / "data" / name, tmp_path / folder / name)
        for folder in ("mfcc", "elsewhere"):
            write_features(tmp_path / folder / name, Analysis("mfcc", bands=23))
        (tmp_path / "elsewhere" / name / "frontend.json").unlink()
    chosen = [f"--set={key}={value}" for key, value in {**TINY, "train.epochs": 3}.items()]
    for folder in ("mfcc", "elsewhere"):
        streams = [f"--set=data.{n}.streams.cepstra={tmp_path}/{folder}/{n}" for n in SETS]
        more = (*streams, "--set=streams.cepstra.cmvn=mean", f"--set=data.dir={root}")
        command("train", CONF / "base.yaml", *chosen, *more, "--out", tmp_path / f"run_{folder}")
    two = tmp_path / "run_mfcc"
    command("forward", two, "--on", "dev")
    command("decode", two, "--on", "dev", "--lmwt", "2")
    decoded = (two / "decode_dev/words.lmwt2.wip0.0.txt").read_text().splitlines()[:4]
    capsys.readouterr()
    files = [root / "data/dev" / f"s0-{number}.wav" for number in range(4)]
    command("transcribe", two, *files, "--one-speaker", "--lmwt", "2")
    printed = capsys.readouterr()
    heard = [line for line in printed.out.splitlines() if line.startswith(str(root))]
    assert [line.split(": ")[1] for line in heard] == [d.split(None, 1)[1] for d in decoded]
    assert "normalised (mean-variance) over all 4" in printed.err
    assert "normalised (mean) over all 4" in printed.err
    other = ["transcribe", str(tmp_path / "run_elsewhere"), str(files[0]), "--lmwt=2"]
    assert main(other) == 1
    assert "also reads the stream cepstra, whose features are not of" in capsys.readouterr().err

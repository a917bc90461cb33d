"""From sound to the labels that a decoder writes, on words made of tones."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from bayes_asr.cli import main
from bayes_asr.decode.transcribe import _find_span
from tests.support.places import CONF
from tests.support.sounds import riff
from tests.support.tones import RATE, command, write_set

pytest.importorskip("kaldi_native_fbank")
STACK = [
    {"name": "half", "kind": "conv1d", "channels": 24, "kernel": 5, "stride": 2},
    {"name": "top", "kind": "recurrent", "unit": "gru", "units": 24},
]
SIZES = {"units": 24, "embedding": 8, "attention_units": 24, "attention": "location"}
SETTINGS = {
    "data.sequences": "text",
    "features.cmvn": "mean-variance",
    "model.stack": STACK,
    **{f"model.decoder.{key}": value for key, value in SIZES.items()},
    "train.epochs": 4,
    "train.learning_rate": 0.01,
    "train.batch_sequences": 4,
    "score.metric": "wer",
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that learnt which words there are, if hardly when they are said."""
    root = tmp_path_factory.mktemp("tones")
    for seed, (name, count) in enumerate({"train": 16, "dev": 4, "test": 6}.items()):
        write_set(root / "data" / name, count, seed)
    given = [f"--set={key}={value}" for key, value in SETTINGS.items()]
    command("train", CONF / "base.yaml", *given, f"--set=data.dir={root}", "--out", root / "run")
    return root / "run"


@pytest.mark.slow
def test_a_decoder_writes_of_sound_what_it_writes_of_features(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command("generate", run, "--on", "test")
    written = (line.split() for line in (run / "decode_test/words.txt").read_text().splitlines())
    expected = {utt: words for utt, *words in written}
    assert any(expected.values())
    capsys.readouterr()
    for speaker in ("s0", "s1"):  # by speaker, as the features were normalised
        own = [utt for utt in expected if utt.startswith(speaker)]
        files = [run.parent / "data/test" / f"{utt}.wav" for utt in own]
        command("transcribe", run, *files, "--one-speaker", "--json")
        for utt, heard in zip(own, json.loads(capsys.readouterr().out), strict=True):
            assert [word["word"] for word in heard["words"]] == expected[utt]
            for word in heard["words"]:
                assert 0 <= word["start"] < word["end"] <= heard["seconds"]
                assert 0 < word["confidence"] <= 1


def test_a_weight_and_a_graph_are_refused(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sound = str(run.parent / "data/test/s0-0.wav")
    assert main(["transcribe", str(run), sound, "--lmwt", "3"]) == 1
    assert "writes without a graph and an LM weight" in capsys.readouterr().err


def test_an_absent_detector_is_named_once_before_the_first_file(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "silero_vad", None)
    sounds = [str(run.parent / f"data/test/s0-{number}.wav") for number in (0, 1)]
    capsys.readouterr()
    assert main(["transcribe", str(run), *sounds, "--segments", "vad"]) == 1
    printed = capsys.readouterr()
    assert not printed.out
    assert printed.err.count("silero-vad: ") == printed.err.count("error") == 1


@pytest.mark.slow
def test_a_long_file_without_a_detector_is_named_and_short_ones_are_heard(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "silero_vad", None)
    long, short = tmp_path / "long.wav", run.parent / "data/test/s0-0.wav"
    long.write_bytes(riff(np.random.default_rng(0).integers(-99, 99, (61 * RATE, 1), np.int16)))
    capsys.readouterr()
    assert main(["transcribe", str(run), str(long), str(short)]) == 1
    printed = capsys.readouterr()
    assert printed.out.startswith(f"{short}: ")
    (named,) = (line for line in printed.err.splitlines() if line.startswith(f"{long}: "))
    assert "silero-vad" in named
    assert named.endswith("--segments none")
    command("transcribe", run, long, "--segments", "none")


def test_a_label_is_where_nine_tenths_of_the_attention_lie() -> None:
    assert _find_span(np.array([0.02, 0.5, 0.46, 0.02]), 2.0) == (0.5, 1.5)
    assert _find_span(np.array([0.0, 0.0, 1.0]), 3.0) == (2.0, 3.0)

"""The command `wer` against Kaldi's own figure and against hubscr's, in both conventions."""

import argparse
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from bayes_asr.cli import wer
from bayes_asr.errors import InputError


@pytest.fixture
def run_wer(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    def run(*argv: str | Path) -> str:
        parser = argparse.ArgumentParser()
        wer.add_arguments(parser)
        wer.run(parser.parse_args([str(arg) for arg in argv]))
        return capsys.readouterr().out

    return run


@pytest.fixture
def pair(tmp_path: Path) -> list[str | Path]:
    (tmp_path / "ref").write_text("u1 sil dh ah sil k ae t sil\nu2 sil sh iy sil ih z sil\n")
    (tmp_path / "hyp").write_text("u1 sil dh ah k ae d sil\nu2 sil sh iy ih z sil\n")
    (tmp_path / "utt2spk").write_text("u1 mabc0\nu2 fabc0\n")
    return ["--ref", tmp_path / "ref", "--hyp", tmp_path / "hyp"]


def test_both_conventions_equal_hubscr(run_wer: Callable[..., str], pair: list[str]) -> None:
    strict, forgiving = run_wer(*pair, "--forgive", "sil").splitlines()
    assert strict == "%WER 20.00 [ 3 / 15, 0 ins, 2 del, 1 sub ] PER (strict)"
    assert forgiving == "%WER 6.67 [ 1 / 15, 0 ins, 0 del, 1 sub ] PER (forgiving)"


def test_json_has_the_keys_of_a_score_file(run_wer: Callable[..., str], pair: list[str]) -> None:
    entry = json.loads(run_wer(*pair, "--map", "timit", "--to", "39", "--json"))
    assert (entry["set"], entry["metric"], entry["convention"]) == (None, "per", "strict")
    assert (entry["errors"], entry["tokens"], entry["rate"]) == (3, 15, 20.0)
    assert [u["deletions"] for u in entry["utterances"]] == [1, 1]


def test_speakers(run_wer: Callable[..., str], pair: list[str | Path], tmp_path: Path) -> None:
    by = ["--by", "speaker", "--utt2spk", tmp_path / "utt2spk"]
    lines = run_wer(*pair, *by).splitlines()
    assert lines[1:] == [
        "%WER 25.00 [ 2 / 8, 0 ins, 1 del, 1 sub ] mabc0",
        "%WER 14.29 [ 1 / 7, 0 ins, 1 del, 0 sub ] fabc0",
    ]
    speakers = json.loads(run_wer(*pair, *by, "--json"))["speakers"]
    assert [(s["speaker"], s["errors"]) for s in speakers] == [("mabc0", 2), ("fabc0", 1)]


def test_by_speaker_needs_the_speakers(run_wer: Callable[..., str], pair: list[str]) -> None:
    with pytest.raises(InputError, match="needs --utt2spk"):
        run_wer(*pair, "--by", "speaker")


def test_costs_make_a_difference(run_wer: Callable[..., str], tmp_path: Path) -> None:
    (tmp_path / "ref").write_text("u b b b c c\n")
    (tmp_path / "hyp").write_text("u c c a a b\n")
    pair = ["--ref", tmp_path / "ref", "--hyp", tmp_path / "hyp"]
    assert run_wer(*pair).startswith("%WER 120.00 [ 6 / 5, 3 ins, 3 del, 0 sub ] WER (plain)")
    assert run_wer(*pair, "--costs", "levenshtein").startswith("%WER 100.00 [ 5 / 5, 0 ins")

"""What a terminal gets of texts out of files: no control characters, by one mechanism."""

import json
import logging
from pathlib import Path

import pytest

from bayes_asr.base import log
from bayes_asr.base.errors import InputError, complaint, name_some, printable
from bayes_asr.cli import main
from tests.support.report_runs import make_run

EVIL = "\x1b]0;title\x07\x9b2J\u202e\n"


def test_control_characters_become_escapes() -> None:
    assert printable(EVIL) == r"\x1b]0;title\x07\x9b2J\u202e\n"
    assert printable("plain, ä, 語, $x$") == "plain, ä, 語, $x$"
    assert printable("می\u200cخواهم") == "می\u200cخواهم", "joiners are letters of some scripts"
    assert printable("ka\uf1aba") == "ka\uf1aba", "a letter of an older font of IPA"
    assert printable("\udcff\ud800") == r"\udcff\ud800"


@pytest.mark.parametrize("error", [OSError(2, "gone", f"a{EVIL}b"), RuntimeError(EVIL)])
def test_complaints_are_one_line(error: Exception) -> None:
    assert complaint(error).isprintable()


def test_messages_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    kept = log.LOGGER.handlers[:], log.LOGGER.level, log.LOGGER.propagate
    try:
        log.log_to_screen()
        log.LOGGER.log(logging.WARNING, "%s: skipped", EVIL)
    finally:
        log.LOGGER.handlers[:], log.LOGGER.level, log.LOGGER.propagate = kept
    assert capsys.readouterr().err == r"\x1b]0;title\x07\x9b2J\u202e\n: skipped" + "\n"


def shown(capsys: pytest.CaptureFixture[str], *words: str | Path) -> str:
    capsys.readouterr()
    assert main([str(word) for word in words]) == 0
    printed = capsys.readouterr().out
    assert all(line.isprintable() for line in printed.splitlines())
    assert "\u202e" not in printed
    return printed


def test_status_shows_no_control_characters(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "a\x1b[2J"
    run.mkdir()
    (run / "state.json").write_text(json.dumps({"state": "failed", "why": f"broken{EVIL}"}))
    assert r"broken\x1b]0;title\x07\x9b2J\u202e\n" in shown(capsys, "status", tmp_path)
    (entry,) = json.loads(shown(capsys, "status", tmp_path, "--json"))
    assert entry["why"] == f"broken{EVIL}"


@pytest.mark.parametrize("value", [1e400, float("nan"), 1e299, 10**400, "x", [], None, True])
@pytest.mark.parametrize("key", ["batch", "batches", "seconds", "epoch", "state", "why"])
def test_status_of_a_state_of_another_type(
    key: str, value: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_run(tmp_path)
    state = {"state": "running", "epoch": 25, "batch": 1, "batches": 4, "seconds": 2.0}
    (tmp_path / "state.json").write_text(json.dumps(state | {key: value}))
    assert "killed" in shown(capsys, "status", tmp_path) or key == "state"


@pytest.mark.parametrize("verb", ["report", "compare"])
def test_scores_show_no_control_characters(
    verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bayes_asr.evaluate.report.page.find_spec", lambda name: None)
    run = make_run(tmp_path / "a\x1b[2J")
    for path in run.glob("score_*.json"):
        entries = json.loads(path.read_text())
        entries[0]["convention"] = f"plain{EVIL}"
        path.write_text(json.dumps(entries))
    others = [run] if verb == "compare" else ["--out", tmp_path / "\x07out"]
    shown(capsys, verb, run, *others)
    shown(capsys, verb, run, *others, "--json")


def test_speakers_show_no_control_characters(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "text").write_text("u a b\n")
    (tmp_path / "utt2spk").write_text("u s\x1b[2J\n")
    words = ["wer", "--ref", tmp_path / "text", "--hyp", tmp_path / "text"]
    words += ["--by", "speaker", "--utt2spk", tmp_path / "utt2spk"]
    assert r"s\x1b[2J" in shown(capsys, *words)
    shown(capsys, *words, "--json")


def test_messages_of_errors_are_printable() -> None:
    assert str(InputError(EVIL)).isprintable()
    assert name_some([EVIL, "b"]) == f"{printable(EVIL)}, b"

"""Decisions for classes are compared with data directories, which may be damaged."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from bayes_asr.base.errors import InputError
from bayes_asr.config.merge import load
from bayes_asr.evaluate.decoded.classes import Decisions, check_decisions
from bayes_asr.evaluate.score.scores import read_scores


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("utt2spk", "u1 s1\n", "utt2spk: lacks 1 of 2 utterances, u2; complete it"),
        ("utt2dur", "u1 1\n", "utt2dur: lacks 1 of 2 utterances, u2; complete it"),
        ("utt2dur", "u1 1\nu2 0\n", "utt2dur: u2 lasts '0', not a number of seconds above 0"),
        ("utt2dur", "u1 1\nu2 long\n", "utt2dur: u2 lasts 'long', not a number of seconds"),
    ],
)
def test_tables_of_utterances_are_checked(
    file: str, text: str, message: str, tmp_path: Path
) -> None:
    (tmp_path / "utt2spk").write_text("u1 s1\nu2 s1\n")
    (tmp_path / "utt2dur").write_text("u1 1\nu2 2\n")
    (tmp_path / file).write_text(text)
    network = SimpleNamespace(classes=("a", "b"), log_priors=torch.zeros(2))
    rows = {utt: np.zeros((1, 2)) for utt in ("u1", "u2")}
    decisions = Decisions(network, rows, dict.fromkeys(rows, 0))  # type: ignore[arg-type]
    config = load([], ["score.durations=[3]"]).score
    with pytest.raises(InputError, match=message):
        check_decisions(decisions, dict.fromkeys(rows, "a"), [tmp_path], config, "test")


def test_utterances_without_features_are_errors(tmp_path: Path) -> None:
    """Those of the set, of which there is no decision; others of the table of classes are not."""
    (tmp_path / "utt2spk").write_text("u1 s1\nu2 s1\nu3 s2\n")
    (tmp_path / "utt2dur").write_text("u1 1\nu2 3\nu3 3\n")
    network = SimpleNamespace(classes=("a", "b"), log_priors=torch.zeros(2))
    rows = {utt: np.log([[0.9, 0.1]]) for utt in ("u1", "u3")}
    decisions = Decisions(network, rows, {"u1": 0, "u3": 0})  # type: ignore[arg-type]
    classes = {"u1": "a", "u2": "a", "u3": "b", "u4": "a"}
    config = load([], ["score.durations=[1, 3]"]).score
    result = check_decisions(decisions, classes, [tmp_path], config, "test")
    found = result.as_dict()
    assert (found["utterances"], found["errors"], found["undecided"]) == (3, 2, 1)
    assert found["confusions"] == [[1, 0], [1, 0]]
    assert [part.errors for part in result.durations.values()] == [0, 2]
    # Of a, one of two is missed; b is missed, and taken for a: (1/2 + 1 + 1) / 2, halved.
    assert found["c_avg"] == pytest.approx(2.5 / 4)
    result.write(tmp_path / "identified.json", tmp_path / "score.json", "speaker", {})
    (score,) = read_scores(tmp_path / "score.json")
    assert [(u.utterance, u.speaker, u.hypothesis) for u in score.utterances] == [
        ("u1", "s1", ("a",)),
        ("u2", "s1", ()),
        ("u3", "s2", ("a",)),
    ]
    assert (score.counts.deletions, score.counts.substitutions) == (1, 1)
    line, *_ = result.lines("test")
    assert line.startswith("test: 2 of 3 wrong (1 without features), 66.67 %")

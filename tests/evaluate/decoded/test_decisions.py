"""Decisions for classes are compared with data directories, which may be damaged."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from bayes_asr.base.errors import InputError
from bayes_asr.config.merge import load
from bayes_asr.evaluate.decoded.classes import Decisions, check_decisions


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

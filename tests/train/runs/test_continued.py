"""Runs that go on from others: what was given by epoch is as after the last one."""

from collections.abc import Callable
from pathlib import Path

import pytest

from bayes_asr.config.merge import load
from bayes_asr.config.schema import Config
from bayes_asr.train.runs.continued import continue_runs
from tests.support.places import CONF

BY_EPOCH = "{1: 0.5, 3: 0.0}"
STACK = (
    "[{name: a, kind: recurrent, unit: gru, units: 4, dropout: {1: 0.4, 2: 0.1, 9: 0.0}},"
    " {name: b, kind: recurrent, unit: gru, units: 4}]"
)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ([f"model.dropout={BY_EPOCH}"], lambda config: config.model.dropout == 0.0),
        ([f"model.input_dropout={BY_EPOCH}"], lambda config: config.model.input_dropout == 0.0),
        ([f"model.stack={STACK}"], lambda config: config.model.stack[0]["dropout"] == 0.1),
        (
            [f"model.kinds.conv1d.dropout={BY_EPOCH}"],
            lambda config: config.model.kinds.conv1d.dropout == 0.0,
        ),
        # Linear between the epochs that are named.
        (
            ["train.teacher_forcing={1: 1.0, 9: 0.2}"],
            lambda config: config.train.teacher_forcing == pytest.approx(0.7),
        ),
        (["train.max_frames={1: 100, 3: 200}"], lambda config: config.train.max_frames == 0),
    ],
)
def test_values_by_epoch_are_those_of_the_last(
    settings: list[str], expected: Callable[[Config], bool], tmp_path: Path
) -> None:
    load([CONF / "base.yaml"], [*settings, "train.epochs=4"]).save(tmp_path / "config.yaml")
    assert expected(load(continue_runs([tmp_path])))

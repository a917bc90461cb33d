"""Runs on the made-up corpus: what they have learnt, and how they are disturbed."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from bayes_asr.config.merge import load
from bayes_asr.config.schema import Config
from bayes_asr.tasks.task import task_of
from bayes_asr.train.metrics import Totals
from bayes_asr.train.runs import checkpoint
from tests.support.small_corpus import TINY

OPTIONS = ("train.epochs=3", "train.noise=0.2", "train.tempo=0.1")
BATCHES = 4  # of an epoch of the small corpus


def config_of(root: Path, *more: str) -> Config:
    """The configuration of a tiny network on the corpus at `root`."""
    return task_of(load([], [f"data.dir={root}", *TINY, *more])).config


def epochs_of(run: Path) -> int:
    """How many epochs the history of a run has."""
    history = run / "history.jsonl"
    return len(history.read_text().splitlines()) if history.exists() else 0


def history_of(run: Path) -> list[dict[str, Any]]:
    """The lines of the history of a run."""
    return [json.loads(line) for line in (run / "history.jsonl").read_text().splitlines()]


def states(run: Path) -> dict[str, Any]:
    """All that a run has learnt, without the times."""
    found: dict[str, Any] = {}
    for name in ("best.pt", "last.pt"):
        content = checkpoint.read(run / name)
        found |= {f"{name} {key}": value for key, value in content["model"].items()}
        for number, state in content.get("optimizer", {}).get("state", {}).items():
            found |= {f"{name} {number} {key}": value for key, value in state.items()}
    for entry in history_of(run):
        for key in entry.keys() - {"skipped", "seconds", "frames_per_second", "dev_sets"}:
            found[f"{entry['epoch']} {key}"] = torch.tensor(entry[key], dtype=torch.float64)
    return found


def assert_same(a: dict[str, Any], b: dict[str, Any]) -> None:
    assert a.keys() == b.keys()
    assert not [key for key in a if not torch.equal(a[key], b[key])]


@contextmanager
def at_batch(number: int, action: Callable[[], object]) -> Iterator[None]:
    """Do something when a batch is counted, in training or validation, as the `number`th."""
    count, counted = Totals.add, 0

    def counting(*arguments: Any) -> None:
        nonlocal counted
        counted += 1
        if counted == number:
            action()
        count(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Totals, "add", counting)
        yield


class Killed(BaseException):
    """What stops a run in these tests."""


def kill() -> None:
    raise Killed

"""What runs on the made-up corpus have learnt, to compare them."""

import json
from pathlib import Path
from typing import Any

import torch
from small_corpus import TINY

from bayes_asr.config import Config, load
from bayes_asr.train import checkpoint


def config_of(root: Path, *more: str) -> Config:
    """The configuration of a tiny network on the corpus at `root`."""
    return load([], [f"data.dir={root}", *TINY, *more])


def epochs_of(run: Path) -> int:
    """How many epochs the history of a run has."""
    history = run / "history.jsonl"
    return len(history.read_text().splitlines()) if history.exists() else 0


def states(run: Path) -> dict[str, Any]:
    """All that a run has learnt, without the times."""
    found: dict[str, Any] = {}
    for name in ("best.pt", "last.pt"):
        content = checkpoint.read(run / name)
        found |= {f"{name} {key}": value for key, value in content["model"].items()}
        for number, state in content.get("optimizer", {}).get("state", {}).items():
            found |= {f"{name} {number} {key}": value for key, value in state.items()}
    for line in (run / "history.jsonl").read_text().splitlines():
        entry = json.loads(line)
        for key in entry.keys() - {"skipped", "seconds", "frames_per_second"}:
            found[f"{entry['epoch']} {key}"] = torch.tensor(entry[key], dtype=torch.float64)
    return found


def assert_same(a: dict[str, Any], b: dict[str, Any]) -> None:
    assert a.keys() == b.keys()
    assert not [key for key in a if not torch.equal(a[key], b[key])]

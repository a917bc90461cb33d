"""Scored runs below some folders, gathered into systems: the seeds of one configuration."""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bayes_asr.errors import InputError
from bayes_asr.score.counts import ErrorCounts
from bayes_asr.score.scores import Score, read_scores
from bayes_asr.score.statistics import Interval, beta_interval

SETS = ("dev", "test")


@dataclass(frozen=True)
class Run:
    """One trained and scored run; what it does not have is empty or None."""

    path: Path
    scores: dict[tuple[str, str], Score]
    """By (set, convention)."""
    history: list[dict[str, Any]]
    parameters: int | None
    front_end: str | None
    """The built-in front end that made the features (mfcc, fbank), where it did."""


@dataclass(frozen=True)
class System:
    """The runs of one configuration, which differ by their seeds."""

    name: str
    runs: Sequence[Run]

    @property
    def keys(self) -> list[tuple[str, str]]:
        """The (set, convention) that every run is scored on."""
        return [key for key in self.runs[0].scores if all(key in r.scores for r in self.runs)]

    def counts(self, key: tuple[str, str]) -> list[ErrorCounts]:
        """The pooled counts of each run."""
        return [run.scores[key].counts for run in self.runs]

    def rates(self, key: tuple[str, str]) -> np.ndarray:
        """The rate of each run, in per cent."""
        return np.array([counts.rate for counts in self.counts(key)])

    def interval(self, key: tuple[str, str]) -> Interval | None:
        """The 95 % beta interval of a run with the mean number of errors.

        Seeds share their test set, so more of them do not make it narrower. None where insertions
        take the rate beyond 100 %.
        """
        counts = self.counts(key)
        errors = round(sum(c.errors for c in counts) / len(counts))
        if errors > counts[0].tokens:
            return None
        return beta_interval(errors, counts[0].tokens)


def find_systems(paths: Iterable[Path]) -> list[System]:
    """All scored runs at or below `paths`, by configuration, in the order of `paths`, then names.

    A folder `seedN` is one seed of the folder it is in; any other run is a system of its own.
    """
    folders: dict[Path, list[Path]] = {}
    for path in paths:
        found = sorted(
            {file.parent for file in Path(path).rglob("score_*.json")}, key=_split_numbers
        )
        if not found:
            raise InputError(f"{path}: no scored run here; run bayes-asr score first")
        for run in found:
            is_seed = re.fullmatch(r"seed\d+", run.name)
            runs = folders.setdefault((run.parent if is_seed else run).resolve(), [])
            if run not in runs:
                runs.append(run)
    names = _shorten_names(list(folders))
    return [
        System(names[folder], [_read_run(run) for run in runs]) for folder, runs in folders.items()
    ]


def _split_numbers(path: Path) -> list[list[tuple[int, str]]]:
    """Sort folder by folder, seed10 after seed9."""
    return [
        [(int(text), "") if text.isdigit() else (-1, text) for text in re.split(r"(\d+)", part)]
        for part in path.parts
    ]


def _shorten_names(folders: Sequence[Path]) -> dict[Path, str]:
    """The last part of each folder, with as many parts before it as keep the names apart."""
    for parts in range(1, max((len(folder.parts) for folder in folders), default=1) + 1):
        names = {folder: "/".join(folder.parts[-parts:]) for folder in folders}
        if len(set(names.values())) == len(folders):
            break
    return names


def _read_run(path: Path) -> Run:
    scores = {
        (name, score.convention): score
        for name in SETS
        if (path / f"score_{name}.json").exists()
        for score in read_scores(path / f"score_{name}.json")
    }
    environment = _read_environment(path)
    return Run(
        path,
        scores,
        history=_read_history(path),
        parameters=environment.get("parameters"),
        front_end=environment["frontend"].get("kind"),
    )


def _read_history(path: Path) -> list[dict[str, Any]]:
    file = path / "history.jsonl"
    if not file.exists():
        return []
    try:
        return [dict(json.loads(line)) for line in file.read_text("utf-8").splitlines()]
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"{file}: not lines of JSON ({error}); train the run again") from error


def _read_environment(path: Path) -> dict[str, Any]:
    file = path / "env.json"
    if not file.exists():
        return {"frontend": {}}
    try:
        environment: dict[str, Any] = dict(json.loads(file.read_text(encoding="utf-8")))
        return environment | {"frontend": dict(environment.get("frontend") or {})}
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"{file}: not a JSON object ({error})") from error

"""Scored runs below some folders, gathered into systems: the seeds of one configuration.

What Gaussian mixtures gave is a run, too: it has scores, but was not trained as a network.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bayes_asr.base.errors import InputError, name_some, printable
from bayes_asr.base.files import is_there, real_path
from bayes_asr.base.log import LOGGER
from bayes_asr.evaluate.score.counts import ErrorCounts
from bayes_asr.evaluate.score.scores import (
    Score,
    check_all_comparable,
    find_scores,
    is_seed,
    read_scores,
)
from bayes_asr.evaluate.score.statistics import Interval, beta_of_runs
from bayes_asr.kaldi_io.side_files import ENVIRONMENT, check, read_history, read_json, take

SETS = ("dev", "test")
SCORES = tuple(f"score_{name}.json" for name in SETS)
CURVES = ("epoch", "train_error", "dev_error")  # in each line of the history
NOTHING = "–"
"""What an inserted token stands against, and what a deleted one became."""

Key = tuple[str, str]
"""Set and convention."""


@dataclass(frozen=True)
class Run:
    """One trained and scored run; what it does not have is empty or None."""

    path: Path
    scores: dict[tuple[str, str], Score]
    """By (set, convention)."""
    history: list[dict[str, Any]]
    parameters: int | None
    front_ends: Mapping[str, Mapping[str, Any] | None]
    """What made the features of each stream, where the built-in front end did: its `kind` (mfcc,
    fbank) and, where our mixtures adapt them to speakers, how they are `adapted` (fmllr)."""
    environment: dict[str, Any]
    """Versions and machine of the training, as `env.json` has them."""

    @property
    def has_network(self) -> bool:
        """Whether a network was trained, and not Gaussian mixtures."""
        return "gaussians" not in self.environment


@dataclass(frozen=True)
class ReportedSystem:
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
        """The 95 % beta interval of a run with the mean number of errors, if there is one."""
        return beta_of_runs(self.counts(key))


def find_systems(paths: Iterable[Path]) -> list[ReportedSystem]:
    """All scored runs at or below `paths`, by configuration, in the order of `paths`, then names.

    A folder `seedN` is one seed of the folder it is in; any other run is a system of its own.
    """
    folders: dict[Path, list[Path]] = {}
    for path in paths:
        # A run may have several score files, and is one folder.
        scored = {file.parent for file in find_scores(Path(path), *SCORES)}
        for run in sorted(scored, key=_split_numbers):
            # Resolved paths join a run that is named twice, or through a link.
            runs = folders.setdefault(real_path(run.parent if is_seed(run) else run), [])
            if real_path(run) not in map(real_path, runs):
                runs.append(run)
    names = _shorten_names(list(folders))
    return [
        _check_alike(ReportedSystem(printable(names[directory]), list(map(_read_run, runs))))
        for directory, runs in folders.items()
    ]


def _check_alike(system: ReportedSystem) -> ReportedSystem:
    """The system; InputError where its runs are scored on nothing in common, or not alike."""
    if not system.keys:
        scored = "; ".join(
            f"{run.path}: {', '.join(f'{name} ({convention})' for name, convention in run.scores)}"
            for run in system.runs
        )
        raise InputError(
            f"{system.name}: its {len(system.runs)} runs have no set and convention in common, by"
            f" which they are scored ({scored}); score all alike"
        )
    for part, convention in dict.fromkeys(key for run in system.runs for key in run.scores):
        lacking = [str(run.path) for run in system.runs if (part, convention) not in run.scores]
        if lacking:
            LOGGER.warning(
                "%s: no row of %s (%s), which %s lacks; score all alike",
                *(system.name, part, convention, name_some(lacking)),
            )
    for key in system.keys:
        check_all_comparable((str(run.path), run.scores[key]) for run in system.runs)
    return system


def _split_numbers(path: Path) -> list[list[tuple[int, str]]]:
    """Sort folder by folder, seed10 after seed9."""
    return [
        # Pairs compare numbers with texts without an error: a text has the number -1.
        [(int(text), "") if text.isdecimal() else (-1, text) for text in re.split(r"(\d+)", part)]
        for part in path.parts
    ]


def _shorten_names(folders: Sequence[Path]) -> dict[Path, str]:
    """The last part of each folder, with as many parts before it as keep the names apart."""
    # Names get longer at the front until they differ.
    for parts in range(1, max((len(path.parts) for path in folders), default=1) + 1):
        names = {path: "/".join(path.parts[-parts:]) for path in folders}
        if len(set(names.values())) == len(folders):
            break
    return names


def _read_run(path: Path) -> Run:
    scores = {
        (name, score.convention): score
        for name, file in zip(SETS, SCORES, strict=True)
        if is_there(path / file)
        for score in read_scores(path / file)
    }
    environment = read_environment(path / ENVIRONMENT)
    return Run(
        path,
        scores,
        history=read_history(path, CURVES),
        parameters=environment.get("parameters"),
        front_ends=_list_analyses(environment),
        environment=environment,
    )


def _list_analyses(environment: Mapping[str, Any]) -> dict[str, Any]:
    """The front end that made the features of each stream by its name, or of the only one."""
    # Runs with one stream have `frontend`, others `frontends` by the name of the stream.
    several: dict[str, Any] | None = environment.get("frontends")
    return several or {"": environment.get("frontend")}


def read_environment(file: Path) -> dict[str, Any]:
    """The content of env.json; empty where there is none."""
    if not is_there(file):
        return {}
    try:
        environment: dict[str, Any] = check(read_json(file), "the file", "an object")
        for key, kind in (
            ("parameters", "a whole number"),
            ("frontend", "an object"),
            ("frontends", "an object"),
            ("inputs", "an object"),
        ):
            if key in environment:
                take(environment, key, kind, "null")
        for analysis in _list_analyses(environment).values():
            check(analysis, "frontend", "an object", "null")
            for key in {"kind", "adapted"} & (analysis or {}).keys():
                take(analysis, key, "a text", "null")
    except InputError as error:
        reason = str(error).removeprefix(f"{file}: ")
        raise InputError(f"{file}: not as train writes it: {reason}; train the run again") from None
    return environment

"""Search over settings: trials are runs, which are resumed; their outcomes are a table."""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bayes_asr.base import log
from bayes_asr.base.errors import InputError, StoppedError, complaint
from bayes_asr.base.files import is_there, replacing
from bayes_asr.base.lock import alone_in
from bayes_asr.base.processes.pool import open_pool
from bayes_asr.base.shards import Mapper
from bayes_asr.config.catalogue import SCHEDULES
from bayes_asr.config.schema import Config
from bayes_asr.kaldi_io.side_files import check, read_history, read_json
from bayes_asr.tasks.task import FRAMES, task_of
from bayes_asr.train.trials.space import Settings

Train = Callable[[Config, Path], None]
RECORD, RESULTS = "search.json", "trials.json"


@dataclass(frozen=True)
class Trial:
    """One choice of settings, with its configuration and the directory of its run."""

    number: int
    settings: Settings
    config: Config
    run: Path


@dataclass(frozen=True)
class Outcome:
    """Outcome of a trial. The names of its fields are keys of trials.json.

    epochs: number trained; judged_by: the dev measure that chooses the best of them; best: its
    lowest value; epoch: that of it; dev_error: its share of errors, if any are counted; None where
    it failed; why: the reason of a failure.
    """

    trial: int
    run: str
    settings: Settings
    epochs: int
    judged_by: str
    best: float | None
    epoch: int | None
    dev_error: float | None
    why: str | None


@dataclass(frozen=True)
class SearchPlan:
    """Plan of a search by successive halving (Jamieson & Talwalkar 2016).

    train: trains a configuration into a folder, or goes on there; rungs: numbers of epochs after
    which the better half goes on, the last being that of a whole training; stop_at: value of the
    dev measure at which no further trial is begun; nj: trials at a time.
    """

    train: Train
    rungs: tuple[int, ...]
    stop_at: float | None = None
    nj: int = 1


def search(
    trials: Sequence[Trial], plan: SearchPlan, out: Path, about: dict[str, Any]
) -> list[Outcome]:
    """Train the trials below `out`; returns their outcomes, the best first.

    about: plain values that identify the search: another one is refused there. Complete runs are
    not trained again. InputError where every trial fails; StoppedError after a signal,
    with everything saved.
    """
    _check_rungs(trials, plan.rungs)
    _check_criteria(trials)
    with alone_in(out):
        _check_same(out, about)
        outcomes_by_trial: dict[int, Outcome] = {}
        candidates = list(trials)
        with open_pool(plan.nj) as run_jobs:
            for epochs in plan.rungs:
                outcomes_of_rung = list(_train_rung(candidates, epochs, plan, run_jobs))
                for outcome in outcomes_of_rung:
                    earlier = outcomes_by_trial.get(outcome.trial)
                    if earlier and outcome.best is None:  # what it was worth before stays
                        outcome = replace(earlier, why=outcome.why)
                    outcomes_by_trial[outcome.trial] = outcome
                # The better half goes on, rounded up, so that one trial is left at the end. Failed
                # trials have no value and are out.
                ranked = sorted((o for o in outcomes_of_rung if o.best is not None), key=_rank)
                selected = {outcome.trial for outcome in ranked[: (len(ranked) + 1) // 2]}
                candidates = [trial for trial in candidates if trial.number in selected]
        outcomes = sorted(outcomes_by_trial.values(), key=_rank)
        with replacing(out / RESULTS) as temporary:
            temporary.write_text(json.dumps([vars(o) for o in outcomes], indent=1) + "\n")
    if all(outcome.best is None for outcome in outcomes):
        raise InputError(f"{out}: every trial failed, the first because {outcomes[0].why}")
    return outcomes


def _rank(outcome: Outcome) -> tuple[Any, ...]:
    """Sort key: trials that were trained longest come first, then the better ones."""
    failed = outcome.best is None
    return failed, -outcome.epochs, outcome.best or 0.0, outcome.trial


def _check_rungs(trials: Sequence[Trial], rungs: Sequence[int]) -> None:
    """InputError where rungs do not rise, or a schedule depends on the number of epochs."""
    if sorted(set(rungs)) != list(rungs):
        raise InputError(f"--rungs {' '.join(map(str, rungs))}: name more epochs at each")
    schedules = {trial.config.train.schedule for trial in trials}
    bounded = sorted(name for name in schedules if not SCHEDULES[name].open_ended)
    if len(rungs) > 1 and bounded:
        open_ended = (name for name, schedule in SCHEDULES.items() if schedule.open_ended)
        raise InputError(
            f"--rungs adds epochs to runs, which train.schedule = {bounded[0]} does not allow; use"
            f" {' or '.join(open_ended)}"
        )


def _check_criteria(trials: Sequence[Trial]) -> None:
    """InputError where the dev measures of trials cannot be compared."""
    criteria = sorted({trial.config.train.criterion for trial in trials})
    measures = {task_of(trial.config).measure for trial in trials}
    if len(criteria) > 1 and measures != {FRAMES}:
        raise InputError(
            f"train.criterion is {' and '.join(criteria)}, whose losses tell nothing of each other;"
            " search with one, and compare the error rates of several by bayes-asr compare"
        )


def _check_same(out: Path, about: dict[str, Any]) -> None:
    """Record the search where none was recorded; InputError where it was another one."""
    path = out / RECORD
    # Values are compared as JSON has them: a tuple is a list there.
    text = json.dumps(about, indent=1) + "\n"
    if is_there(path):
        recorded = check(read_json(path), str(path), "an object")
        for key in about:
            if recorded.get(key) != json.loads(text)[key]:
                raise InputError(
                    f"{path}: this search was begun with another {key}; search into another folder"
                )
        return
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def _train_rung(
    trials: Sequence[Trial], epochs: int, plan: SearchPlan, run_jobs: Mapper
) -> Iterator[Outcome]:
    """Train trials for so many epochs, in order, until one reaches `plan.stop_at`.

    Trials that run beside it are trained to the end, but those after it do not count. So the
    outcome does not depend on which of them ends first.
    """
    # With a value to stop at, no more trials are begun at a time than can run.
    at_once = len(trials) if plan.stop_at is None else plan.nj
    for begin in range(0, len(trials), max(1, at_once)):
        batch = trials[begin : begin + at_once]
        jobs = ((trial.run.name, (trial, epochs, plan)) for trial in batch)
        for outcome in run_jobs(_train_trial, jobs):
            yield outcome
            if plan.stop_at is None or outcome.best is None:
                continue
            if outcome.best <= plan.stop_at:
                return


def _train_trial(name: str, job: tuple[Trial, int, SearchPlan]) -> Outcome:
    """Train a trial for so many epochs, unless that is done."""
    trial, epochs, plan = job
    failure = None
    # The run is resumed with more epochs, which its schedule allows (`_check_rungs`).
    if len(read_history(trial.run)) < epochs:
        config = replace(trial.config, train=replace(trial.config.train, epochs=epochs))
        try:
            with log.also_in(trial.run / "train.log"):
                plan.train(config, trial.run)
        except InputError as error:
            failure = complaint(error)
        except StoppedError as stopped:
            if plan.nj > 1:
                os._exit(128 + stopped.number)  # else the next trial would be begun
            raise
    measure = task_of(trial.config).measure
    # A search that is repeated finds runs of later rungs, which may be longer.
    history = read_history(trial.run)[:epochs]
    best = {} if failure else min(history, key=lambda entry: entry[measure.on_dev])
    return Outcome(
        trial.number,
        str(trial.run),
        trial.settings,
        epochs,
        measure.name,
        best.get(measure.on_dev),
        best.get("epoch"),
        best.get("dev_error"),
        failure,
    )

"""Status of the runs below a folder."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from bayes_asr.base.errors import InputError, complaint, count_of, name_some
from bayes_asr.base.files import is_there
from bayes_asr.base.lock import MARK, is_held
from bayes_asr.base.log import LOGGER
from bayes_asr.base.walk import find_below
from bayes_asr.kaldi_io.side_files import BEST, CONFIG, HISTORY, KINDS, read_history, take
from bayes_asr.tasks.task import task_of
from bayes_asr.train.runs import state
from bayes_asr.train.runs.configuration import read_configuration

State = Literal["running", "finished", "stopped", "failed", "killed"]
RECENT = 3  # epochs whose mean duration is that of those to come


@dataclass(frozen=True)
class RunStatus:
    """Status of one run; values that are not known are None.

    epoch: complete ones, of `epochs`; judged_by: the dev measure that chooses the best of them;
    best: its lowest value; dev_error: the lowest share of errors, if any are counted;
    seconds_left: of training, while it runs; why: of a run that was stopped or failed.
    """

    run: str
    state: State
    epoch: int
    epochs: int | None
    judged_by: str | None
    best: float | None
    dev_error: float | None
    frames_per_second: float | None
    seconds_left: float | None
    why: str | None

    @property
    def has_epochs(self) -> bool:
        """Whether it was trained, or will be, and not made of another network."""
        return self.epoch > 0 or self.state != "finished"


def list_runs(directory: Path) -> list[RunStatus]:
    """Status of every run at or below a folder, by path; InputError where there is none."""
    if not directory.is_dir():
        raise InputError(f"{directory}: there is no such folder")
    runs = _find_runs(directory, state.NAME, HISTORY, BEST)
    if not runs:
        raise InputError(f"{directory}: no run at or below this folder; train one into it")
    return [read_status(run) for run in runs]


def warn_of_unscored(directory: Path, *files: str) -> None:
    """Name the runs at or below a folder that have none of these score files, and their states."""
    unscored = [
        f"{run} ({_describe_state(read_status(run))})"
        for run in _find_runs(directory, state.NAME, HISTORY)  # that were trained
        if not any(is_there(run / file) for file in files)
    ]
    if unscored:
        LOGGER.warning(
            "%s without %s, left out: %s; bayes-asr forward, decode and score complete a finished"
            " run",
            *(count_of(len(unscored), "run"), " and ".join(files), name_some(unscored)),
        )


def _find_runs(directory: Path, *files: str) -> list[Path]:
    """The folders at or below a folder that have one of the files."""
    return sorted({file.parent for file in find_below(directory, *files)})


def _describe_state(status: RunStatus) -> str:
    return f"{status.state}, epoch {status.epoch} of {status.epochs or '?'}"


def read_status(run: Path) -> RunStatus:
    """Status of a run, by its record of itself and by whether a process holds its lock."""
    recorded = state.read(run)
    history, epoch, epochs, judged_by, best = [], 0, None, None, None
    reason = recorded["why"] if isinstance(recorded.get("why"), str) else None
    try:
        history = read_history(run)
        epoch = history[-1]["epoch"] if history else 0
        if is_there(run / CONFIG):
            config = read_configuration(run)
            epochs, measure = config.train.epochs, task_of(config).measure
            judged_by = measure.name
            best = min((take(e, measure.on_dev, "a number") for e in history), default=None)
    except (InputError, OSError) as error:
        reason = complaint(error)
    errors = [entry["dev_error"] for entry in history if entry["dev_error"] is not None]
    # A network without any record was made of another, as by adapt or import-weights.
    is_trained = bool(history or recorded or reason)
    is_complete = epoch == epochs if is_trained else is_there(run / BEST)
    state_name = _infer_state(recorded.get("state"), is_complete, is_held(run / MARK))
    return RunStatus(
        run=str(run),
        state=state_name,
        epoch=epoch,
        epochs=epochs if is_trained else None,
        judged_by=judged_by,
        best=best,
        dev_error=min(errors, default=None),
        frames_per_second=history[-1]["frames_per_second"] if history else None,
        seconds_left=_seconds_left(recorded, history, epoch, epochs or 0)
        if state_name == "running"
        else None,
        why=reason,
    )


def _infer_state(recorded: Any, complete: bool, is_held: bool) -> State:
    if is_held:
        return "running"
    if recorded in ("finished", "stopped", "failed"):
        ended: State = recorded
        return ended
    return "finished" if complete else "killed"


def _seconds_left(
    position: dict[str, Any], history: Sequence[dict[str, Any]], epoch: int, epochs: int
) -> float | None:
    """Epochs to come at the pace of the last ones, or of the batches of the first so far."""
    values = [position.get(key) for key in ("batch", "batches", "seconds")]
    batch, batches, elapsed = (
        x if isinstance(x, int | float) and KINDS["a number"](x) else 0 for x in values
    )
    if position.get("epoch") != epoch + 1:
        elapsed = 0  # noted in an epoch that is over
    # Complete epochs tell the pace best; before the first one is over its batches do.
    recent = [float(entry["seconds"]) for entry in history[-RECENT:]]
    if recent:
        epoch_seconds = sum(recent) / len(recent)
    elif elapsed and batch:
        epoch_seconds = elapsed * batches / batch
    else:
        return None
    return max(0.0, (epochs - epoch) * epoch_seconds - min(elapsed, epoch_seconds))

"""The directory of a run while it is trained: its checkpoints and its history, in a safe order."""

import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bayes_asr.base.files import settle
from bayes_asr.base.lock import Lock
from bayes_asr.base.log import LOGGER
from bayes_asr.config.schema import Config
from bayes_asr.kaldi_io.side_files import BEST, CONFIG, ENVIRONMENT, HISTORY, LAST
from bayes_asr.train.runs import checkpoint, state
from bayes_asr.train.runs.history import TENSORBOARD, append_to_history, truncate_history

LATTICES = "lattices"  # folder of those that the network of the last complete epoch made
RECORDS = (  # files of a run that are discarded together: its scores are of its network
    checkpoint.UNFINISHED,
    LAST,
    checkpoint.PREVIOUS,
    BEST,
    "score_dev.json",
    "score_test.json",
    HISTORY,
    state.NAME,
    ENVIRONMENT,
    CONFIG,  # the last: checkpoints without it could not be told from those of another run
)

Content = dict[str, Any]
"""Tensors and plain values of a checkpoint."""


@dataclass
class RunDirectory:
    """A run directory; every file that it writes is complete or not there.

    lock: of the directory, in the first process; last_saved: time of the monotonic clock, in
    seconds. All methods raise LostLockError where another training may have begun there.
    """

    path: Path
    lock: Lock | None = None
    last_saved: float = field(default_factory=time.monotonic)

    def check_lock(self) -> None:
        """Raise LostLockError unless the lock is held, or another process has it for this one."""
        if self.lock:
            self.lock.check()

    def begin(self, config: Config, content: Content, *, discard: bool) -> None:
        """Write the configuration and the first checkpoint; discard: the run that is there."""
        # The checkpoint is written under another name before the old run is discarded: a disk
        # without room for it costs nothing. The rename at the end makes the run one to go on from.
        checkpoint.save(self.path / checkpoint.FIRST, content)
        if discard:
            _discard(self.path)
        config.save(self.path / CONFIG)
        (self.path / checkpoint.FIRST).replace(self.path / LAST)

    def go_on(self, config: Config, entry: Mapping[str, Any] | None) -> None:
        """Mend the files of a run that was stopped; entry: the last line of its history."""
        state.write(self.path, "running")  # also where it was finished, and gets more epochs
        config.save(self.path / CONFIG)
        truncate_history(self.path, entry)  # it may have been killed before that
        (self.path / checkpoint.FIRST).unlink(missing_ok=True)

    def save_unfinished(self, content: Content) -> None:
        """Save inside an epoch."""
        self.check_lock()
        checkpoint.save(self.path / checkpoint.UNFINISHED, content)

    def save_periodically(self, content: Callable[[], Content], minutes: float) -> None:
        """Save inside an epoch, every so many minutes; where that fails, say so and go on."""
        self.check_lock()
        if time.monotonic() - self.last_saved < 60 * minutes:
            return
        try:
            self.save_unfinished(content())
        except OSError as error:  # the checkpoint before is still there
            LOGGER.warning("%s: not saved: %s", self.path / checkpoint.UNFINISHED, error)
        self.last_saved = time.monotonic()

    def save_epoch(self, content: Content) -> None:
        """Write last.pt in place of unfinished.pt, and keep the one before."""
        self.check_lock()
        path, previous = self.path / LAST, self.path / checkpoint.PREVIOUS
        # unfinished.pt is removed last: at every moment one complete checkpoint is there.
        checkpoint.save(path, content, keep=previous)
        (self.path / checkpoint.UNFINISHED).unlink(missing_ok=True)
        self.last_saved = time.monotonic()

    def save_complete(
        self, content: Content, entry: Mapping[str, Any], best: Content | None
    ) -> None:
        """Save a complete epoch; entry: its line of the history; best: its network, if it is best.

        best.pt is written before last.pt: a run killed between them repeats the epoch and best.pt.
        The history comes last: last.pt has the line that it then lacks.
        """
        self.check_lock()
        if best is not None:
            checkpoint.save(self.path / BEST, best)
        self.save_epoch(content)
        append_to_history(self.path, entry)


def _discard(run: Path) -> None:
    """Remove the network, history and scores of a run."""
    settle(run)  # files still to be put in place would come back otherwise
    for path in (*run.glob("*.damaged"), *(run / name for name in RECORDS)):
        path.unlink(missing_ok=True)
    for folder in (TENSORBOARD, LATTICES):
        shutil.rmtree(run / folder, ignore_errors=True)

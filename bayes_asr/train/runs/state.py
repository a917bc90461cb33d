"""State of a run, for other processes to read: RUN/state.json.

Durations are of monotonic clocks, and no time of day is written, so a clock that is set changes
nothing.
"""

import json
import os
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bayes_asr.base.errors import StoppedError, complaint
from bayes_asr.base.files import is_there, read_bytes, replacing
from bayes_asr.base.lock import LostLockError
from bayes_asr.base.log import LOGGER
from bayes_asr.kaldi_io.side_files import BEST, parse_json

NAME = "state.json"
INTERVAL = 10.0  # seconds between two notes of the position


def read(run: Path) -> dict[str, Any]:
    """Read the state of a run; empty where there is none, or it cannot be read."""
    try:
        content = parse_json(read_bytes(run / NAME))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def write(run: Path, state: str, **fields: Any) -> None:
    """Record that a run is running, finished, stopped or failed.

    A full disk is no reason to stop a training because it cannot say that it runs.
    """
    content = {"state": state, **fields, "host": platform.node(), "pid": os.getpid()}
    try:
        with replacing(run / NAME) as temporary:
            temporary.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        LOGGER.warning("%s: cannot be written: %s", run / NAME, error)


@contextmanager
def recording(run: Path) -> Iterator[None]:
    """Record that the run is running, then how the block ends, and why.

    A run that is there stays what it was where going on is refused. One of adapt has a network and
    no state.
    """
    present = read(run)
    if not present and not is_there(run / BEST):
        write(run, "running")
    try:
        yield
    except StoppedError as error:
        write(run, "stopped", why=str(error))
        raise
    except LostLockError:  # the folder may be another one's
        raise
    except (Exception, KeyboardInterrupt) as error:
        if read(run) != present:
            write(run, "failed", why=complaint(error))
        raise
    write(run, "finished")


class Position:
    """Writer of the position of the training in an epoch, every few seconds."""

    def __init__(self, run: Path, epoch: int, batches: int) -> None:
        self._run, self._epoch, self._batches = run, epoch, batches
        self._written = -INTERVAL

    def __call__(self, batch: int, seconds: float) -> None:
        """Note that `batch` batches of the epoch took `seconds`."""
        if time.monotonic() - self._written >= INTERVAL:
            fields = {"epoch": self._epoch, "batch": batch, "batches": self._batches}
            write(self._run, "running", **fields, seconds=seconds)
            self._written = time.monotonic()

"""A check: the doctor's verdict on one thing."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from bayes_asr.base.errors import InputError, explain, name_some
from bayes_asr.base.log import LOGGER
from bayes_asr.kaldi_io.text import DataDir

State = Literal["ok", "absent", "warning", "error"]
HERE = Path()
LEAST_FREE = 2**30  # bytes of a disk, so that there is no warning
CHECKPOINTS = 4 * 3  # last, the one before, unfinished and best: weights and two moments


@dataclass(frozen=True)
class Check:
    """One thing that was looked at; only an error keeps a training from starting.

    absent: something that not everybody needs, and that cannot be used here.
    """

    name: str
    state: State
    message: str


@contextmanager
def collect_messages(checks: list[Check], name: str, *, blocking: bool = False) -> Iterator[None]:
    """Turn what is logged, and bad input, into checks; it is an error where it is `blocking`."""
    states: dict[str, State] = {"INFO": "ok", "WARNING": "warning"}

    class Collector(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            checks.append(Check(name, states[record.levelname], record.getMessage()))

    # Messages become checks, and none of them is printed besides.
    handlers, LOGGER.handlers = LOGGER.handlers, [Collector()]
    level = LOGGER.level
    LOGGER.setLevel(logging.INFO)
    try:
        yield
    except (InputError, OSError) as error:
        message = explain(error) if isinstance(error, OSError) else str(error)
        checks.append(Check(name, "error" if blocking else "warning", message))
    finally:
        LOGGER.handlers = handlers
        LOGGER.setLevel(level)


def format_gib(size: int) -> str:
    """Bytes in GiB."""
    return f"{size / 2**30:.3g} GiB"


def describe_lacking(data: DataDir, missing: list[str], what: str) -> str:
    """A sentence on the utterances of a set that lack something: how many, and which."""
    return f"{data.path}: {len(missing)} of {len(data.utt2spk)} lack {what}: {name_some(missing)}"

"""Standard streams that may be closed, gone, full, or of an encoding without the letters."""

import codecs
import io
import json
import os
import select
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

from bayes_asr.base.errors import naming

CLOSED = {"stdin": os.O_RDONLY, "stdout": os.O_RDONLY, "stderr": os.O_WRONLY}
"""How the null device stands in for a closed stream: results are not to vanish, messages may."""


def prepare_streams() -> None:
    """Let all that is printed be printable, and no file of ours take the number of a stream.

    What an encoding lacks is written as JSON writes it: what we print may be JSON.
    """
    for name, how in CLOSED.items():
        if getattr(sys, name) is None:
            # The least free number is the one that the stream had.
            held = os.fdopen(os.open(os.devnull, how), "r" if name == "stdin" else "w")
            setattr(sys, name, held)
    codecs.register_error("json", _escape)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            with suppress(
                OSError
            ):  # it writes what is in the buffer; who writes next meets that too
                stream.reconfigure(errors="json")


def _escape(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end


@contextmanager
def results_flushed() -> Iterator[None]:
    """Write what the block has left in the buffer of the standard output, --help included."""
    try:
        yield
    except SystemExit:
        _flush()
        raise
    _flush()


def _flush() -> None:
    with naming("standard output"):
        sys.stdout.flush()


def is_gone(stream: TextIO) -> bool:
    """Whether nobody reads what is written to a stream any more, as after `| head`."""
    try:
        number = stream.fileno()
    except (OSError, ValueError):
        return False
    poll = select.poll()
    poll.register(number, 0)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))


def say(message: str) -> None:
    """Print an error; where nothing takes it any more, the status that we end with still counts."""
    for stream, text in ((sys.stderr, f"{message}\n"), (sys.stdout, "")):
        try:
            stream.write(text)
            stream.flush()
        except OSError:
            abandon(stream)


def abandon(stream: TextIO) -> None:
    """Let what is left in the buffer go nowhere; Python would end with a status of its own."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)

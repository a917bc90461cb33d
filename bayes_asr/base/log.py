"""Messages of a command: on the screen, and in a file of the run."""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from bayes_asr.base.errors import StoppedError, complaint, printable
from bayes_asr.base.lock import open_to_append

LOGGER = logging.getLogger("bayes_asr")


class _OneLine(logging.Formatter):
    """Messages that hold names and texts of files: each stays one line, and harmless."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        record.message = printable(record.message)
        return super().formatMessage(record)


def log_to_screen(level: int = logging.INFO) -> None:
    """Print messages on standard error, which leaves standard output to results."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_OneLine("%(message)s"))
    # A second call replaces the handler, so no message comes twice.
    LOGGER.handlers[:] = [handler]
    LOGGER.setLevel(level)
    LOGGER.propagate = False


class _LogFile(logging.FileHandler):
    """A file of messages, which a full disk may cut short: that is said, once."""

    is_reported = False

    def _open(self) -> TextIO:  # type: ignore[override]  # typeshed names a class of it
        return open_to_append(Path(self.baseFilename))

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's name
        if not self.is_reported:
            self.is_reported = True
            why = sys.exc_info()[1]
            print(f"{self.baseFilename}: cannot be written: {why}", file=sys.stderr)


@contextmanager
def also_in(path: Path) -> Iterator[None]:
    """Append messages to the file `path`, with their times, and the error that ends the block."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handler = _LogFile(path, encoding="utf-8")
    handler.setFormatter(_OneLine("%(asctime)s %(levelname)s %(message)s"))
    LOGGER.addHandler(handler)
    try:
        yield
    except BaseException as error:
        mendable = (ValueError, OSError, MemoryError, StoppedError, KeyboardInterrupt)
        level = logging.INFO if isinstance(error, StoppedError) else logging.ERROR
        # A defect of ours comes with its traceback.
        where = None if isinstance(error, mendable) else sys.exc_info()
        record = LOGGER.makeRecord(LOGGER.name, level, "", 0, complaint(error), (), where)
        handler.handle(record)
        raise
    finally:
        LOGGER.removeHandler(handler)
        with suppress(OSError):
            handler.close()

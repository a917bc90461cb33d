"""One process at a time in a folder."""

import errno
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from bayes_asr.errors import InputError

MARK = ".in_use"
TRIES = 5


@contextmanager
def in_use(path: Path) -> Iterator[None]:
    """Keep other processes from a second `in_use` of the file `path`, which is made if need be.

    Raises InputError where one has it already. The lock ends with the process, however it ends.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        try:
            _lock(file)
        except BlockingIOError:
            raise _busy(path) from None
        except OSError as error:
            _allow_no_locks(error)
        if not os.fstat(file.fileno()).st_nlink:  # its last user has removed it this instant
            raise _busy(path)
        yield


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Keep other processes from a second `alone_in` of a folder, by a file there until the end."""
    mark = folder / MARK
    try:
        with in_use(mark):
            try:
                yield
            finally:
                mark.unlink()
    except OSError as error:
        if error.filename == str(mark):
            error.filename = str(folder)
        raise


@contextmanager
def in_turn(path: Path) -> Iterator[None]:
    """Wait until no other process is in `in_turn` of the file `path`, which is made if need be."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError as error:
            _allow_no_locks(error)
        yield


def _allow_no_locks(error: OSError) -> None:
    """Go on where a network file system has no locks."""
    if error.errno not in (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP):
        raise error


def _busy(path: Path) -> InputError:
    return InputError(
        f"{path.parent}: another process is at work in this folder; wait until it ends, or choose"
        " another folder"
    )


def _lock(file: TextIO) -> None:
    """Take the lock, though `held` may have it for an instant."""
    for _ in range(TRIES - 1):
        try:
            return fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(0.1)
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def is_held(path: Path) -> bool:
    """Say whether a process is in `in_use` of the file `path`."""
    try:
        with path.open(encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # no such file, or a file system without locks
        return False
    return False

"""One process at a time in a folder."""

import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from bayes_asr.base.errors import InputError

MARK = ".in_use"
TRIES = 5


class LostLockError(InputError):
    """The file of a lock is not there any more, so another process may be at work."""


@dataclass
class Lock:
    """A lock that this process has: the open file, and its name."""

    path: Path
    file: TextIO

    def check(self) -> None:
        """Raise LostLockError where another file, or none, has the name now.

        Somebody has removed the file or its folder, and another process may have made a new one.
        """
        if not self.holds():
            raise LostLockError(
                f"{self.path}: was removed, or its folder was, while a process was at work there;"
                " nothing more is written, so that no two write into one folder; see that no other"
                " process does, and give the same command again"
            )

    def holds(self) -> bool:
        """Say whether the name still leads to the file."""
        try:
            return os.path.samestat(os.stat(self.path), os.fstat(self.file.fileno()))
        except OSError:  # not there; or, on a network file system, removed elsewhere
            return False


def open_to_append(path: Path) -> TextIO:
    """Open a file to add to, which is made if need be; InputError for a link, a pipe, a device.

    A folder from somebody else may hold one in the place of a lock or a log: what is written must
    not go where it leads.
    """
    # Without O_NONBLOCK a pipe would wait for a reader.
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        file = os.fdopen(os.open(path, flags, 0o666), "a", encoding="utf-8")
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENXIO):
            raise
        raise _strange(path) from None
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise _strange(path)
    return file


def _strange(path: Path) -> InputError:
    return InputError(f"{path}: is a link, a pipe or a device; remove it, and a file is made there")


@contextmanager
def in_use(path: Path) -> Iterator[Lock]:
    """Keep other processes from a second `in_use` of the file `path`, which is made if need be.

    Raises InputError where one has it already. The lock ends with the process, however it ends.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with open_to_append(path) as file:
        try:
            _lock(file)
        except BlockingIOError:
            raise _busy(path) from None
        except OSError as error:
            _allow_no_locks(error)
        lock = Lock(path, file)
        # A lock on a removed file would keep nobody out.
        if not lock.holds():  # its last user has removed it this instant
            raise _busy(path)
        yield lock


@contextmanager
def alone_in(directory: Path) -> Iterator[Lock]:
    """Keep other processes from a second `alone_in` of a folder, by a file there until the end."""
    mark = directory / MARK
    try:
        with in_use(mark) as lock:
            try:
                yield lock
            finally:
                # The name may lead to the file of another process by now, which must stay.
                if lock.holds():
                    mark.unlink()
    except OSError as error:
        if error.filename == str(mark):
            error.filename = str(directory)
        raise


@contextmanager
def in_turn(path: Path) -> Iterator[None]:
    """Wait until no other process is in `in_turn` of the file `path`, which is made if need be."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open_to_append(path) as file:
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
    """Take the lock, though `is_held` may have it for an instant."""
    # The last try, after the loop, lets the error pass.
    for _ in range(TRIES - 1):
        try:
            return fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(0.1)
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def is_held(path: Path) -> bool:
    """Say whether a process is in `in_use` of the file `path`."""
    try:
        # A pipe would wait for a writer.
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:  # no such file
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # a file system without locks
        return False
    finally:
        os.close(file)
    return False

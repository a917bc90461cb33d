"""One process at a time in a run directory."""

import errno
import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bayes_asr.errors import InputError


@contextmanager
def in_use(path: Path) -> Iterator[None]:
    """Keep other processes from a second `in_use` of the file `path`, which is made if need be.

    Raises InputError where one has it already. The lock ends with the process, however it ends.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(
                f"{path.parent}: another process is at work in this folder; wait until it ends, or"
                " choose another folder"
            ) from None
        except OSError as error:  # some network file systems have no locks
            if error.errno not in (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP):
                raise
        yield

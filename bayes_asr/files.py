"""Files that appear under their name only when they are complete, and small ones to read."""

import gzip
import os
import platform
import re
import select
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from bayes_asr.errors import InputError

LONGEST_TEXT = 1 << 20
HOST = platform.node() or "localhost"
WAIT = 30.0  # seconds for a named pipe to be written to


def read_text(path: Path, longest: int = LONGEST_TEXT) -> str:
    """Read a UTF-8 text that a person wrote: not endless, nor longer than `longest` bytes."""
    with open_to_read(str(path)) as file:
        raw = file.read(longest + 1)
    if len(raw) > longest:
        raise InputError(f"{path}: has more than {longest} bytes, which nobody wrote")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 at byte {error.start}; save it as UTF-8") from None


def open_to_read(name: str) -> BinaryIO:
    """Open a file; InputError for a named pipe that nobody writes to.

    A pipe without a name, as of a process substitution, has its writer, who may take any time.
    """
    is_named = os.path.exists(os.path.realpath(name))  # /dev/fd/N leads to "pipe:[7]"
    if not (is_named and stat.S_ISFIFO(os.stat(name).st_mode)):
        return open(name, "rb")
    pipe = os.open(name, os.O_RDONLY | os.O_NONBLOCK)
    waiting = select.poll()
    waiting.register(pipe, select.POLLIN)
    if not waiting.poll(1000 * WAIT):
        os.close(pipe)
        raise InputError(f"{name}: nobody wrote to this pipe within {WAIT:g} s; give a file")
    os.set_blocking(pipe, True)
    return open(pipe, "rb")


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary name beside `path`; on success sync it to disk and rename it to `path`.

    A failure inside the block removes the temporary file and leaves whatever stood at `path`.
    The suffix of `path` is kept, because some writers choose the format by it. What killed
    processes left unfinished is removed.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    _remove_leftovers(path)
    temporary = path.with_name(f".{path.stem}.{HOST}.{os.getpid()}.partial{path.suffix}")
    try:
        yield temporary
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        if error.filename == str(temporary):
            error.filename, error.filename2 = str(path), None
        name_file(error, path)
        raise
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def writing(path: Path) -> Iterator[BinaryIO]:
    """Yield a file that replaces `path` on success, gzipped if that is named .gz."""
    with replacing(path) as temporary:
        if path.suffix == ".gz":
            # No time and no name in its header: the same content gives the same bytes.
            with temporary.open("wb") as file, gzip.GzipFile("", "wb", 9, file, 0) as packed:
                yield cast(BinaryIO, packed)
        else:
            with temporary.open("wb") as plain:
                yield plain


def _remove_leftovers(path: Path) -> None:
    """Remove what processes of this machine that are no more left of `path`."""
    stem, suffix = re.escape(f".{path.stem}.{HOST}."), re.escape(f".partial{path.suffix}")
    ours = re.compile(rf"{stem}(\d{{1,9}}){suffix}")
    for other in path.parent.iterdir():
        if (match := ours.fullmatch(other.name)) and not _is_running(int(match[1])):
            other.unlink(missing_ok=True)


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # it is somebody else's
        pass
    return True


def name_file(error: OSError, path: Path) -> None:
    """Say which file the error is about, which a full disk does not."""
    if error.filename is None:
        error.filename = str(path)

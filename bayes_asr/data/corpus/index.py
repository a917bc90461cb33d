"""An index of results that take a reading of all inputs; the next training starts at once.

A file of the index says what it was made from, and is made again where that has changed.
"""

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import TypeVar

import numpy as np

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import open_to_read, replacing
from bayes_asr.base.lock import in_turn
from bayes_asr.base.log import LOGGER

Arrays = dict[str, np.ndarray]
Found = TypeVar("Found")
FORMAT = "2"  # another one makes every index anew
WORTH_SAYING = 5.0  # seconds
SAMPLE = 2**16  # bytes of a file that are looked at in each of three places
CHUNK = 2**20  # bytes that are read at a time
SUM = 64  # bytes of the check sum at the end of a file


class NotKeptError(Exception):
    """Why an index cannot be written."""


def open_index(run: Path, name: str) -> "Index":
    """The index of a training: the folder `name` beside the run, or `index` in it.

    A name that leads elsewhere is announced: there, too, is written.
    """
    folder = Path(os.path.normpath(run.absolute().parent / name))
    if not folder.is_relative_to(run.absolute().parent):
        LOGGER.info("data.index: what is found by reading the inputs is written to %s", folder)
    return Index(folder, run / "index")


class Index:
    """Folders of what was found: read where it is there, written to the first that allows it."""

    def __init__(self, *folders: Path) -> None:
        self._folders = folders

    def of(
        self,
        name: str,
        made_from: Mapping[str, str],
        make: Callable[[Path], Arrays],
        use: Callable[[Path, Arrays], Found],
    ) -> Found:
        """The entry `name`: computed by `make` where it is not there, and read by `use`.

        made_from: the state of all that it depends on, by file. Both functions are told the folder,
        for what `make` leaves there besides. Of processes that want the same, one makes it.
        NotKeptError where it cannot be written.
        """
        for folder in self._folders:
            value, _ = _load(folder / f"{name}.npz", made_from, use)
            if value is not None:
                return value
        # The last folder is tried even so: the error then says why nothing can be written.
        folder = next(filter(_may_be_written, self._folders), self._folders[-1])
        path = folder / f"{name}.npz"
        with ExitStack() as stack:
            with keeping():
                stack.enter_context(in_turn(path.with_suffix(".lock")))
            # The wait for the lock may have been for the process that makes just this file.
            value, why = _load(path, made_from, use)  # made by another process meanwhile
            if value is None:
                if why:
                    LOGGER.info("%s: %s: reading again all that it is made from", path, why)
                start = time.perf_counter()
                arrays = make(folder)
                with keeping():
                    about = json.dumps({"format": FORMAT, **made_from})
                    _write(path, {"made_from": np.array(about), **arrays})
                took = time.perf_counter() - start
                if took > WORTH_SAYING:
                    LOGGER.info("%s: made in %.1f s", path, took)
                value = use(folder, arrays)
        return value


@contextmanager
def keeping() -> Iterator[None]:
    """Tell an error of writing an index from one of reading what it is made from."""
    try:
        yield
    except OSError as error:
        raise NotKeptError(str(error)) from error


def _load(
    path: Path, made_from: Mapping[str, str], use: Callable[[Path, Arrays], Found]
) -> tuple[Found | None, str]:
    """The value in a file of the index; or None, and why not, empty if it was never made."""
    if not path.is_file():
        return None, ""
    try:
        arrays = _read(path)
        recorded = json.loads(str(arrays.pop("made_from")))
        now = {"format": FORMAT, **made_from}
        # Keys of both sides are compared, as a file that is new or gone is a change too.
        changed = sorted(key for key in recorded.keys() | now if recorded.get(key) != now.get(key))
        if changed:
            return None, f"{changed[0]} has changed"
        return use(path.parent, arrays), ""
    except (InputError, OSError) as error:
        return None, f"damaged ({error})"


def _write(path: Path, arrays: Arrays) -> None:
    """Write arrays, and a check sum at the end, where readers of zip files pass over it."""
    with replacing(path) as temporary:
        np.savez(temporary, **arrays)  # type: ignore[arg-type]
        with temporary.open("rb+") as file:
            file.write(hashlib.file_digest(file, "blake2b").digest())


def _read(path: Path) -> Arrays:
    """Read arrays; InputError unless every byte is as it was written.

    So nothing that is damaged gets to NumPy's and the zip file's readers, which fail in many ways.
    """
    with open_to_read(str(path)) as raw:
        # The check sum itself is no part of what is summed.
        remaining = os.fstat(raw.fileno()).st_size - SUM
        total = hashlib.blake2b()
        while part := raw.read(min(max(remaining, 0), CHUNK)):
            total.update(part)
            remaining -= len(part)
        if raw.read() != total.digest():
            raise InputError("its check sum is another")
        # NumPy finds the directory of the zip from the end, and passes over what follows it.
        raw.seek(0)
        with np.load(raw) as file:
            return {name: file[name] for name in file.files}


def name_of(*what: Path | str) -> str:
    """A short name for what an index is of."""
    texts = tuple(str(part.absolute() if isinstance(part, Path) else part) for part in what)
    return content_hash([repr(texts).encode()])[:12]


def state_of(path: Path) -> str:
    """Size and times of a file, and a hash of its `sample_file` bytes: what tells that it changed.

    The time of its last change of any kind is among them, which nobody can set back.
    """
    status = os.stat(path)
    times = f"{status.st_mtime_ns} {status.st_ctime_ns}"
    return f"{status.st_size} {times} {content_hash(sample_file(path))}"


def sample_file(path: Path) -> Iterator[bytes]:
    """The size of a file, and 64 KiB at its beginning, middle and end."""
    with open_to_read(str(path)) as file:
        size = os.fstat(file.fileno()).st_size
        yield str(size).encode()
        for place in (0, size // 2, size - SAMPLE):
            file.seek(max(0, place))
            yield file.read(SAMPLE)


def content_hash(parts: Iterable[bytes]) -> str:
    """A hash of bytes."""
    total = hashlib.blake2b(digest_size=16)
    for part in parts:
        total.update(part)
    return total.hexdigest()


def hash_choice(utterances: Iterable[str]) -> str:
    """A hash of the names of a set's utterances, which are those that all its tables have."""
    return content_hash(["\n".join(utterances).encode()])


def _may_be_written(directory: Path) -> bool:
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=directory):
            return True
    except OSError:
        return False

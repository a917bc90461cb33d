"""Results of many items, kept as they come, so that work that was ended anywhere goes on.

A file holds a line that says what the results depend on, then a pickle of each result behind its
length and checksum. What a kill or a full disk has torn at its end is computed again.
"""

import io
import os
import pickle
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Any, TypeVar

from bayes_asr.base import safe_pickle
from bayes_asr.base.errors import name_file
from bayes_asr.base.lock import open_to_append
from bayes_asr.base.log import LOGGER

NAME = ".kept"  # in the folder of the results; who has written them all discards it
HEAD = struct.Struct("<QI")  # of a pickle: its bytes, and their checksum
SEED = 1  # of checksums, so that zeros are no result

Input = TypeVar("Input")
Output = TypeVar("Output")


@dataclass(frozen=True)
class KeptResults:
    """The results so far of items, in their order, in a folder.

    inputs: a hash of all that the results depend on; those of others are thrown away.
    """

    directory: Path
    inputs: str

    def go_on(
        self, compute: Callable[[Iterator[Input]], Iterator[Output]], items: Iterable[Input]
    ) -> Iterator[Output]:
        """Yield compute(items), in order: what is kept, then what is left. Results must pickle."""
        path, items = self.directory / NAME, iter(items)
        open_to_append(path).close()  # which refuses a link from somebody else
        with path.open("a+b", 0) as file:
            self._begin(file)
            kept = 0
            for result, _ in zip(_read(file), items, strict=False):
                kept += 1
                yield result
            if kept:
                LOGGER.info("%s: an ended call has left %d results", self.directory, kept)
            for result in compute(items):
                _append(file, pickle.dumps(result))
                yield result

    def _begin(self, file: FileIO) -> None:
        """Go behind the first line, which is written where another one stands."""
        line = f"{self.inputs}\n".encode()
        file.seek(0)
        if file.read(len(line)) != line:
            file.truncate(0)
            _write(file, line)


def _read(file: FileIO) -> Iterator[Any]:
    """Yield the results that follow, and cut off what is torn at the end."""
    size = os.fstat(file.fileno()).st_size
    while (place := file.tell()) + HEAD.size <= size:
        length, checksum = HEAD.unpack(file.read(HEAD.size))
        if place + HEAD.size + length > size:
            break
        data = file.read(length)
        if zlib.crc32(data, SEED) != checksum:
            break
        yield safe_pickle.load(io.BytesIO(data))
    file.truncate(place)


def _append(file: FileIO, data: bytes) -> None:
    _write(file, HEAD.pack(len(data), zlib.crc32(data, SEED)) + data)


def _write(file: FileIO, data: bytes) -> None:
    left = memoryview(data)
    try:
        while left:  # a disk that becomes full takes some of it
            left = left[file.write(left) :]
    except OSError as error:
        name_file(error, file.name)
        raise

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
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

from bayes_asr.base import safe_pickle
from bayes_asr.base.errors import count_of, naming
from bayes_asr.base.lock import open_to_append
from bayes_asr.base.log import LOGGER

KEPT = ".kept"  # in the folder of the results; who has written them all discards it
HEAD = struct.Struct("<QI")  # of a pickle: its bytes, and their checksum

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
        self,
        compute: Callable[[Iterator[Input]], Iterator[Output]],
        items: Iterable[Input],
        lasts: Callable[[Output], bool] = lambda _: True,
    ) -> Iterator[Output]:
        """Yield compute(items), in order: what is kept, then what is left.

        Results are what `safe_pickle` loads. From the first one on that does not last, since it
        would be another one at another time, none is kept.
        """
        path, items = self.directory / KEPT, iter(items)
        open_to_append(path).close()  # which refuses a link from somebody else
        kept, keeps = 0, True
        try:
            with path.open("a+b", 0) as file:
                self._begin(file)
                for result, _ in zip(_read(file), items, strict=False):
                    kept += 1
                    yield result
                if kept:
                    left = count_of(kept, "result")
                    LOGGER.info("%s: goes on behind %s of an ended call", self.directory, left)
                for result in compute(items):
                    if keeps := keeps and lasts(result):
                        data = pickle.dumps(result)
                        _write(file, HEAD.pack(len(data), _checksum(data, kept)) + data)
                        kept += 1
                    yield result
        finally:
            if not kept:
                path.unlink(missing_ok=True)

    def _begin(self, file: FileIO) -> None:
        """Go behind the first line, which is written where another one stands."""
        line = f"{self.inputs}\n".encode()
        file.seek(0)
        if file.read(len(line)) != line:
            file.truncate(0)
            _write(file, line)


def _read(file: FileIO) -> Iterator[Any]:
    """Yield the results that follow, and cut off what cannot be read."""
    for number in count():
        place = file.tell()
        try:
            result = safe_pickle.load(io.BytesIO(_read_data(file, number)))
        except safe_pickle.DAMAGE:
            file.truncate(place)
            return
        yield result


def _read_data(file: FileIO, number: int) -> bytes:
    """The pickle that follows, of the result of this number; EOFError where it is not whole."""
    with naming(file.name):
        head = file.read(HEAD.size)
        length, checksum = HEAD.unpack(head) if len(head) == HEAD.size else (0, 0)
        if not 0 < length <= os.fstat(file.fileno()).st_size - file.tell():
            raise EOFError
        data = file.read(length)
    if _checksum(data, number) != checksum:
        raise EOFError
    return data


def _checksum(data: bytes, number: int) -> int:
    """The checksum of a result, which is another one at another place."""
    return zlib.crc32(data, number)


def _write(file: FileIO, data: bytes) -> None:
    left = memoryview(data)
    with naming(file.name):
        while left:  # a disk that becomes full takes some of it
            left = left[file.write(left) :]

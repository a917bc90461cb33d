"""An archive of integer vectors on disk, of which each can be read at once."""

import os
import weakref
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bayes_asr.base.errors import InputError
from bayes_asr.kaldi_io.integers import SIZED_INT, write_int_vectors
from bayes_asr.kaldi_io.sorted_table import SortedTable, encode

HEADER = len(" \0B\4") + 4  # bytes between a name and its vector: the last are how long it is


@dataclass(frozen=True)
class VectorIndex:
    """Index of the vectors of an archive, by their names in byte order.

    names: UTF-8; offsets: bytes before each; lengths; sums: check sums; all [N].
    """

    names: np.ndarray
    offsets: np.ndarray
    lengths: np.ndarray
    sums: np.ndarray

    @property
    def end(self) -> int:
        """The size of the archive in bytes."""
        return int((self.offsets + SIZED_INT.itemsize * self.lengths).max(initial=0))


def write_vectors(items: Iterable[tuple[str, np.ndarray]], ark: Path) -> VectorIndex:
    """Write integer vectors [T] as a binary archive, which Kaldi can read; return their index."""
    names: list[str] = []
    entries: list[tuple[int, int]] = []

    def collect() -> Iterator[tuple[str, np.ndarray]]:
        for name, vector in items:
            yield name, vector
            names.append(name)
            entries.append((len(vector), _checksum(vector)))

    write_int_vectors(collect(), ark)
    raw = encode(names)
    lengths, sums = np.array(entries, np.int64).reshape(-1, 2).T
    # The archive is names, headers and vectors without gaps, so that offsets follow from lengths.
    sizes = SIZED_INT.itemsize * lengths
    offsets = np.cumsum(np.char.str_len(raw) + HEADER + sizes) - sizes
    order = np.argsort(raw, kind="stable")
    return VectorIndex(*(column[order] for column in (raw, offsets, lengths, sums)))


class StoredVectors(Mapping[str, np.ndarray]):
    """Integer vectors of a binary archive, int32 [T], each read when it is asked for.

    An archive that is replaced meanwhile is read in its old state. `lengths`: of each vector.
    """

    def __init__(self, ark: Path, index: VectorIndex) -> None:
        """Open the archive; InputError where it is not as long as the places say."""
        self._ark, self._places = ark, index
        self.lengths = SortedTable(index.names, index.lengths)
        # An open descriptor reads the old file on, even where another one takes its name.
        self._file = os.open(ark, os.O_RDONLY)
        weakref.finalize(self, os.close, self._file)
        if (size := os.fstat(self._file).st_size) != index.end:
            raise InputError(f"{ark}: has {size} bytes, not {index.end}")

    def __getitem__(self, name: str) -> np.ndarray:
        number = self.lengths.place(name)
        size = SIZED_INT.itemsize * int(self._places.lengths[number])
        raw = os.pread(self._file, size, int(self._places.offsets[number]))
        if len(raw) == size:
            vector = np.frombuffer(raw, SIZED_INT)["value"].astype(np.int32)
            if _checksum(vector) == self._places.sums[number]:
                return vector
        raise InputError(
            f"{self._ark}: {name} is not what was written; remove this file, and the same command"
            " makes it again"
        )

    def __iter__(self) -> Iterator[str]:
        return iter(self.lengths)

    def __len__(self) -> int:
        return len(self.lengths)


def _checksum(vector: np.ndarray) -> int:
    return zlib.crc32(np.asarray(vector, "<i4").tobytes())

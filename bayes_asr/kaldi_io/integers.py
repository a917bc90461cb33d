"""Vectors of integers in Kaldi's archives, such as alignments."""

import struct
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import writing
from bayes_asr.kaldi_io.byte_reader import DAMAGED, ByteReader, check_name

MOST_INTEGERS = 100_000_000  # of an utterance: eleven days of frames
SIZED_INT = np.dtype([("width", "u1"), ("value", "<i4")])


def read_binary_ints(source: ByteReader, utt: str) -> np.ndarray:
    """Read the vector int32 [T] after the first byte of the binary mark."""
    head = source.take(6, utt)
    if head[:2] != b"B\4":
        raise source.fail(f"{utt} is no vector of integers at {source.position}: {DAMAGED}")
    (count,) = struct.unpack("<i", head[2:])
    what = f"{utt} ({count} integers)"
    source.expect(5 * count, what)
    if count > MOST_INTEGERS:  # of a gzipped file, whose size says little
        raise source.fail(f"{what} needs more than {MOST_INTEGERS}, the most of one: {DAMAGED}")
    # Each element is written as a basic type: a byte with its width, then the int32.
    sized = np.frombuffer(source.take(5 * count, what), SIZED_INT)
    if (sized["width"] != 4).any():
        raise source.fail(f"{utt} is no vector of int32 before {source.position}: {DAMAGED}")
    return sized["value"].astype(np.int32)


def read_text_ints(source: ByteReader, utt: str, head: bytes) -> np.ndarray:
    """Read the rest of a line of integers that begins with `head`, as int32 [T]."""
    line = head if head == b"\n" else head + source.line()
    if not line.endswith(b"\n"):
        raise source.fail(f"{utt} has a line without an end at {source.position}: {DAMAGED}")
    try:
        # int alone would pass over _ between digits
        return np.array([int(word) for word in line.replace(b"_", b"?").split()], np.int32)
    except (ValueError, OverflowError):
        raise source.fail(
            f"{utt} is no line of integers before {source.position}: {DAMAGED}"
        ) from None


def write_int_vectors(items: Iterable[tuple[str, np.ndarray]], ark: Path) -> int:
    """Write integer vectors [T], such as alignments, as a binary archive (.gz if named so)."""
    ark = Path(ark)
    written: set[str] = set()
    with writing(ark) as file:
        for utt, vector in items:
            check_name(utt, written, ark)
            values = _check_ints(vector, utt, ark)
            sized = np.empty(len(values), SIZED_INT)
            sized["width"], sized["value"] = 4, values
            file.write(f"{utt} \0B\4".encode() + struct.pack("<i", len(values)) + sized.tobytes())
    return len(written)


def _check_ints(vector: np.ndarray, utt: str, ark: Path) -> np.ndarray:
    values = np.asarray(vector)
    if values.ndim != 1 or not np.issubdtype(values.dtype, np.integer):
        raise InputError(
            f"{ark}: {utt} is {values.dtype} {list(values.shape)}, no vector; give int32 [T]"
        )
    if (values != values.astype(np.int32)).any():
        raise InputError(f"{ark}: {utt} holds {np.abs(values).max()}, more than an int32 can")
    return values

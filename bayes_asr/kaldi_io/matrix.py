"""One Kaldi matrix out of a stream: plain, compressed or text (matrix/kaldi-matrix.cc).

A vector is a matrix of one row, as text cannot tell them apart.
A header is checked against the bytes that are there before anything else is read.
"""

import struct
from dataclasses import dataclass

import numpy as np

from bayes_asr.base.errors import InputError
from bayes_asr.kaldi_io.byte_reader import DAMAGED, ByteReader, parse_real
from bayes_asr.kaldi_io.compressed import compressed_size, expand

VECTORS: dict[bytes, np.dtype] = {b"FV": np.dtype("<f4"), b"DV": np.dtype("<f8")}
SOUNDS = (b"RIFF", b"RIFX", b"RF64", b"FORM", b"caff", b".snd", b"NIST", b"fLaC", b"OggS")
PLAIN: dict[bytes, np.dtype] = {b"FM": np.dtype("<f4"), b"DM": np.dtype("<f8"), **VECTORS}


@dataclass(frozen=True)
class Header:
    """Header of a binary matrix; low, span: smallest value and range of a compressed one."""

    kind: bytes
    rows: int
    columns: int
    low: float = 0.0
    span: float = 0.0

    @property
    def size(self) -> int:
        """The size of the values in bytes."""
        if self.kind in PLAIN:
            return self.rows * self.columns * PLAIN[self.kind].itemsize
        return compressed_size(self.kind, self.rows, self.columns)


def read_header(source: ByteReader, utt: str) -> Header:
    """Read what follows the first byte of the binary mark; the file must hold the values."""
    kind = source.word()[0] if source.take(1, utt) == b"B" else b""
    if kind in PLAIN:
        # Each size is a basic type of 5 bytes: its width 4, which "x" skips, and an int32.
        sizes = source.take(5 if kind in VECTORS else 10, utt)
        shape = struct.unpack("<" + "xi" * (len(sizes) // 5), sizes)
        header = Header(kind, *(shape if len(shape) == 2 else (min(shape[0], 1), shape[0])))
        if set(sizes[0::5]) != {4}:
            raise _explain_no_matrix(source, utt, "no sizes of int32")
    elif kind in (b"CM", b"CM2", b"CM3"):
        low, span, rows, columns = struct.unpack("<ffii", source.take(16, utt))
        header = Header(kind, rows, columns, low, span)
    else:
        raise _explain_no_matrix(source, utt, f"found {kind[:20]!r}")
    rows, columns = header.rows, header.columns
    # No rows or no columns: such a shape costs no bytes, so a forged one would pass for any size.
    if rows < 0 or columns < 0 or (rows == 0) != (columns == 0):
        raise source.fail(f"{utt} has {rows} rows and {columns} columns: {DAMAGED}")
    source.expect(header.size, f"{utt} ({rows} x {columns})")
    return header


def read_binary(source: ByteReader, utt: str) -> np.ndarray:
    """Read the matrix after the first byte of the binary mark."""
    header = read_header(source, utt)
    shape = header.rows, header.columns
    raw = source.take(header.size, f"{utt} ({header.rows} x {header.columns})")
    if header.kind in PLAIN:
        values: np.ndarray = np.frombuffer(raw, PLAIN[header.kind])
        return values.reshape(shape)
    return expand(header.kind, raw, shape, header.low, header.span)


def _explain_no_matrix(source: ByteReader, utt: str, detail: str) -> InputError:
    """The error of a matrix that does not begin here, with what was found in its place.

    The archive is damaged, or its index is of another one.
    """
    return source.fail(
        f"{utt} is no matrix before offset {source.position}: {detail}; make the archive and its"
        " index again"
    )


def read_text_matrix(source: ByteReader, utt: str, head: bytes) -> np.ndarray:
    """Read `[ 1 2 \\n 3 4 ]`; own code, since kaldiio takes a leading "1" for integers."""
    line = (head + source.line()).lstrip()
    if line[:1] != b"[" or line[1:2].strip(b" \t\r\n]"):  # the bracket is a word, as for Kaldi
        raise _explain_no_matrix(source, utt, _describe_start(line, utt))
    # Rows end with their lines; the bracket may close behind the last row or in a line of its own.
    rows, line, closed = [], line[1:], b""
    while not closed:
        body, closed, remainder = line.partition(b"]")
        if body.split():
            rows.append(_parse_numbers(source, utt, body))
        line = b"" if closed else source.line()
        if not closed and not line:
            raise source.fail(f"{utt} has no ']' up to the end at {source.position}: {DAMAGED}")
    widths = sorted({len(row) for row in rows}) or [0]
    if remainder.strip() or len(widths) > 1:
        detail = f"rows of {widths[0]} to {widths[-1]} values, {remainder[:20]!r} after the ']'"
        raise _explain_no_matrix(source, utt, detail)
    return np.array(rows).reshape(len(rows), widths[0])


def _describe_start(line: bytes, utt: str) -> str:
    """The line that is no text matrix, where an index names a sound or a whole archive."""
    if line.startswith(SOUNDS):
        return (
            f"sound of the kind {line[:4].decode()}, of which `bayes-asr features` makes features"
        )
    if line.startswith(f"{utt} ".encode()):
        return "the name of the utterance; an index gives the offset of what is behind it"
    return "no '['"


def _parse_numbers(source: ByteReader, utt: str, line: bytes) -> np.ndarray:
    try:
        return np.array([parse_real(word) for word in line.decode("ascii").split()])
    except ValueError:
        raise _explain_no_matrix(source, utt, "not only numbers in the line") from None

"""Bytes, lines and Kaldi's basic types from files that may be truncated or forged."""

import codecs
import gzip
import os
import re
import stat
import struct
from collections import deque
from collections.abc import Container, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import open_to_read
from bayes_asr.kaldi_io.byte_reader import DAMAGED, ByteReader, parse_real

INTEGER = re.compile(r"-?\d{1,10}", re.ASCII)
UNSIGNED = 256 - 4  # Kaldi marks a number's width, and that it is unsigned by the sign: -4
BLANKS = " \t\n\v\f\r"
WORD = re.compile(f"[^{BLANKS}]+")
OLD_MAC = rb"\r(?=[ \t\v\f\r]*[^ \t\n\v\f\r])"  # ends a line there, and no line here
# zero, what only str takes for white space, and ends of lines that would join two lines
NOT_IN_TEXT = re.compile(rb"[\0\x1c-\x1f]|" + OLD_MAC)
DOCUMENTS = {
    b"\x1f\x8b": "is gzipped; unpack it, or name it FILE.gz",
    b"PK\3\4": "is an office document or an archive; save its text alone, as UTF-8",
    b"%PDF": "is a PDF; save its text alone, as UTF-8",
    b"{\\rtf": "is an RTF document; save its text alone, as UTF-8",
}
"""Files that are taken for text, by the bytes that they begin with."""


def open_bytes(path: Path | str) -> ByteReader:
    """Open a plain file, or a gzipped one if its name ends in .gz, as a ByteReader."""
    name = str(path)
    file = open_to_read(name)
    status = os.fstat(file.fileno())  # of this file, whatever has its name meanwhile
    if name.endswith(".gz"):
        if not status.st_size:
            file.close()
            raise InputError(f"{name}: is empty, which no gzipped file is: {DAMAGED}")
        packed = gzip.GzipFile(fileobj=file)
        packed.myfileobj = file  # type: ignore[assignment]  # which closes with it
        return ByteReader(cast(BinaryIO, packed), name, None, packed=status.st_size)
    size = status.st_size if stat.S_ISREG(status.st_mode) else None  # /dev/fd/N has none
    return ByteReader(file, name, size)


def split_words(text: str) -> list[str]:
    """Split at ASCII white space alone, as Kaldi does and as bytes do.

    `str.split` also splits at U+00A0, U+0085, U+2028, U+3000 and 0x1C, which words may hold.
    """
    return WORD.findall(text)


def iter_lines(path: Path, splits: int = -1) -> Iterator[tuple[int, list[str]]]:
    """Yield (line number, fields) of a UTF-8 text table, or .gz; blank lines are passed over.

    Fields are separated by ASCII white space, as in Kaldi, at most `splits` times; Windows line
    ends and a byte order mark are accepted. A line that is no UTF-8 text, or two that old Macs
    have ended, raise InputError.
    """
    number = 0
    with open_bytes(path) as source:
        for block in iter(source.lines, b""):
            if not number:
                refuse_documents(block, path)
            raw = block if number else block.removeprefix(codecs.BOM_UTF8)
            for fields in _split_lines(raw, splits, path, number):
                number += 1
                if fields:
                    yield number, fields


def refuse_repeated(names: Container[str], name: str, path: Path, number: int) -> None:
    """Raise InputError for the name of a line that is among those of the lines before it."""
    if name in names:
        raise InputError(f"{path}, line {number}: {name} is there a second time; keep one line")


def refuse_documents(content: bytes, path: Path) -> None:
    """Raise InputError for bytes that begin as those of a document, not of text."""
    for begin, problem in DOCUMENTS.items():
        if content.startswith(begin):
            raise InputError(f"{path}: {problem}")


def read_pairs(path: Path) -> dict[str, str] | None:
    """Read a plain file of two fields a line, quickly; None where it is anything but that.

    On None the caller reads line by line, and finds the line that is at fault.
    """
    table: dict[str, str] = {}
    count = 0
    with open_bytes(path) as source:
        if source.size is None:  # cannot be read again
            return None
        for block in iter(source.lines, b""):
            if not block.isascii() or NOT_IN_TEXT.search(block):
                return None
            lines = block.decode().removesuffix("\n").split("\n")
            count += len(lines)
            try:
                table.update(map(str.split, lines))  # type: ignore[arg-type]
            except ValueError:  # another number of fields
                return None
    return table if len(table) == count else None  # fewer entries than lines: a name is repeated


def _split_lines(raw: bytes, splits: int, path: Path, lines_before: int) -> Iterator[list[str]]:
    """The fields of each line of a block that begins after line `lines_before`."""
    raw = raw.removesuffix(b"\n")
    if raw.isascii() and not NOT_IN_TEXT.search(raw):  # then str splits as bytes do, and faster
        yield from (line.strip().split(None, splits) for line in raw.decode().split("\n"))
        return
    for number, line in enumerate(raw.split(b"\n"), lines_before + 1):
        try:
            fields = [field.decode() for field in line.strip().split(None, splits)]
        except UnicodeDecodeError:
            raise InputError(f"{path}, line {number}: not UTF-8 text; save it as UTF-8") from None
        if b"\0" in line:
            raise InputError(
                f"{path}, line {number}: holds a zero byte, so it is not text; save it as UTF-8"
            )
        if re.search(OLD_MAC, line):
            raise InputError(
                f"{path}, line {number}: holds a carriage return, the end of a line on old Macs;"
                " save it with the line ends of Unix or Windows"
            )
        yield fields


def pack_int(value: int) -> bytes:
    """An int32 as Kaldi writes a basic type: its width, then its bytes."""
    return struct.pack("<bi", 4, value)


def pack_ints(values: Sequence[int]) -> bytes:
    """A vector of int32 [N], as Kaldi's WriteIntegerVector."""
    return struct.pack(f"<bi{len(values)}i", 4, len(values), *values)


def _round_to_single(values: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):  # what is too large for float32 becomes infinite
        return values.astype(np.float32)


class KaldiReader:
    """Kaldi's tokens, numbers and vectors from a binary or text file (base/io-funcs.h)."""

    def __init__(self, source: ByteReader) -> None:
        self.source = source
        # A text file has no mark: its first two bytes belong to the first token.
        head = source.take(2, "the header")
        self.binary = head == b"\0B"
        self._words: deque[str] = deque()
        if not self.binary:
            self._words.extend(split_words(self._decode(head + source.line())))

    def fail(self, message: str) -> InputError:
        """Return the error that says `message` about this file; the caller raises it."""
        return self.source.fail(f"{message}: of another kind, or {DAMAGED}")

    def token(self) -> str:
        """Read the next token."""
        if self.binary:
            return self._decode(self.source.word()[0])
        while not self._words:
            line = self.source.line()
            if not line:
                raise self.fail(f"the file ends at {self.source.position} where a token is due")
            self._words.extend(split_words(self._decode(line)))
        return self._words.popleft()

    def expect(self, *tokens: str) -> str:
        """Read the next token, which must be one of `tokens`."""
        token = self.token()
        if token not in tokens:
            place = self.source.position
            raise self.fail(
                f"found {token[:20]!r} before offset {place}, not {' or '.join(tokens)}"
            )
        return token

    def integer(self) -> int:
        """Read an int32."""
        if not self.binary:
            return self._int32(self.token())
        return int(struct.unpack("<i", self._read_sized(4))[0])

    def count(self) -> int:
        """Read how many things follow, written as int32 or uint32."""
        raw = self._read_sized(4, UNSIGNED) if self.binary else b""
        count = int.from_bytes(raw, "little", signed=True) if raw else self.integer()
        if count < 0:
            raise self.fail(f"the count {count} before offset {self.source.position}")
        return count

    def real(self) -> float:
        """Read a float, single or double."""
        if not self.binary:
            return self._float(self.token())
        raw = self._read_sized(4, 8)
        return float(struct.unpack("<f" if len(raw) == 4 else "<d", raw)[0])

    def integers(self) -> np.ndarray:
        """Read a vector of int32 [N]."""
        if not self.binary:
            return np.array([self._int32(word) for word in self._read_brackets()], np.int32)
        # WriteIntegerVector: the size of an element, the count without a size of its own, the data.
        if self.source.take(1, "an element size") != b"\4":
            raise self.fail(f"no int32 vector before offset {self.source.position}")
        (count,) = struct.unpack("<i", self.source.take(4, "a vector size"))
        return np.frombuffer(self.source.take(4 * count, "a vector"), "<i4")

    def reals(self) -> np.ndarray:
        """Read a vector of floats, single or double, as float32 [N]."""
        if not self.binary:
            return _round_to_single(np.array([self._float(word) for word in self._read_brackets()]))
        kind = self.expect("FV", "DV")
        width, dtype = (4, "<f4") if kind == "FV" else (8, "<f8")
        raw = self.source.take(width * self.count(), "a vector")
        return _round_to_single(np.frombuffer(raw, dtype))

    def _read_sized(self, *widths: int) -> bytes:
        width = self.source.take(1, "a number")[0]  # WriteBasicType: negative where unsigned
        if width not in widths:
            place = self.source.position
            raise self.fail(f"a number of {width} bytes before offset {place}, not {widths[0]}")
        return self.source.take(4 if width == UNSIGNED else width, "a number")

    def _read_brackets(self) -> Iterator[str]:
        self.expect("[")
        while (word := self.token()) != "]":
            yield word

    def _int32(self, word: str) -> int:
        if not INTEGER.fullmatch(word) or not -(2**31) <= (value := int(word)) < 2**31:
            raise self.fail(f"{word[:20]!r} before offset {self.source.position} is no int32")
        return value

    def _float(self, word: str) -> float:
        try:
            return parse_real(word)
        except ValueError:
            place = self.source.position
            raise self.fail(f"{word[:20]!r} before offset {place} is no number") from None

    def _decode(self, raw: bytes) -> str:
        try:
            return raw.decode("ascii")
        except UnicodeDecodeError:
            place = self.source.position
            raise self.fail(f"bytes before offset {place} are no Kaldi token") from None

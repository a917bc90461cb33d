"""Bytes, lines and Kaldi's basic types from files that may be truncated or forged."""

import gzip
import os
import re
import stat
import struct
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np

from bayes_asr.base.errors import InputError, reason
from bayes_asr.base.files import open_to_read

OpenPipe = Callable[[str], BinaryIO]
READ_ERRORS = (OSError, EOFError, zlib.error)  # of the disk, and what gzip says of damage
CHUNK = 1 << 20  # one read asks for no more than this, so a forged size costs no memory
INTEGER = re.compile(r"-?\d{1,10}", re.ASCII)
UNSIGNED = 256 - 4  # Kaldi marks a number's width, and that it is unsigned by the sign: -4
LONGEST_TOKEN = 4096
LONGEST_LINE = 1 << 24
BLOCK = 1 << 16  # bytes of lines that are split together
BLANKS = " \t\n\v\f\r"
WORD = re.compile(f"[^{BLANKS}]+")
BEFORE_SPACE = re.compile(rb"\S*")
NOT_IN_TEXT = re.compile(rb"[\0\x1c-\x1f]")  # zero, and what only str takes for white space
# Tables shrink to a fifth or, where all is silence, to a hundredth: what claims more is a bomb.
MOST_EXPANSION, ALWAYS_ALLOWED = 200, 1 << 24
DAMAGED = "truncated or damaged, make it again"


class ByteReader:
    """A binary stream that knows its name and, if it is a plain file, its size in bytes.

    A gzipped file has `packed` bytes instead, and expands to no more than tables of speech do.
    """

    def __init__(
        self, file: BinaryIO, name: str, size: int | None, packed: int | None = None
    ) -> None:
        self.file = file
        self.name = name
        self.size = size
        self.packed = packed
        self.most = None if packed is None else max(ALWAYS_ALLOWED, MOST_EXPANSION * packed)
        self.position = 0

    def __enter__(self) -> "ByteReader":
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()

    def fail(self, message: str) -> InputError:
        """Return the error that says `message` about this file; the caller raises it."""
        return InputError(f"{self.name}: {message}")

    def seek(self, offset: int, what: str) -> None:
        """Go to byte `offset`, where `what` begins; it must lie inside the file."""
        if self.size is not None and offset >= self.size:
            raise self._outside(offset, self.size, what)
        try:
            self.position = self.file.seek(offset)  # succeeds beyond the end of a file, too
        except READ_ERRORS as error:
            raise self._unreadable(error) from None
        if self.position != offset:
            raise self._outside(offset, self.position, what)

    def take(self, count: int, what: str) -> bytes:
        """Read exactly `count` bytes of `what`, or raise InputError with both numbers."""
        self.expect(count, what)
        start, parts = self.position, []
        while missing := start + count - self.position:
            part = self.read_some(min(missing, CHUNK))
            if not part:
                raise self._too_short(count, start, self.position, what)
            parts.append(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def expect(self, count: int, what: str) -> None:
        """Raise InputError if the file cannot have another `count` bytes."""
        start = self.position
        if count < 0:
            raise self.fail(f"{what} has the size {count} at offset {start}: {DAMAGED}")
        if self.size is not None and count > self.size - start:
            raise self._too_short(count, start, self.size, what)
        if self.most is not None and count > self.most - start:
            raise self.fail(
                f"{what} needs {count} bytes at offset {start}, which {self.packed} compressed"
                f" bytes do not hold: {DAMAGED}"
            )

    def read_remaining(self) -> bytes:
        """Read the remaining bytes."""
        return b"".join(iter(lambda: self.read_some(CHUNK), b""))

    def read_some(self, count: int) -> bytes:
        """Read up to `count` bytes; none at the end of the data."""
        try:
            part = self.file.read(count)
        except READ_ERRORS as error:
            raise self._unreadable(error) from None
        self._advance(len(part))
        return part

    def line(self, begun: int = 0) -> bytes:
        """Read to the end of the line, its newline included; empty at the end of the data.

        begun: how many bytes of the line were read before.
        """
        most = LONGEST_LINE - begun
        try:
            line = self.file.readline(most)
        except READ_ERRORS as error:
            raise self._unreadable(error) from None
        self._advance(len(line))
        if len(line) == most:
            raise self.fail(f"a line before offset {self.position} has over {LONGEST_LINE} bytes")
        return line

    def lines(self) -> bytes:
        """Read some whole lines; empty at the end of the data."""
        block = self.read_some(BLOCK)
        begun = len(block) - block.rfind(b"\n") - 1  # bytes of the line that goes on
        return block + self.line(begun) if begun else block

    def word(self) -> tuple[bytes, bytes]:
        """Skip white space and read a word; return it and the white space byte after it.

        Both are empty at the end of the data.
        """
        while (letter := self.read_some(1)).isspace():
            pass
        letters = bytearray()
        while letter and not letter.isspace():
            letters += letter + self._rest_of_word()
            if len(letters) > LONGEST_TOKEN:
                raise self.fail(f"no word ends within {LONGEST_TOKEN} bytes before {self.position}")
            letter = self.read_some(1)
        return bytes(letters), letter

    def _rest_of_word(self) -> bytes:
        """Read on to the next white space, as far as the buffer goes; not at all without one."""
        peek = getattr(self.file, "peek", None)
        try:
            ahead = peek(1) if peek else b""
        except READ_ERRORS as error:
            raise self._unreadable(error) from None
        match = BEFORE_SPACE.match(ahead)
        return self.read_some(len(match[0])) if match and match[0] else b""

    def utterances(self) -> Iterator[tuple[str, bytes]]:
        """Yield each utterance name of an archive and the byte after it.

        What follows is for the caller to read, up to the next name, before the next step.
        """
        names = set()
        while True:
            start = self.position
            raw, separator = self.word()
            if not raw:
                return
            try:
                utt = raw.decode()
            except UnicodeDecodeError:
                raise self.fail(f"no utterance name at offset {start}: not an archive") from None
            if utt in names:
                raise self.fail(f"{utt} is there a second time, at offset {start}")
            names.add(utt)
            yield utt, separator

    def _advance(self, count: int) -> None:
        self.position += count
        if self.most is not None and self.position > self.most:
            raise self.fail(
                f"{self.packed} compressed bytes expand to more than {self.most}: no table does;"
                " unpack it yourself if you trust it"
            )

    def _outside(self, offset: int, size: int, what: str) -> InputError:
        return self.fail(
            f"{what} is at offset {offset}, the file has {size} bytes: make the archive and its"
            " index again"
        )

    def _too_short(self, count: int, start: int, size: int, what: str) -> InputError:
        return self.fail(
            f"{what} needs {count} bytes at offset {start}, the file has {size}: {DAMAGED}"
        )

    def _unreadable(self, error: Exception) -> InputError:
        detail = reason(error) if isinstance(error, OSError) else str(error)
        return self.fail(f"cannot be read after {self.position} bytes: {detail}; {DAMAGED}")


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


def check_name(utt: str, names: set[str], ark: Path) -> None:
    """Refuse a name that no archive holds, or that is among those `names`; add it to them."""
    if utt.encode().split() != [utt.encode()]:
        raise InputError(f"{ark}: an utterance name must be one word, not {utt!r}")
    if utt in names:
        raise InputError(f"{ark}: {utt} is there a second time")
    names.add(utt)


def split_words(text: str) -> list[str]:
    """Split at ASCII white space alone, as Kaldi does and as bytes do.

    `str.split` also splits at U+00A0, U+0085, U+2028, U+3000 and 0x1C, which words may hold.
    """
    return WORD.findall(text)


def iter_lines(path: Path, splits: int = -1) -> Iterator[tuple[int, list[str]]]:
    """Yield (line number, fields) of a UTF-8 text table, or .gz; blank lines are passed over.

    Fields are separated by ASCII white space, as in Kaldi, at most `splits` times; Windows line
    ends and a byte order mark are accepted. A line that is no UTF-8 text raises InputError.
    """
    number = 0
    with open_bytes(path) as source:
        for block in iter(source.lines, b""):
            raw = block if number else block.removeprefix(b"\xef\xbb\xbf")  # a byte order mark
            for fields in _split_lines(raw, splits, path, number):
                number += 1
                if fields:
                    yield number, fields


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
        yield fields


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
            return float(word)
        except ValueError:
            place = self.source.position
            raise self.fail(f"{word[:20]!r} before offset {place} is no number") from None

    def _decode(self, raw: bytes) -> str:
        try:
            return raw.decode("ascii")
        except UnicodeDecodeError:
            place = self.source.position
            raise self.fail(f"bytes before offset {place} are no Kaldi token") from None

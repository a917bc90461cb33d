"""A file read byte by byte that may be truncated or forged: each reading is checked."""

import codecs
import re
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from bayes_asr.base.errors import InputError, name_file

OpenPipe = Callable[[str], BinaryIO]
READ_ERRORS = (OSError, EOFError, zlib.error)  # of the disk, and what gzip says of damage
CHUNK = 1 << 20  # one read asks for no more than this, so a forged size costs no memory
LONGEST_TOKEN = 4096
LONGEST_LINE = 1 << 24
BLOCK = 1 << 16  # bytes of lines that are split together
BEFORE_SPACE = re.compile(rb"\S*")
# Tables shrink to a fifth or, where all is silence, to a hundredth: what claims more is a bomb.
MOST_EXPANSION, ALWAYS_ALLOWED = 200, 1 << 24
SPARSE = 1 << 20  # numbers that count up from 0 may leave so many out; tables have rows for them
DAMAGED = "truncated or damaged, make it again"


def parse_real(text: str) -> float:
    """A number; ValueError also for what Python alone takes for one, such as 1_000 and ١٢."""
    return float(text if text.isascii() and "_" not in text else "")


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
        part = self._call(self.file.read, count)
        self._advance(len(part))
        return part

    def line(self, begun: int = 0) -> bytes:
        """Read to the end of the line, its newline included; empty at the end of the data.

        begun: how many bytes of the line were read before.
        """
        most = LONGEST_LINE - begun
        line = self._call(self.file.readline, most)
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
        match = BEFORE_SPACE.match(self._call(peek, 1) if peek else b"")
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
            if not start and not (raw := raw.removeprefix(codecs.BOM_UTF8)):
                continue  # in a line of its own
            try:
                utt = raw.decode()
            except UnicodeDecodeError:
                raise self.fail(f"no utterance name at offset {start}: not an archive") from None
            if utt in names:
                raise self.fail(f"{utt} is there a second time, at offset {start}")
            names.add(utt)
            blanks = [b"", b" ", b"\t", b"\n"]
            if separator == b"\r":  # of a line that Windows has ended
                separator, blanks = self.take(1, utt), [b"\n"]
            if separator not in blanks:
                raise self.fail(f"no blank follows {utt} at offset {self.position}: {DAMAGED}")
            yield utt, separator

    def _call(self, read: Callable[[int], bytes], count: int) -> bytes:
        try:
            return read(count)
        except READ_ERRORS as error:
            raise self._unreadable(error) from None

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

    def _unreadable(self, error: Exception) -> Exception:
        """The damage that gzip has found; an error of the disk stays, as it tells of no damage."""
        if isinstance(error, OSError) and error.errno:
            name_file(error, self.name)
            return error
        return self.fail(f"cannot be read after {self.position} bytes: {error}; {DAMAGED}")


def check_name(utt: str, names: set[str], ark: Path) -> None:
    """Refuse a name that no archive holds, or that is among those `names`; add it to them."""
    if utt.encode().split() != [utt.encode()]:
        raise InputError(f"{ark}: an utterance name must be one word, not {utt!r}")
    if utt in names:
        raise InputError(f"{ark}: {utt} is there a second time")
    names.add(utt)

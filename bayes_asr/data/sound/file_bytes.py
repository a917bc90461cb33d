"""The bytes of a file as a `bytearray` has them, of which only what is asked for is in memory."""

import io
import os
from typing import BinaryIO, cast

BLOCK = 1 << 20  # bytes that are looked at together


class FileBytes:
    """The bytes of a file that can seek: read where they lie, cut at the ends, and changed.

    What is changed and cut is so here alone; the file stays as it is.
    """

    def __init__(self, file: BinaryIO, size: int) -> None:
        """Take a file of `size` bytes."""
        self.file, self.begin, self.end = file, 0, size
        self.changes: dict[int, int] = {}  # bytes by their offsets in the file

    def __len__(self) -> int:
        """The number of bytes that are left."""
        return self.end - self.begin

    def __getitem__(self, span: slice) -> bytes:
        """Read a span without a step."""
        start, stop, _ = span.indices(len(self))
        self.file.seek(self.begin + start)
        content = bytearray(self.file.read(max(0, stop - start)))
        for offset, byte in self.changes.items():
            if 0 <= (place := offset - self.begin - start) < len(content):
                content[place] = byte
        return bytes(content)

    def __setitem__(self, span: slice, content: bytes) -> None:
        """Change the bytes of a span, which stay as many."""
        start, _, _ = span.indices(len(self))
        self.changes |= dict(enumerate(content, self.begin + start))

    def __delitem__(self, span: slice) -> None:
        """Cut the bytes of a span that begins at the begin, or ends at the end."""
        start, stop, _ = span.indices(len(self))
        if start == 0:
            self.begin += stop
        else:
            self.end = self.begin + start

    def startswith(self, prefixes: tuple[bytes, ...], start: int = 0) -> bool:
        """Whether one of the prefixes is at an offset."""
        return self[start : start + max(map(len, prefixes))].startswith(prefixes)

    def count_zeros(self, start: int = 0) -> int:
        """The zeros from an offset to the next other byte, or to the end."""
        zeros = 0
        while block := self[start + zeros : start + zeros + BLOCK]:
            lacking = len(block) - len(block.lstrip(b"\0"))
            zeros += lacking
            if lacking < len(block):
                break
        return zeros

    def open(self) -> io.BufferedReader:
        """The bytes as a file of their own, at its begin."""
        return io.BufferedReader(_Reader(self))


class _Reader(io.RawIOBase):
    """A file of some bytes."""

    def __init__(self, content: FileBytes) -> None:
        self.content, self.position = content, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        origin = {os.SEEK_SET: 0, os.SEEK_CUR: self.position, os.SEEK_END: len(self.content)}
        self.position = max(0, origin[whence] + offset)
        return self.position

    def readinto(self, buffer: object) -> int:
        target = memoryview(cast(bytearray, buffer)).cast("B")
        content = self.content[self.position : self.position + len(target)]
        target[: len(content)] = content
        self.position += len(content)
        return len(content)

"""The one exception for what a user can mend, and what to say of the system's own."""

import difflib
import errno
import os
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

REMEDIES = {
    errno.ENOENT: "make it, or correct the path",
    errno.EISDIR: "a file is due here",
    errno.ENOTDIR: "a part of the path is a file",
    errno.ELOOP: "the link leads to itself; replace it",
    errno.EACCES: "change its permissions, or choose another place",
    errno.EPERM: "change its permissions, or choose another place",
    errno.EROFS: "choose another place",
    errno.ENOSPC: "free some space and give the same command again",
    errno.EDQUOT: "free some space and give the same command again",
    errno.EFBIG: "raise the limit on the size of files (ulimit -f) and give the same command again",
    errno.EMFILE: "raise the limit on open files (ulimit -n)",
    errno.EIO: "look at the health of the disk",
    errno.ENAMETOOLONG: "choose a shorter name",
}
OF_FILES = {
    *(errno.ENOENT, errno.EISDIR, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG),
    *(errno.EACCES, errno.EPERM),
}
NO_MEMORY = re.compile("allocate memory|not enough memory|out of memory|bad_alloc")
ASKED = re.compile(r"(?:[Tt]ried to|Unable to) allocate (\d[\d.]* \w+)")
LONGEST = 1000  # characters of a message
NAMED = 5  # how many of many names a message has
LEAST_ALIKE = 0.5  # difflib's ratio; leaky_relu and relu have 0.57
JOINERS = "\u200c\u200d"  # without width, but letters of some scripts need them


def name_some(names: Sequence[str]) -> str:
    """The first few of some names, for a message, as a terminal may show them."""
    return printable(", ".join(names[:NAMED])) + (", ..." if len(names) > NAMED else "")


def count_of(number: int, one: str, several: str = "") -> str:
    """`1 word is`, `2 words are`; several: as of more than one, by default with an s behind it."""
    return f"{number} {one if number == 1 else several or f'{one}s'}"


def nearest(word: Any, words: Iterable[str]) -> str:
    """A question about a word that may be misspelt; empty where none of the known is near."""
    names = [str(each) for each in words]
    # Names are small letters, so the word is compared as such.
    matches = difflib.get_close_matches(str(word).lower(), names, 1, LEAST_ALIKE)
    return f"; did you mean {matches[0]}?" if matches else ""


def printable(text: str) -> str:
    """Text from a file, as a terminal or a page may show it: control characters as escapes.

    Neither a newline, a sequence for the terminal, a turn of the direction of writing nor half a
    surrogate pair is left in it. Letters of private use, as of older fonts of IPA, are.
    """
    if text.isprintable():
        return text
    return "".join(c if _is_shown(c) else repr(c)[1:-1] for c in text)


def _is_shown(character: str) -> bool:
    is_private = unicodedata.category(character) == "Co"
    return character.isprintable() or character in JOINERS or is_private


class InputError(ValueError):
    """Bad input: the message names the file, the utterance and the numbers, and says what to do.

    The command line prints it as one line and exits with status 1. What came out of a file is shown
    without its control characters, and not at any length.
    """

    def __init__(self, message: str) -> None:
        """Shorten the middle of a message that nobody would read."""
        if len(message) > LONGEST:
            # The begin names the file and the end says what to do, so the middle goes.
            message = f"{message[: LONGEST * 2 // 3]} ... {message[-LONGEST // 4 :]}"
        super().__init__(printable(message))


class ExternalError(InputError):
    """A unit outside the package that cannot be had here; the file that names it may be whole."""


def reason(error: OSError) -> str:
    """The reason of a system error and its remedy: "Is a directory; a file is due here"."""
    message = error.strerror or " ".join(str(error).split()) or type(error).__name__
    remedy = REMEDIES.get(error.errno or 0)
    return f"{message}; {remedy}" if remedy else message


@contextmanager
def opening(what: str = "") -> Iterator[None]:
    """Make an InputError of an error about what a path names: then an utterance may be left out.

    One of the disk, or of a limit just now, stays: the same command may end otherwise.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in OF_FILES:
            raise
        raise InputError(f"{what}: {reason(error)}" if what else explain(error)) from None


def name_file(error: OSError, path: object) -> None:
    """Say which file the error is about, which a full disk does not."""
    if error.filename is None:
        error.filename = str(path)


@contextmanager
def naming(path: object) -> Iterator[None]:
    """Let an error of the block say that it is about this file, where it names none."""
    try:
        yield
    except OSError as error:
        name_file(error, path)
        raise


def explain(error: OSError) -> str:
    """The same with the file in front, where the system named one."""
    files = [
        os.fsdecode(f) for f in (error.filename, error.filename2) if isinstance(f, str | bytes)
    ]
    # Of a rename the second name is the one that was to be written.
    return printable(f"{files[-1]}: {reason(error)}" if files else reason(error))


def complaint(error: BaseException) -> str:
    """The message of an error, in one line."""
    if isinstance(error, OSError):
        return explain(error)
    if isinstance(error, MemoryError):
        message = " ".join(str(error).split())
        return f"not enough memory: {message or 'close other programs, or take smaller batches'}"
    return printable(str(error)) or type(error).__name__


def least_share(count: int, total: int) -> float:
    """The least limit of whole percents that `count` of `total` keep to."""
    # Division rounded up: the limit must hold the share itself.
    return -(-100 * count // total) / 100


def is_lack_of_memory(error: BaseException) -> bool:
    """Say whether memory was refused: torch tells that by a RuntimeError."""
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and bool(NO_MEMORY.search(str(error)))
    )


@contextmanager
def needing_memory(describe: Callable[[], str]) -> Iterator[None]:
    """Let a MemoryError say what was computed when memory was refused, and what to do."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not is_lack_of_memory(error):
            raise
        match = ASKED.search(str(error))
        size = f"{match[1]} were wanted " if match else ""
        raise MemoryError(f"{size}{describe()}") from None


class StoppedError(Exception):
    """A signal asked for the end, and what was done is saved: the same command goes on.

    number: of the signal; the command line exits with 128 + number, as shells do.
    """

    def __init__(self, message: str, number: int) -> None:
        super().__init__(message)
        self.number = number

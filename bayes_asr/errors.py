"""The one exception for what a user can mend, and what to say of the system's own."""

import errno
import os

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
LONGEST = 1000  # characters of a message


class InputError(ValueError):
    """Bad input: the message names the file, the utterance and the numbers, and says what to do.

    The command line prints it as one line and exits with status 1. What came out of a file is shown
    without its control characters, and not at any length.
    """

    def __init__(self, message: str) -> None:
        """Shorten the middle of a message that nobody would read."""
        if len(message) > LONGEST:
            message = f"{message[: LONGEST * 2 // 3]} ... {message[-LONGEST // 4 :]}"
        super().__init__("".join(c if c.isprintable() else repr(c)[1:-1] for c in message))


def reason(error: OSError) -> str:
    """Why the system refused, and what to do about it: "Is a directory; a file is due here"."""
    said = error.strerror or " ".join(str(error).split()) or type(error).__name__
    remedy = REMEDIES.get(error.errno or 0)
    return f"{said}; {remedy}" if remedy else said


def explain(error: OSError) -> str:
    """The same with the file in front, where the system named one."""
    files = [
        os.fsdecode(f) for f in (error.filename, error.filename2) if isinstance(f, str | bytes)
    ]
    return f"{files[-1]}: {reason(error)}" if files else reason(error)


def complaint(error: BaseException) -> str:
    """What to say of an error, in one line."""
    if isinstance(error, OSError):
        return explain(error)
    if isinstance(error, MemoryError):
        return f"not enough memory: {error or 'close other programs, or take smaller batches'}"
    return str(error) or type(error).__name__


class StoppedError(Exception):
    """A signal asked for the end, and what was done is saved: the same command goes on.

    number: of the signal; the command line exits with 128 + number, as shells do.
    """

    def __init__(self, message: str, number: int) -> None:
        super().__init__(message)
        self.number = number

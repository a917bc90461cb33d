"""Which stages are complete: a stamp keeps what a stage ran when it last succeeded, and on what."""

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path


def is_complete(stamp: Path, files: Sequence[str], command: Sequence[str]) -> bool:
    """Say whether command and files, read and written, are those of the stamp."""
    return stamp.is_file() and stamp.read_bytes() == _content(files, command)


def write_stamp(stamp: Path, files: Sequence[str], command: Sequence[str]) -> None:
    """Keep a command that has succeeded, and the size and time of its files."""
    from bayes_asr.base.files import replacing  # takes longer to load than is_complete does

    with replacing(stamp) as temporary:
        temporary.write_bytes(_content(files, command))


def _content(files: Sequence[str], command: Sequence[str]) -> bytes:
    """The command and, behind it, the files that exist, one a line."""
    return os.fsencode(f"{' '.join(command)} " + "\n".join(_states(files)) + "\n")


def _states(files: Sequence[str]) -> Iterator[str]:
    for file in filter(os.path.exists, files):
        status = os.stat(file)
        yield f"{file} {status.st_size} {status.st_mtime_ns}"


def has_changed(folder: Path, stamp: Path, out: Path) -> bool:
    """Say whether anything in a folder came or changed since the stamp was written.

    Links are followed, also to files that are older than the stamp. What lies in `out` does not
    count; without a stamp nothing has changed.
    """
    if not stamp.is_file():
        return False
    written = stamp.stat().st_mtime_ns
    return any(changed > written for changed in _changes(folder, out))


def _changes(folder: Path, out: Path) -> Iterator[int]:
    """When each folder and file last changed, in nanoseconds; each folder once."""
    # A loop of links, and `out` inside of the corpus, end here.
    seen = {_identity(out)}
    for here, folders, files in os.walk(folder, followlinks=True):
        if _identity(here) in seen:
            folders.clear()
            continue
        seen.add(_identity(here))
        for path in (here, *(os.path.join(here, name) for name in files)):
            with suppress(OSError):  # such as a link that leads nowhere
                # The time of change, unlike that of modification, is not set back by cp -p.
                yield os.stat(path).st_ctime_ns


def _identity(folder: str | Path) -> tuple[int, int]:
    status = os.stat(folder)
    return status.st_dev, status.st_ino

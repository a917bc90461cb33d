"""Changes of a corpus since it was prepared."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


def has_changed(corpus: Path, stamp: Path, out: Path) -> bool:
    """Say whether anything in a folder came or changed since the stamp was written.

    Links are followed, also to files that are older than the stamp. What lies in `out` does not
    count; without a stamp nothing has changed.
    """
    if not stamp.is_file():
        return False
    prepared = stamp.stat().st_mtime_ns
    return any(changed > prepared for changed in _changes(corpus, out))


def _changes(corpus: Path, out: Path) -> Iterator[int]:
    """Times of the last change of each folder and file, in nanoseconds; each folder once."""
    # A loop of links, and `out` inside of the corpus, end here.
    visited = {_identity(out)}
    for directory, subdirectories, files in os.walk(corpus, followlinks=True):
        if _identity(directory) in visited:
            subdirectories.clear()
            continue
        visited.add(_identity(directory))
        for path in (directory, *(os.path.join(directory, name) for name in files)):
            with suppress(OSError):  # such as a link that leads nowhere
                # The time of change, unlike that of modification, is not set back by cp -p.
                yield os.stat(path).st_ctime_ns


def _identity(directory: str | Path) -> tuple[int, int]:
    status = os.stat(directory)
    return status.st_dev, status.st_ino

"""Files at any depth below a folder, through links."""

import fnmatch
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from bayes_asr.base.files import LEFTOVER, REPLACED_BY, check_settled, find_files


def walk_once(
    directory: Path, onerror: Callable[[OSError], object] | None = None
) -> Iterator[tuple[str, list[str], list[str]]]:
    """`os.walk` through links, each folder once; of folders side by side links come last."""
    visited: set[str] = set()
    for place, folders, files in os.walk(directory, onerror=onerror, followlinks=True):
        # A link may lead back to where one is.
        if os.path.realpath(place) in visited:
            folders.clear()
            continue
        visited.add(os.path.realpath(place))
        folders.sort(key=lambda name: (os.path.islink(os.path.join(place, name)), name))
        yield place, folders, files


def find_below(directory: Path, *names: str) -> list[Path]:
    """The files of these names (with * for any part) at or below a folder, whole and in place.

    Links to folders are followed: seeds may lie on several disks.
    """
    find_files(directory, "*")  # OSError where `os.walk` would pass over what is forbidden
    paths = [
        Path(place, name)
        for place, folders, files in walk_once(directory)
        for name in (*folders, *files)
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in (*names, REPLACED_BY))
    ]
    if stopped := [path for path in paths if path.name == REPLACED_BY]:
        for path in stopped:
            check_settled(path)
        return find_below(directory, *names)
    return sorted(path for path in paths if not any(map(LEFTOVER.fullmatch, path.parts)))

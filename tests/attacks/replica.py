"""A copy of a folder that is brought back to what it was, at the cost of what has changed."""

import os
import shutil
import stat
from pathlib import Path

Marks = dict[str, tuple[int, ...]]
"""By name below a folder: what of a file or folder changes whenever it is written or replaced."""


def marks(place: Path) -> Marks:
    """The marks of all that is below a folder, parents first."""
    found: Marks = {}
    folders = [place]
    for folder in folders:
        with os.scandir(folder) as entries:
            for entry in entries:
                status = entry.stat(follow_symlinks=False)
                name = entry.path[len(str(place)) + 1 :]
                if stat.S_ISDIR(status.st_mode):
                    folders.append(Path(entry.path))
                    found[name] = (status.st_mode,)
                else:  # the time of the last change of any kind, which nobody can set back
                    found[name] = (status.st_mode, status.st_ino, status.st_ctime_ns)
    return found


class Replica:
    """A copy of `source` at `place`; what is written there is undone by `restore`."""

    def __init__(self, source: Path, place: Path) -> None:
        self.source, self.place = source, place
        self._marks: Marks = {}

    def restore(self) -> Path:
        """Put back what differs from the source, remove what is beside it; returns the place."""
        self.place.mkdir(exist_ok=True)
        found = marks(self.place)
        for name in sorted(found, reverse=True):  # what a folder holds before the folder
            if found[name] != self._marks.get(name):
                _remove(self.place / name)
        for name, (mode, *_) in marks(self.source).items():
            target = self.place / name
            if os.path.lexists(target):
                continue
            if stat.S_ISDIR(mode):
                target.mkdir()
                shutil.copystat(self.source / name, target)
            else:
                shutil.copy2(self.source / name, target, follow_symlinks=False)
        self._marks = marks(self.place)
        return self.place


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)

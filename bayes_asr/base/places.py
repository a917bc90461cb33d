"""Places to write to, judged before the work whose results they shall hold."""

import os
from collections.abc import Container, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from bayes_asr.base.errors import InputError, name_some


def refuse_unwritable(
    options: Mapping[str, Any], *, files: Iterable[str] = (), folders: Iterable[str] = ()
) -> None:
    """InputError where what options of these names shall write has no place."""
    for names, is_file in ((files, True), (folders, False)):
        for name in names:
            path: Path | None = options[name]
            if path and is_file and path.is_dir():
                raise InputError(f"--{name} {path}: is a folder; name a file")
            if path and (obstacle := find_obstacle(path.parent if is_file else path)):
                raise InputError(f"--{name} {path}: {obstacle}; name another place")


def refuse_replacing(files: Iterable[Path], inputs: Iterable[Path]) -> None:
    """InputError where files would be replaced in the folder of an input: they may be by hand.

    inputs: files that are read, or folders of such; those that are not there count for nothing.
    """
    there = [file for file in files if os.path.isfile(file)]  # no device, no pipe
    if not there:
        return
    existing = filter(os.path.exists, inputs)
    folders = {os.path.realpath(path if path.is_dir() else path.parent) for path in existing}
    beside = [str(file) for file in there if os.path.realpath(file.parent) in folders]
    if beside:
        raise InputError(
            f"{name_some(beside)}: beside what is read here, and would be replaced; remove them,"
            " name another folder, or give --force"
        )


def refuse_read(out: Path, folders: Iterable[Path]) -> None:
    """InputError where the folder to write is one of those that are read, by whatever name."""
    if os.path.realpath(out) in map(os.path.realpath, folders):
        raise InputError(f"{out}: holds what is read; choose another folder")


def refuse_foreign(directory: Path, names: Iterable[str], verb: str) -> None:
    """InputError where a folder has files of these names, none of which `verb` wrote."""
    foreign = [name for name in names if os.path.lexists(directory / name)]
    if foreign:
        raise InputError(
            f"{directory}: holds {min(foreign)}, which bayes-asr {verb} did not write; choose"
            " another folder, or remove what is there"
        )


def refuse_others(table: Path, names: Container[str], what: str) -> None:
    """InputError where at least half of the names that begin lines of a table are none of `names`,
    those of `what`.

    A set may have lost some since. A table that is not there, or empty, has none.
    """
    with suppress(FileNotFoundError), table.open(encoding="utf-8") as file:
        # Lines of a CTM that begin with ;; are remarks.
        listed = {line.split()[0] for line in file if line.strip() and line[:2] != ";;"}
        others = sorted(name for name in listed if name not in names)
        if others and 2 * len(others) >= len(listed):
            raise InputError(
                f"{table}: of {name_some(others)}, not of {what}; name a folder for each by --out"
            )


def find_obstacle(directory: Path) -> str:
    """What keeps files out of a folder, which may be new, in words; empty where nothing does."""
    place = directory.absolute()
    # Of a new folder the nearest one that exists must allow writing.
    existing = next(path for path in (place, *place.parents) if os.path.lexists(path))
    if not existing.is_dir():
        return f"{existing} is no folder"
    allowed = os.access(existing, os.W_OK | os.X_OK, effective_ids=True)
    return "" if allowed else f"{existing} may not be written to"

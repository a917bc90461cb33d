"""Kaldi's indexes of archives (scp): utterance -> rxfilename, such as file.ark:123[0:99]."""

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import cast

from bayes_asr.errors import InputError
from bayes_asr.tables.binary import OpenPipe, iter_lines, read_pairs

RXFILENAME = re.compile(
    r"(?P<path>.*?)(?::(?P<offset>\d{1,18}))?(?:\[(?P<range>[^\[\]]*)\])?", re.S
)


def read_scp(path: Path, *, open_pipe: OpenPipe | None = None) -> dict[str, str]:
    """Read an scp: utterance -> rxfilename ("file.ark:123", "file.ark:123[0:99]").

    A relative file is looked for in the working directory, as Kaldi does, then beside the scp.
    Raises InputError for a repeated utterance, a missing field, and for a pipe unless `open_pipe`,
    the function that would run it, is given.
    """
    path = Path(path)
    table = read_pairs(path)
    if table is None or any(map(is_pipe, table.values())):
        table = _check_scp(path, open_pipe)
    found = {name: _look_beside(name, path) for name in _list_files(table.values())}
    if all(name == there for name, there in found.items()):
        return table
    for utt, rxfilename in table.items():
        if not is_pipe(rxfilename):
            name = _strip_offset(rxfilename)
            table[utt] = found[name] + rxfilename[len(name) :]
    return table


def _check_scp(path: Path, open_pipe: OpenPipe | None) -> dict[str, str]:
    table: dict[str, str] = {}
    for number, fields in iter_lines(path, splits=1):
        utt, rxfilename = fields if len(fields) == 2 else (fields[0], "")
        if not rxfilename:
            raise InputError(f"{path}, line {number}: {utt} has no file; complete the line")
        if utt in table:
            raise InputError(f"{path}, line {number}: {utt} is there a second time; keep one line")
        if is_pipe(rxfilename):
            refuse_pipe(rxfilename, f"{path}, line {number}: {utt}", open_pipe)
        table[utt] = rxfilename
    return table


def is_pipe(rxfilename: str) -> bool:
    """Say whether Kaldi would run this name as a command."""
    stripped = rxfilename.strip()
    return stripped.startswith("|") or stripped.endswith("|")


def list_archives(rxfilenames: Iterable[str]) -> list[Path]:
    """The files that rxfilenames read, each once and without offsets; pipes read none."""
    return sorted(map(Path, _list_files(rxfilenames)))


def refuse_pipe(rxfilename: str, where: str, open_pipe: OpenPipe | None) -> None:
    if open_pipe is None:
        raise InputError(
            f"{where}: refusing to run the command {rxfilename!r}; "
            "write its output to a file, or say --allow-pipes if you trust it"
        )


def _list_files(rxfilenames: Iterable[str]) -> set[str]:
    return {_strip_offset(name) for name in rxfilenames if not is_pipe(name)}


def _strip_offset(rxfilename: str) -> str:
    name, separator, offset = rxfilename.rpartition(":")
    if separator and offset.isdecimal() and len(offset) < 19:
        return name  # as below, but faster
    return split_rxfilename(rxfilename)["path"]


def split_rxfilename(rxfilename: str) -> re.Match[str]:
    return cast(re.Match[str], RXFILENAME.fullmatch(rxfilename))


def _look_beside(name: str, scp: Path) -> str:
    beside = os.path.join(scp.parent, name)
    return beside if not os.path.exists(name) and os.path.exists(beside) else name

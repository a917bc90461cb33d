"""Kaldi's indexes of archives (scp): utterance -> rxfilename, such as file.ark:123[0:99]."""

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import cast

from bayes_asr.base.errors import InputError
from bayes_asr.kaldi_io.binary import OpenPipe, iter_lines, read_pairs

RXFILENAME = re.compile(
    r"(?P<path>.*?)(?::(?P<offset>\d{1,18}))?(?:\[(?P<range>[^\[\]]*)\])?", re.S
)

Moves = Sequence[tuple[str, str]]  # a folder that names begin with, and where it is now


def read_scp(path: Path, *, open_pipe: OpenPipe | None = None, moves: Moves = ()) -> dict[str, str]:
    """Read an scp: utterance -> rxfilename ("file.ark:123", "file.ark:123[0:99]").

    A relative file is looked for in the working directory, as Kaldi does, then beside the scp and
    in each folder above it, among which is the root of its experiment. moves: the first whose
    folder a name begins with is applied before that. Raises InputError for a repeated utterance, a
    missing field, and for a pipe unless `open_pipe`, the function that would run it, is given.
    """
    path = Path(path)
    table = read_pairs(path)
    if table is None or any(map(is_pipe, table.values())):
        table = _check_scp(path, open_pipe)
    # Millions of utterances lie in few archives: each file is looked for once.
    resolved = {name: _find(name, path, moves) for name in _list_files(table.values())}
    if all(name == path_now for name, path_now in resolved.items()):
        return table
    for utt, rxfilename in table.items():
        if not is_pipe(rxfilename):
            name = _strip_offset(rxfilename)
            table[utt] = resolved[name] + rxfilename[len(name) :]
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
    """Whether Kaldi would run this name as a command."""
    stripped = rxfilename.strip()
    return stripped.startswith("|") or stripped.endswith("|")


def list_archives(rxfilenames: Iterable[str]) -> list[Path]:
    """The files that rxfilenames read, each once and without offsets; pipes read none."""
    return sorted(map(Path, _list_files(rxfilenames)))


def refuse_pipe(rxfilename: str, where: str, open_pipe: OpenPipe | None) -> None:
    if open_pipe is None:
        raise InputError(
            f"{where}: refusing to run the command {rxfilename!r}; "
            "write its output to a file, or trust it with --allow-pipes where the verb has that"
        )


def _list_files(rxfilenames: Iterable[str]) -> set[str]:
    return {_strip_offset(name) for name in rxfilenames if not is_pipe(name)}


def _strip_offset(rxfilename: str) -> str:
    # Nearly all names are file:offset, and need no regular expression.
    name, separator, offset = rxfilename.rpartition(":")
    if separator and offset.isdecimal() and len(offset) < 19:
        return name
    return split_rxfilename(rxfilename)["path"]


def split_rxfilename(rxfilename: str) -> re.Match[str]:
    return cast(re.Match[str], RXFILENAME.fullmatch(rxfilename))


def missing_file_error(scp: Path, what: str, name: str) -> InputError:
    """The error that says that a file which an scp names for `what` does not exist."""
    searched = f" in the working directory {os.getcwd()} or in a folder above the table"
    return InputError(
        f"{scp}: cannot open {what} in {name}: No such file{searched * (not os.path.isabs(name))};"
        " if a folder has moved, say so by --set data.moved=OLD=NEW, or correct the table"
    )


def _find(name: str, scp: Path, moves: Moves) -> str:
    """The path of a file that an scp names; its name where no such file is found."""
    name = next(
        (target + name[len(begin) :] for begin, target in moves if _is_in(name, begin)), name
    )
    if os.path.isabs(name) or os.path.exists(name):
        return name
    # Beside the scp as it was named, then in each folder above it.
    directories = (scp.parent, *scp.parent.absolute().parents)
    above = (os.path.join(directory, name) for directory in directories)
    return next(filter(os.path.exists, above), name)


def _is_in(name: str, directory: str) -> bool:
    return name == directory or name.startswith(f"{directory}/")

"""Names of what Kaldi's programs read: rxfilenames, such as file.ark:123[0:99], and rspecifiers."""

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import cast

from bayes_asr.base.errors import InputError
from bayes_asr.kaldi_io.byte_reader import OpenPipe

RXFILENAME = re.compile(
    r"(?P<path>.*?)(?::(?P<offset>\d{1,18}))?(?:\[(?P<range>[^\[\]]*)\])?", re.S
)
RSPECIFIER = re.compile(r"(?P<kind>ark|scp)(?:,[a-z]+)*:(?P<name>.*)", re.S)


def is_pipe(rxfilename: str) -> bool:
    """Whether Kaldi would run this name as a command."""
    stripped = rxfilename.strip()
    return stripped.startswith("|") or stripped.endswith("|")


def refuse_pipe(rxfilename: str, where: str, open_pipe: OpenPipe | None) -> None:
    """InputError for a command without the function that would run it, and for a file as one."""
    file = rxfilename.strip().strip("|").strip()
    if Path(file).is_file() and not os.access(file, os.X_OK):
        raise InputError(
            f"{where}: {rxfilename!r} is a file and no command; leave out the | to have it read"
        )
    if open_pipe is None:
        raise InputError(
            f"{where}: refusing to run the command {rxfilename!r}; "
            "write its output to a file, or trust it with --allow-pipes where the verb has that"
        )


def list_archives(rxfilenames: Iterable[str]) -> list[Path]:
    """The files that rxfilenames read, each once and without offsets; pipes read none."""
    return sorted(map(Path, list_files(rxfilenames)))


def list_files(rxfilenames: Iterable[str]) -> set[str]:
    """The names of the same files."""
    return {strip_offset(name) for name in rxfilenames if not is_pipe(name)}


def strip_offset(rxfilename: str) -> str:
    """The file of an rxfilename."""
    # Nearly all names are file:offset, and need no regular expression.
    name, separator, offset = rxfilename.rpartition(":")
    if separator and offset.isdecimal() and len(offset) < 19:
        return name
    return split_rxfilename(rxfilename)["path"]


def split_rxfilename(rxfilename: str) -> re.Match[str]:
    """The groups `path`, `offset` and `range`."""
    return cast(re.Match[str], RXFILENAME.fullmatch(rxfilename))


def split_rspecifier(source: Path | str) -> tuple[str, str]:
    """`ark` or `scp`, as "ark:..." or "scp:..." says or else the end of the name, and the name."""
    match = RSPECIFIER.fullmatch(source) if isinstance(source, str) else None
    if match:
        return match["kind"], match["name"]
    return ("scp" if str(source).endswith(".scp") else "ark"), str(source)

"""Kaldi's text tables (text, utt2spk, words.txt, scp) and data directories."""

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from pathlib import Path

import numpy as np

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import is_there, replacing
from bayes_asr.kaldi_io.binary import iter_lines, read_pairs
from bayes_asr.kaldi_io.byte_reader import SPARSE, OpenPipe
from bayes_asr.kaldi_io.rxfilename import is_pipe, list_files, refuse_pipe, strip_offset

Moves = Sequence[tuple[str, str]]  # a folder that names begin with, and where it is now
SYMBOL_ID = re.compile(r"\d{1,9}", re.ASCII)


def read_text(path: Path) -> dict[str, list[str]]:
    """Read `utterance word word ...` lines; the order is kept, a transcript may be empty.

    Raises InputError for a repeated utterance and for a line that is not UTF-8.
    """
    table: dict[str, list[str]] = {}
    for number, (utt, *words) in iter_lines(Path(path)):
        _refuse_repeated(table, utt, path, number)
        table[utt] = words
    return table


def read_mapping(path: Path) -> dict[str, str]:
    """Read a table of exactly two columns, such as utt2spk or spk2gender."""
    # The quick reader knows plain tables only; the slow one names the line that is at fault.
    pairs = read_pairs(path)
    if pairs is not None:
        return {key: sys.intern(value) for key, value in pairs.items()}  # speakers are repeated
    table: dict[str, str] = {}
    for number, fields in iter_lines(Path(path)):
        if len(fields) != 2:
            problem = f"{fields[0]} has {len(fields)} fields"
            raise InputError(f"{path}, line {number}: {problem}, not 2; correct the line")
        _refuse_repeated(table, fields[0], path, number)
        table[fields[0]] = fields[1]
    return table


def read_symbols(path: Path) -> dict[str, int]:
    """Read a symbol table (words.txt, phones.txt): symbol -> id; no symbol or id may repeat."""
    table: dict[str, int] = {}
    lines: dict[int, int] = {}
    for number, fields in iter_lines(Path(path)):
        if len(fields) != 2 or not SYMBOL_ID.fullmatch(fields[1]):
            shown = " ".join(fields)[:40]
            raise InputError(f"{path}, line {number}: not a symbol and its id: {shown}")
        symbol, identity = fields[0], int(fields[1])
        _refuse_repeated(table, symbol, path, number)
        if identity in lines:
            raise InputError(
                f"{path}, line {number}: {symbol} has the id {identity} of line {lines[identity]}"
            )
        table[symbol], lines[identity] = identity, number
    largest = max(lines, default=0)
    if largest >= max(SPARSE, len(lines)):
        raise InputError(
            f"{path}, line {lines[largest]}: the id {largest} in a table of {len(lines)} symbols;"
            " number them from 0"
        )
    return table


class WordSymbols(dict[int, str]):
    """Words by their numbers, read from a words.txt; InputError for a number that it lacks."""

    def __init__(self, path: Path) -> None:
        """Read the table."""
        super().__init__((number, word) for word, number in read_symbols(path).items())
        self.path = path

    def __missing__(self, number: int) -> str:
        raise InputError(
            f"{self.path}: no symbol for word {number}; take the words.txt of the decoding graph"
        )


def write_text(items: Iterable[tuple[str, Sequence[str]]], path: Path) -> int:
    """Write `utterance word word ...` lines, complete or not at all; returns how many."""
    return write_lines((" ".join((utt, *words)) for utt, words in items), path)


def write_mapping(items: Iterable[tuple[str, str | int]], path: Path) -> int:
    """Write two columns (utt2spk, words.txt), complete or not at all; returns how many lines."""
    return write_lines((f"{key} {value}" for key, value in items), path)


def write_lines(lines: Iterable[object], path: Path) -> int:
    """Write a text file, complete or not at all; returns how many lines."""
    count = 0
    with (
        replacing(Path(path)) as temporary,
        temporary.open("w", encoding="utf-8", newline="\n") as file,
    ):
        for line in lines:
            file.write(f"{line}\n")
            count += 1
    return count


def write_speakers(utt2spk: Mapping[str, str], directory: Path) -> None:
    """Write utt2spk and spk2utt, both in byte order, as Kaldi requires."""
    by_speaker: dict[str, list[str]] = {}
    for utt, speaker in sorted(utt2spk.items()):
        by_speaker.setdefault(speaker, []).append(utt)
    write_mapping(sorted(utt2spk.items()), directory / "utt2spk")
    write_text(sorted(by_speaker.items()), directory / "spk2utt")


def write_dictionary(
    lexicon: Iterable[tuple[str, Sequence[str]]],
    directory: Path,
    *,
    silence: Sequence[str],
    questions: Iterable[Sequence[str]] = (),
    base: Callable[[str], str] = str,
) -> None:
    """Write the folder that Kaldi's prepare_lang.sh reads: lexicon.txt and lists of phones.

    lexicon: words and their phones, in byte order of the words; silence: phones of silence and
    noise, the optional one first; questions: sets of phones that a tree may ask about; base: of a
    phone, of which it is a form of stress or tone: forms of one have a line, and a tree, in common.
    """
    entries = sorted((word, tuple(phones)) for word, phones in lexicon)
    nonsilence = {phone for _, phones in entries for phone in phones} - {*silence}
    by_base = groupby(sorted(nonsilence, key=lambda phone: (base(phone), phone)), base)
    write_text(entries, directory / "lexicon.txt")
    write_lines(silence, directory / "silence_phones.txt")
    write_lines(silence[:1], directory / "optional_silence.txt")
    write_lines((" ".join(forms) for _, forms in by_base), directory / "nonsilence_phones.txt")
    write_lines((" ".join(phones) for phones in questions), directory / "extra_questions.txt")


@dataclass(frozen=True)
class DataDir:
    """A Kaldi data directory: tables by utterance, `cmvn` by speaker; None for an absent file."""

    path: Path
    feats: Mapping[str, str] | None
    cmvn: dict[str, str] | None

    @property
    def parts(self) -> "tuple[DataDir, ...]":
        """The directories that this one stands for: itself, or several."""
        return (self,)

    @cached_property
    def utt2spk(self) -> dict[str, str]:
        """The speaker of each utterance."""
        return read_mapping(self.path / "utt2spk")

    @cached_property
    def text(self) -> dict[str, list[str]] | None:
        """The transcripts, read when they are asked for: training needs none."""
        file = self.path / "text"
        if not is_there(file):
            return None
        table = read_text(file)
        _refuse_strangers(file, table, self.utt2spk)
        return table


def read_data_dir(
    path: Path,
    *,
    open_pipe: OpenPipe | None = None,
    feats: Mapping[str, str] | None = None,
    moves: Moves = (),
) -> DataDir:
    """Read the tables of a Kaldi data directory; utt2spk must be there.

    Every utterance of feats.scp and text must be in utt2spk. Which utterances a later stage needs
    is its own business. Pipes in feats.scp and cmvn.scp are refused unless `open_pipe` is given.
    feats: the known contents of feats.scp, so that it and utt2spk are not read for it. moves: as in
    `read_scp`.
    """

    def scp(name: str) -> dict[str, str] | None:
        file = Path(path) / name
        return read_scp(file, open_pipe=open_pipe, moves=moves) if is_there(file) else None

    data = DataDir(Path(path), scp("feats.scp") if feats is None else feats, scp("cmvn.scp"))
    if feats is None:
        _refuse_strangers(data.path / "feats.scp", data.feats or {}, data.utt2spk)
    return data


def _refuse_repeated(table: Mapping[str, object], key: str, path: Path, number: int) -> None:
    if key in table:
        raise InputError(f"{path}, line {number}: {key} is there a second time; keep one line")


def _refuse_strangers(file: Path, table: Mapping[str, object], utt2spk: Mapping[str, str]) -> None:
    if not table.keys() <= utt2spk.keys():
        strangers = [utt for utt in table if utt not in utt2spk]
        raise InputError(
            f"{file}: {len(strangers)} of {len(table)} utterances are not in utt2spk, "
            f"the first is {strangers[0]}; add their speakers"
        )


Segment = tuple[str, str, int | None, float, float]
"""Utterance, recording, channel or None, start and end in seconds (-1: to the end)."""


def read_segments(path: Path) -> Iterator[Segment]:
    """Yield the segments of a file, which have a place in a recording."""
    for number, fields in iter_lines(path):
        try:
            utt, recording, start, end = fields[0], fields[1], float(fields[2]), float(fields[3])
            # Kaldi's channel -1 means that none is named.
            channel = int(fields[4]) if len(fields) == 5 and fields[4] != "-1" else None
        except (ValueError, IndexError):
            raise segment_error(path, number, fields) from None
        times = 0 <= start < end < np.inf or (0 <= start < np.inf and end == -1.0)
        if len(fields) > 5 or not times or (channel or 0) < 0:
            raise InputError(
                f"{path}, line {number}: {utt} from {start:g} to {end:g} s; correct it"
            )
        yield utt, recording, channel, start, end


def segment_error(path: Path, number: int, fields: Sequence[str]) -> InputError:
    """The error that says what a line of segments must be."""
    return InputError(
        f"{path}, line {number}: not `utt recording start end`, with times in seconds, and a"
        f" channel counted from 0 where one is named: {' '.join(fields)[:80]}"
    )


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
    resolved = {name: _find(name, path, moves) for name in list_files(table.values())}
    if all(name == path_now for name, path_now in resolved.items()):
        return table
    for utt, rxfilename in table.items():
        if not is_pipe(rxfilename):
            name = strip_offset(rxfilename)
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

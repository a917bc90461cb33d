"""Kaldi's text tables (text, utt2spk), also those of a data directory."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import is_there, updating
from bayes_asr.kaldi_io.binary import iter_lines, read_pairs, refuse_repeated

SPEED_PREFIX = "sp{}-"  # begins all names of speech at another speed, such as 0.9


def read_text(path: Path) -> dict[str, list[str]]:
    """Read `utterance word word ...` lines; the order is kept, a transcript may be empty.

    Raises InputError for a repeated utterance and for a line that is not UTF-8.
    """
    table: dict[str, list[str]] = {}
    for number, (utt, *words) in iter_lines(Path(path)):
        refuse_repeated(table, utt, path, number)
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
        refuse_repeated(table, fields[0], path, number)
        table[fields[0]] = fields[1]
    return table


def write_text(items: Iterable[tuple[str, Sequence[str]]], path: Path) -> int:
    """Write `utterance word word ...` lines, complete or not at all; returns how many."""
    return write_lines((" ".join((utt, *words)) for utt, words in items), path)


def write_mapping(items: Iterable[tuple[str, str | int]], path: Path) -> int:
    """Write two columns (utt2spk, words.txt), complete or not at all; returns how many lines."""
    return write_lines((f"{key} {value}" for key, value in items), path)


def write_lines(lines: Iterable[object], path: Path) -> int:
    """Write a text file as `updating` does, complete or not at all; returns how many lines."""
    count = 0
    with (
        updating(Path(path)) as temporary,
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
        refuse_strangers(file, table, self.utt2spk)
        return table


def refuse_strangers(file: Path, table: Mapping[str, object], utt2spk: Mapping[str, str]) -> None:
    if not table.keys() <= utt2spk.keys():
        strangers = [utt for utt in table if utt not in utt2spk]
        raise InputError(
            f"{file}: {len(strangers)} of {len(table)} utterances are not in utt2spk, "
            f"the first is {strangers[0]}; add their speakers"
        )

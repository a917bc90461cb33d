"""Groups of systems as two verbs take them: --group [NAME=]RUN... --against [NAME=]RUN..."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from bayes_asr.base.errors import InputError, printable
from bayes_asr.evaluate.score.pair_comparisons import find_repeated


class RunGroup(NamedTuple):
    """Systems, each by its run or the folder of its runs, and what they are called together."""

    name: str
    systems: Sequence[Path]


def add_group_options(parser: argparse.ArgumentParser) -> None:
    """Declare --group and --against, each once for a hypothesis."""
    options = (
        ("--group", "systems whose errors are taken together, NAME= before the first names them"),
        ("--against", "the systems that they are tested against (both are repeatable)"),
    )
    for option, text in options:
        metavar = ("[NAME=]RUN", "RUN")
        parser.add_argument(
            option, nargs="+", action="append", default=[], metavar=metavar, help=text
        )


def read_groups(args: argparse.Namespace) -> list[tuple[RunGroup, RunGroup]]:
    """Each --group with what it is tested against; InputError where one of the two is missing."""
    if len(args.group) != len(args.against):
        raise InputError(
            f"{len(args.group)} --group and {len(args.against)} --against: each hypothesis has both"
        )
    return [(_name(a), _name(b)) for a, b in zip(args.group, args.against, strict=True)]


def _name(words: Sequence[str]) -> RunGroup:
    # A folder may have = in its name, and is a folder then.
    name, equals, path = words[0].partition("=")
    if not equals or Path(words[0]).exists():
        name, path = " + ".join(Path(word).name for word in words), words[0]
    systems = [Path(word) for word in (path, *words[1:]) if word]
    if not systems:
        raise InputError(f"{words[0]}: name the runs of this group")
    if repeated := find_repeated(systems):
        raise InputError(f"{repeated}: the group has it twice, and would count its errors twice")
    return RunGroup(printable(name), systems)

"""The options of run.sh: their types and defaults; the header of run.sh says what they mean."""

import argparse
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NoReturn

from bayes_asr.base.errors import InputError


class OptionError(InputError):
    """A mistake on the command line; run.sh ends with status 2, before anything has begun."""


@dataclass(frozen=True, kw_only=True)
class RecipeOptions:
    """What was asked for: an empty text or None was not.

    Folders and files are as they were spelled: a complete stage is known by the words of its
    command.
    """

    recipe: str
    kaldi_dir: str
    corpus: str
    config: tuple[str, ...]
    set: tuple[str, ...]
    out: str
    stage: int
    stop_stage: int
    nj: int
    nproc: int | None
    seeds: int
    experiment: str
    dim: int | None
    features: str
    force: bool


class _Parser(argparse.ArgumentParser):
    """Says what is wrong as all mistakes on the command line are said."""

    def error(self, message: str) -> NoReturn:
        raise OptionError(message)


def parse(words: Sequence[str]) -> RecipeOptions:
    """Read options that are spelled `--NAME VALUE` or `--NAME=VALUE`."""
    parser = _Parser(allow_abbrev=False, add_help=False)
    for name, default in (("recipe", "mini"), ("kaldi-dir", ""), ("corpus", ""), ("out", "")):
        parser.add_argument(f"--{name}", default=default)
    for name in ("experiment", "features"):
        parser.add_argument(f"--{name}", default="")
    for name in ("config", "set"):
        parser.add_argument(f"--{name}", action="append", default=[])
    for name, number in (("stage", 0), ("stop-stage", 7), ("nj", os.cpu_count() or 1)):
        parser.add_argument(f"--{name}", type=int, default=number)
    for name, several in (("nproc", None), ("seeds", 1), ("dim", None)):
        parser.add_argument(f"--{name}", type=int, default=several)
    parser.add_argument("--force", action="store_true")
    given = vars(parser.parse_args(list(_join(words))))
    return RecipeOptions(**given | {name: tuple(given[name]) for name in ("config", "set")})


def _join(words: Sequence[str]) -> Iterator[str]:
    """Each option in one word with its value, which may begin with a dash, as for the shell."""
    left = iter(words)
    for word in left:
        # A value that begins with a dash would pass for an option if it stood alone.
        value = None if "=" in word or word == "--force" else next(left, None)
        yield word if value is None else f"{word}={value}"

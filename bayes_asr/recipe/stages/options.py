"""The options of run.sh, which its header declares and local/options.sh reads."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_type_hints

from bayes_asr.base.errors import InputError


class OptionError(InputError):
    """A mistake on the command line; run.sh ends with status 2, before anything has begun."""


@dataclass(frozen=True, kw_only=True)
class RecipeOptions:
    """The values of run.sh's options; an empty text or None where an option has none.

    Folders and files are as they were spelled.
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


# By the type of an option; a shell says "" for what is not there and "true" for a switch.
CONVERTERS: Mapping[Any, Callable[[list[str]], Any]] = {
    str: lambda values: values[-1],
    int: lambda values: int(values[-1]),
    int | None: lambda values: int(values[-1]) if values[-1] else None,
    bool: lambda values: values[-1] == "true",
    tuple[str, ...]: tuple,
}


def read_options(words: Sequence[str]) -> RecipeOptions:
    """Return the options that run.sh hands on, each `--NAME=VALUE`; the last one of a name counts.

    A name that may be repeated has a word for each value, or none.
    """
    values: dict[str, list[str]] = {}
    for word in words:
        name, _, value = word.removeprefix("--").partition("=")
        values.setdefault(name.replace("-", "_"), []).append(value)
    types = get_type_hints(RecipeOptions)
    return RecipeOptions(**{n: CONVERTERS[kind](values.get(n, [])) for n, kind in types.items()})

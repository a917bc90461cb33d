"""Space of a search: values by key, drawn at random or all combined."""

import itertools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bayes_asr.base.errors import InputError, nearest
from bayes_asr.config.located import Located, compose, locate_values

LARGEST = {int: 2**62, float: 1e300}  # ends of a range: whole numbers are drawn as int64
MOST_TRIALS = 1_000_000
INDEX = "data.index"  # the only key that says where something is written
DIGITS = 4  # of a number that is drawn
KINDS = ("uniform", "log_uniform", "ints", "choice")
Settings = dict[str, Any]
"""The value of each key in one trial."""


@dataclass(frozen=True)
class Choice:
    """Choice of one of several values, each as likely."""

    values: tuple[Any, ...]

    def draw(self, rng: np.random.Generator) -> Any:
        """Draw one of the values."""
        return self.values[rng.integers(len(self.values))]


@dataclass(frozen=True)
class FloatRange:
    """Number of a range, both ends included, to DIGITS digits; or its logarithm is uniform."""

    low: float
    high: float
    in_logarithm: bool = False

    def draw(self, rng: np.random.Generator) -> float:
        """One number."""
        if self.in_logarithm:
            value = math.exp(rng.uniform(math.log(self.low), math.log(self.high)))
        else:
            value = rng.uniform(self.low, self.high)
        # Rounding may leave the range.
        return min(max(float(f"{value:.{DIGITS}g}"), self.low), self.high)


@dataclass(frozen=True)
class IntRange:
    """Whole number of a range, both ends included."""

    low: int
    high: int

    def draw(self, rng: np.random.Generator) -> int:
        """One number."""
        return int(rng.integers(self.low, self.high + 1))


Values = Choice | FloatRange | IntRange


def read_space(path: Path) -> dict[str, Values]:
    """Read a file of keys and their values.

    `key: [a, b]` and `key: {choice: [a, b]}` are some values, `key: {uniform: [low, high]}`,
    `log_uniform` and `ints` a range. InputError with the line for anything else.
    """
    root = compose(path)
    entries = locate_values(root, path) if root is not None else {}
    if not isinstance(entries, dict) or not entries:
        raise InputError(f"{path}: a space is a mapping of keys to values, {{key: [a, b]}}")
    return {key: _parse(key, entry) for key, entry in entries.items()}


def _parse(key: str, entry: Any) -> Values:
    if isinstance(entry, Located):
        return _parse_kind(key, "choice", entry)
    (kind, located), *further = entry.items() or [("", None)]
    if further or kind not in KINDS or not isinstance(located, Located):
        where = _locate_entry(entry)
        raise InputError(
            f"{where}{key} is {{{', '.join(entry)}: ...}}; write one of {', '.join(KINDS)}, and its"
            f" values as a list{nearest(kind, KINDS)}"
        )
    return _parse_kind(key, kind, located)


def _locate_entry(entry: Mapping[str, Any]) -> str:
    places = (each.where for each in entry.values() if isinstance(each, Located))
    return next((f"{place}: " for place in places), "")


def _parse_kind(key: str, kind: str, located: Located) -> Values:
    values = located.value
    if not isinstance(values, list) or not values:
        raise InputError(f"{located.where}: {key} has no list of values; write {key}: [a, b]")
    if kind == "choice":
        _check_choices(key, located)
        return Choice(tuple(values))
    numbers = (int,) if kind == "ints" else (int, float)
    # `type` and not `isinstance`: YAML's true is no number here.
    # The comparison also refuses NaN.
    is_range = len(values) == 2 and all(
        type(x) in numbers and abs(x) <= LARGEST[type(x)] for x in values
    )
    if not is_range or not values[0] <= values[1] or (kind == "log_uniform" and values[0] <= 0):
        above = " above 0" * (kind == "log_uniform")
        what = "whole numbers" if kind == "ints" else "numbers"
        raise InputError(
            f"{located.where}: {key} is {kind} of {values}; name two {what}{above}, the lower first"
        )
    low, high = values
    return IntRange(low, high) if kind == "ints" else FloatRange(low, high, kind == "log_uniform")


def _check_choices(key: str, located: Located) -> None:
    """InputError for a value that --set could not give, or that is a place out of the search."""
    for value in located.value:
        try:
            json.dumps(value)
        except TypeError:
            raise InputError(
                f"{located.where}: {key} is {value}, a {type(value).__name__}; write text in quotes"
            ) from None
        if key == INDEX and (Path(str(value)).is_absolute() or ".." in Path(str(value)).parts):
            raise InputError(
                f"{located.where}: {key} is {value}, but a search writes below its --out alone;"
                f" name a folder there, or give --set {key}={value}"
            )


def draw(space: Mapping[str, Values], seed: int, number: int) -> Settings:
    """Draw the settings of a trial, by (seed, number, key) and nothing else.

    So more trials, or another key, leave the values as they are.
    """
    return {
        key: values.draw(np.random.default_rng([seed, number, *key.encode()]))
        for key, values in space.items()
    }


def list_grid(space: Mapping[str, Values]) -> Iterator[Settings]:
    """List every combination, the last key changing fastest; InputError for a range."""
    choices: list[tuple[Any, ...]] = []
    for key, values in space.items():
        if not isinstance(values, Choice):
            raise InputError(f"{key} is a range, which has no grid; write its values, [a, b]")
        choices.append(values.values)
    trials = math.prod(map(len, choices))
    if trials > MOST_TRIALS:
        raise InputError(f"the grid has {trials} points, and {MOST_TRIALS} at most are trained")
    for combination in itertools.product(*choices):
        yield dict(zip(space, combination, strict=True))


def as_overrides(settings: Mapping[str, Any]) -> Sequence[str]:
    """Settings as `--set` takes them; JSON is YAML."""
    return [f"{key}={json.dumps(value)}" for key, value in settings.items()]

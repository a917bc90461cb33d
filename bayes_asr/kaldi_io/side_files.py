"""Files of a run directory by name, and its small ones of JSON, read by key.

What is missing or of another type is named.
"""

import json
import re
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bayes_asr.base.errors import InputError, name_some
from bayes_asr.base.files import is_there, read_bytes

CONFIG, ENVIRONMENT = "config.yaml", "env.json"
TRANSITIONS = "transitions"  # of env.json: the hash of those of final.mdl, by `hash_transitions`
BEST, LAST = "best.pt", "last.pt"  # networks: which dev judges best, and of the last epoch
COMBINATION = "networks.json"  # of runs that average the networks of others
HISTORY = "history.jsonl"
HISTORY_KEYS = ("epoch", "dev_error", "frames_per_second", "seconds")  # in each of its lines
ERRORS = ("train_error", "dev_error")  # of its lines: null where the criterion counts no errors
HALVES = re.compile("[\ud800-\udfff]")  # of surrogate pairs, which no file can hold


def check_is_run(directory: Path) -> None:
    """InputError for a folder that is no run directory."""
    if is_there(directory / CONFIG):
        return
    why, remedy = "there is no such folder", "name one that bayes-asr train wrote"
    if directory.is_file():
        why = "it is a file, and no whole one of export --archive"
        if zipfile.is_zipfile(directory):
            why = "it is a file (unpack one of export --archive)"
    elif directory.is_dir():
        why = f"it has no {CONFIG}"
        # As deep as seeds lie below the folder of all recipes: more may be a whole disk.
        depths = ("/".join(["*"] * depth) for depth in (1, 2, 3))
        below = [str(path.parent) for at in depths for path in directory.glob(f"{at}/{CONFIG}")]
        remedy = f"name one below it: {name_some(sorted(below))}" if below else remedy
    raise InputError(f"{directory}: not a run directory, {why}; {remedy}")


def _is_number(value: Any) -> bool:
    """Whether it is a number that stays finite in the sums that are made of it."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e100


KINDS: dict[str, Callable[[Any], bool]] = {
    "a text": lambda value: isinstance(value, str) and not HALVES.search(value),
    "a number": _is_number,
    "a whole number": lambda value: _is_number(value) and isinstance(value, int),
    "a list": lambda value: isinstance(value, list),
    "an object": lambda value: isinstance(value, dict),
    "null": lambda value: value is None,
}


def take(entry: Any, key: str, *kinds: str) -> Any:
    """The value of a key of a JSON object, which is of one of `kinds`, as in `KINDS`."""
    check(entry, "the entry", "an object")
    if key not in entry:
        raise InputError(f"{key} is missing")
    return check(entry[key], key, *kinds)


def check(value: Any, name: str, *kinds: str) -> Any:
    """The value, if it is of one of `kinds`."""
    if not any(KINDS[kind](value) for kind in kinds):
        raise InputError(f"{name} is {repr(value)[:40]}, not {' or '.join(kinds)}")
    return value


def read_json(path: Path) -> Any:
    """The value in a file of JSON."""
    try:
        return parse_json(read_bytes(path))
    except ValueError as error:
        raise InputError(f"{path}: not JSON: {error}") from None


def parse_json(content: bytes) -> Any:
    """The value of a file of JSON; ValueError where there is none."""
    try:
        return json.loads(content.decode())
    except RecursionError:
        raise ValueError("too many brackets within each other") from None


def read_environment(run: Path) -> dict[str, Any]:
    """The content of env.json; empty where there is none that training wrote."""
    try:
        environment = parse_json(read_bytes(run / ENVIRONMENT))
    except (FileNotFoundError, ValueError):
        return {}
    return environment if isinstance(environment, dict) else {}


def read_history(run: Path, measured: Sequence[str] = HISTORY_KEYS) -> list[dict[str, Any]]:
    """The lines of history.jsonl, one for each epoch, with numbers for what was measured.

    Empty where there is no such file.
    """
    path = run / HISTORY
    try:
        lines = read_bytes(path).splitlines()
    except FileNotFoundError:
        return []
    entries = []
    for number, line in enumerate(lines, start=1):
        try:
            # Python's json reads NaN and long integers too: `_is_number` bounds what counts.
            entries.append(parse_json(line))
            for key in measured:
                take(entries[-1], key, "a number", *["null"] * (key in ERRORS))
        except ValueError as error:  # as InputError is
            raise InputError(
                f"{path}: not a JSON object on each line with {', '.join(measured)}: line {number}:"
                f" {error}; restore the file, or remove the line"
            ) from None
    return entries

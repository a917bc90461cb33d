"""Verbs as attacks run them: in this process, or as users do, with options of any size."""

import io
import random
import re
import runpy
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path
from unittest import mock

from bayes_asr.cli import main
from bayes_asr.cli.arguments import Number, processes
from tests.attacks.extremes import EXTREMES, numeric_options

CONTROLS = re.compile(r"[\0-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2028\u2029\ud800-\udfff]")
"""What a terminal would obey: all controls but tabulators and ends of lines, turns of writing."""


class RefusedError(Exception):
    """A verb said in one line what is wrong."""


def verb(*words: object) -> str:
    """Run a verb; RefusedError if it says no in one line, AssertionError if in another way.

    Returns all that it printed.
    """
    status, printed, said = run_main(None, [str(word) for word in words])
    errors = [line for line in said.splitlines() if ": error: " in line]
    assert len(errors) == (status != 0), (status, said)
    assert "Traceback" not in said, said
    assert not CONTROLS.search(printed + said), (printed, said)
    if status:
        raise RefusedError(errors[0])
    return printed + said


def run_here(script: Path | None, words: Sequence[str]) -> tuple[object, str, str]:
    """Status, output and messages of a script, or of `bayes-asr`, in this process."""
    said, printed = io.StringIO(), io.StringIO()
    status: object
    called = mock.patch.object(sys, "argv", [str(script or "bayes-asr"), *words])
    with redirect_stderr(said), redirect_stdout(printed), called:
        try:
            status = main_of(script)(words)
        except SystemExit as stopped:
            status = stopped.code
    return status, printed.getvalue(), said.getvalue()


def run_apart(script: Path | None, words: Sequence[str]) -> tuple[object, str, str]:
    """The same in a process as a user starts it."""
    program = [str(script)] if script else ["-m", "bayes_asr"]
    try:
        done = subprocess.run(
            [sys.executable, *program, *words], capture_output=True, stdin=subprocess.DEVNULL
        )
    except ValueError:  # a zero byte, which no command line can hold
        return run_here(script, words)
    printed, said = (text.decode(errors="replace") for text in (done.stdout, done.stderr))
    return done.returncode, printed, said


run_main = run_here


def real_processes() -> AbstractContextManager[object]:
    """Let verbs run as users run them."""
    return mock.patch(f"{__name__}.run_main", run_apart)


@cache
def main_of(script: Path | None) -> Callable[[Sequence[str]], object]:
    """The function that a script, or `bayes-asr`, calls with its words."""
    return runpy.run_path(str(script))["main"] if script else main


def draw_options(rng: random.Random, name: str, most: int = 2) -> Iterator[str]:
    """Some numeric options of a verb, inside, at the ends of and outside of their ranges."""
    options = list(numeric_options(name))
    for option, number in rng.sample(options, rng.randint(0, min(most, len(options)))):
        yield f"{option}={rng.choice([*draw_inside(rng, number), *EXTREMES])}"


def draw_inside(rng: random.Random, number: Number) -> tuple[object, ...]:
    """Numbers that an option takes; more than one process would only take time."""
    low, high = number.range.low, number.range.high
    if number == processes:
        return (1,)
    return (low, high, number.kind(low + rng.random() * (high - low)), number.kind(low) + 1) * 4

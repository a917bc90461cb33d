"""Verbs as attacks run them: in this process, with options of any size."""

import io
import random
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout

from bayes_asr.cli import main
from bayes_asr.cli.arguments import Number, processes
from tests.attacks.extremes import EXTREMES, numeric_options


class RefusedError(Exception):
    """A verb said in one line what is wrong."""


def verb(*words: object) -> str:
    """Run a verb; RefusedError if it says no in one line, AssertionError if in another way.

    Returns all that it printed.
    """
    said, printed = io.StringIO(), io.StringIO()
    status: object
    with redirect_stderr(said), redirect_stdout(printed):
        try:
            status = main([str(word) for word in words])
        except SystemExit as stopped:
            status = stopped.code
    errors = [line for line in said.getvalue().splitlines() if ": error: " in line]
    assert len(errors) == (status != 0), (status, said.getvalue())
    assert "Traceback" not in said.getvalue(), said.getvalue()
    if status:
        raise RefusedError(errors[0])
    return printed.getvalue() + said.getvalue()


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

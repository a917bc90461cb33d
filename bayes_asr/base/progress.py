"""Progress of a long piece of work: a bar on a terminal, in a log a line now and then."""

import os
import sys
import time
from collections.abc import Iterable, Iterator, Sized
from datetime import timedelta
from types import TracebackType
from typing import Self, TextIO, TypeVar

from tqdm import tqdm

from bayes_asr.base.log import LOGGER

SOONEST, LATEST = 20.0, 600.0  # seconds between two lines; between them, one for each tenth
TERMINAL = "BAYES_ASR_TERMINAL"
"""A variable that names the terminal of who reads standard error through a pipe, as of run.sh."""

Item = TypeVar("Item")


class Progress:
    """Work of `total` units, None where nobody knows, of which `initial` are done already."""

    def __init__(
        self, what: str, unit: str, total: int | None, *, initial: int = 0, shown: bool = True
    ) -> None:
        """Show nothing unless `shown`, as in all but the first of several processes."""
        self.what, self.unit, self.total, self.done = what, unit, total, initial
        self._initial, self._start = initial, time.monotonic()
        self._said, self._tenth = self._start, 0
        on_terminal = sys.stderr.isatty()
        # Behind a pipe the bar goes round it, and lines go through it.
        self._terminal = None if on_terminal or not shown else _open_terminal()
        self._bar = tqdm(
            file=self._terminal,
            total=total,
            initial=initial,
            desc=what,
            unit=unit,
            leave=False,
            disable=not shown or not (on_terminal or self._terminal),
        )
        self._lines = shown and not on_terminal

    def __enter__(self) -> Self:
        """Nothing is shown before the first unit."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        """Take the bar away."""
        self._bar.close()
        if self._terminal:
            self._terminal.close()

    def advance(self, **figures: str) -> None:
        """One unit more is done; figures: what else to show."""
        self.done += 1
        self._bar.update()
        if figures:
            self._bar.set_postfix(figures)
        if self._lines and self._is_due():
            self._bar.clear()
            shown = "".join(f", {name} {value}" for name, value in figures.items())
            LOGGER.info("%s: %s%s", self.what, self._describe(), shown)

    def _is_due(self) -> bool:
        """Whether it is time for a line; notes it."""
        # Without a total the tenth stays 0, and only LATEST asks for a line.
        now, tenth = time.monotonic(), 10 * self.done // (self.total or sys.maxsize)
        waited = now - self._said
        # At most one line in SOONEST seconds, at least one in LATEST, else one for each tenth.
        too_soon = waited < SOONEST or (waited < LATEST and tenth == self._tenth)
        if too_soon or self.done == self.total:
            return False
        self._said, self._tenth = now, tenth
        return True

    def _describe(self) -> str:
        """The units that are done, and the time that the others will take at this pace."""
        if not self.total:
            return f"{self.done} {self.unit}"
        # Units done before this start took no time of this process.
        pace = (time.monotonic() - self._start) / (self.done - self._initial)
        remaining = format_seconds(pace * max(0, self.total - self.done))
        return f"{self.done} of {self.total} {self.unit}, {remaining} left"


def _open_terminal() -> TextIO | None:
    """The terminal that `TERMINAL` names; None where there is none, or not any longer."""
    try:
        # Nothing is made or emptied where the name is not that of a terminal.
        file = open(  # noqa: SIM115 - closed with the bar
            os.environ[TERMINAL],
            "w",
            encoding="utf-8",
            opener=lambda name, _: os.open(name, os.O_WRONLY | os.O_NOCTTY),
        )
    except (KeyError, OSError):
        return None
    if file.isatty():
        return file
    file.close()
    return None


def follow(
    items: Iterable[Item], what: str, unit: str = "utt", total: int | None = None
) -> Iterator[Item]:
    """The items, while their progress is shown; `total` where they have no length."""
    # A generator has no length.
    count = len(items) if isinstance(items, Sized) else total
    with Progress(what, unit, count) as progress:
        for item in items:
            yield item
            progress.advance()


def format_seconds(seconds: float) -> str:
    """A duration as `1:02:03`."""
    return str(timedelta(seconds=round(seconds)))

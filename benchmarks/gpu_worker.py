"""A process that measures cases on a card. Where it hangs, dies, or has a card that answers no
more, another takes its place, and the path at fault is left out of what is left of the network.
"""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

from card import Card, Dry
from gpu_case import (
    Attempt,
    Bench,
    Report,
    Row,
    Turns,
    UselessError,
    describe,
    describe_recurrence,
    describe_steps,
    measure_recurrence,
    measure_steps,
)
from trained import Case, Size

START = 120.0  # seconds in which torch is imported and a card begins


class Job(NamedTuple):
    """A case and the paths that are measured; recurrence: that alone; launches: count those of a
    step.
    """

    case: Case
    paths: Sequence[str]
    recurrence: bool = False
    launches: bool = False

    def describe_failure(self, path: str, outcome: str) -> Row:
        """The row of a path that has no figures."""
        if self.recurrence:
            return describe_recurrence(self.case, path, ([], []), outcome)
        return describe_steps(self.case, path, None, None, outcome)


class Settings(NamedTuple):
    """The parts of the bench of a process; dry: on a CPU."""

    dry: bool
    size: Size
    turns: Turns
    clone: Path | None


class Failure(NamedTuple):
    """A case cannot be measured."""

    outcome: str


class LostError(RuntimeError):
    """A process hangs or has died."""


Measure = Callable[[Job], Iterable[Report]]


def open_bench(settings: Settings) -> Measure:
    """The measurement of jobs on the card of this process."""
    if settings.dry:
        with suppress(ImportError):  # triton is not everywhere
            from bayes_asr.nn.kernels.triton import program

            program.PROGRAMS = 1  # its interpreter runs one program after the other
    bench = Bench(Dry() if settings.dry else Card(), settings.size, settings.turns, settings.clone)

    def measure(job: Job) -> Iterator[Report]:
        if job.recurrence:
            return measure_recurrence(bench, job.case, job.paths)
        return measure_steps(bench, job.case, job.paths, launches=job.launches)

    return measure


def work(connection: Any, open_: Callable[[Any], Measure], settings: Any) -> None:
    """Say None when ready, and answer jobs until None arrives, each by its reports and None."""
    measure = open_(settings)
    connection.send(None)
    while (job := connection.recv()) is not None:
        try:
            for report in measure(job):
                connection.send(report)
        except UselessError:
            os._exit(1)  # without what torch would still do with the card
        except Exception as error:
            connection.send(Failure(describe(error)))
        connection.send(None)


class Worker:
    """Measures jobs in a process of its own until `deadline`, a moment of time.monotonic().

    open_: makes what measures of the settings, in that process; limit: seconds without a report
    after which it hangs.
    """

    def __init__(
        self,
        settings: Any,
        *,
        deadline: float,
        limit: float,
        open_: Callable[[Any], Measure] = open_bench,
    ) -> None:
        self._settings, self._open = settings, open_
        self._deadline, self._limit = deadline, limit
        self._at_fault: set[tuple[str, str]] = set()  # networks and paths
        self._start()

    def measure(self, job: Job) -> Iterator[Row]:
        """Yield a row for each path; fewer where the deadline is reached."""
        pending = list(job.paths)
        for path in job.paths:
            if (job.case.network, path) in self._at_fault:
                yield job.describe_failure(path, "left out: it failed in a case before")
                pending.remove(path)
        while pending and time.monotonic() < self._deadline:
            self._path = pending[0]
            try:
                for row in self._ask(job._replace(paths=tuple(pending))):
                    yield row
                    pending.remove(row["path"])
                return
            except LostError as error:
                self.close()
                if time.monotonic() >= self._deadline:
                    return
                self._at_fault.add((job.case.network, self._path))
                if self._path in pending:
                    yield job.describe_failure(self._path, str(error))
                    pending.remove(self._path)
                self._start()

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.join()
        self._connection.close()

    def _start(self) -> None:
        context = get_context("spawn")
        self._connection, end = context.Pipe()
        arguments = (end, self._open, self._settings)
        self._process = context.Process(target=work, args=arguments, daemon=True)
        self._process.start()
        end.close()  # so that the end of the process ends the connection
        self._ready = False

    def _ask(self, job: Job) -> Iterator[Row]:
        """Rows of a job; LostError where the process hangs or dies."""
        missing = list(job.paths)
        try:
            if not self._ready:
                self._ready = self._receive(START) is None
            self._connection.send(job)
            while (report := self._receive(self._limit)) is not None:
                if isinstance(report, Attempt):
                    self._path = report.path
                elif isinstance(report, Failure):
                    for path in missing:
                        yield job.describe_failure(path, report.outcome)
                else:
                    missing.remove(report["path"])
                    yield report
        except (EOFError, OSError):
            raise LostError("its process died, or the card failed") from None

    def _receive(self, limit: float) -> Any:
        seconds = min(limit, self._deadline - time.monotonic())
        if not self._connection.poll(max(seconds, 0)):
            raise LostError(f"no answer within {limit:g} s")
        return self._connection.recv()

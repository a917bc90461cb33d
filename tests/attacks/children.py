"""Calls in children: a fresh one each, forked from a process that has imported everything once.

What a child takes is measured: time without waits for a processor, which other programs may hold,
and resident memory, its own and that of the processes which it waited for.
"""

import os
import pickle
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Literal

LOOK = 0.25  # seconds between two looks at what a child has taken


@dataclass(frozen=True)
class Limits:
    """What a call may take: seconds, and KiB of resident memory."""

    seconds: float = 60
    memory: int = 2 << 20


@dataclass(frozen=True)
class Ended:
    """How a child ended, what its function returned or raised, and what it printed."""

    status: int
    value: Any
    raised: str
    said: str
    over: Literal["", "seconds", "memory"]


def call(function: Callable[[], Any], limits: Limits) -> Ended:
    """Call a function in a child with a session, an output and limits of its own."""
    with TemporaryFile() as screen, TemporaryFile() as report:
        child = os.fork()
        if not child:
            _be_child(function, screen.fileno(), report.fileno())
        over = _watch(child, limits)
        _, status, used = os.wait4(child, 0)
        with suppress(ProcessLookupError):  # what it has started
            os.killpg(child, signal.SIGKILL)
        if not over and used.ru_maxrss > limits.memory:
            over = "memory"
        screen.seek(0)
        said = screen.read().decode(errors="replace")
        report.seek(0)
        content = report.read()
    value, raised = pickle.loads(content) if content else (None, "")  # noqa: S301
    return Ended(os.waitstatus_to_exitcode(status), value, raised, said, over)


def fetch(function: Callable[[], Any]) -> Any:
    """What a function returns in a child; this process then has imported what the child had."""
    ended = call(lambda: (function(), sorted(sys.modules)), Limits(600, 8 << 20))
    assert ended.value, ended
    value, modules = ended.value
    for name in modules:
        if name not in sys.modules and name.partition(".")[0] not in ("__main__", "__mp_main__"):
            with suppress(ImportError):  # those that others make up
                import_module(name)
    return value


def _be_child(function: Callable[[], Any], screen: int, report: int) -> None:
    status = 70
    try:
        os.setsid()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(screen, 1)
        os.dup2(screen, 2)
        try:
            told = function(), ""
        except BaseException:
            told = None, traceback.format_exc()
        sys.stdout.flush()
        sys.stderr.flush()
        with open(report, "wb", closefd=False) as file:
            pickle.dump(told, file)
        status = 0
    finally:
        os._exit(status)


def _watch(child: int, limits: Limits) -> Literal["", "seconds", "memory"]:
    """Wait for the end of a child, which does not go beyond its limits; says which it would."""
    looked, taken = time.monotonic(), 0.0
    waits: dict[int, float] = {}
    ends = os.pidfd_open(child)
    try:
        while not select.select([ends], [], [], LOOK)[0]:
            used = _used(child)
            # What waits for another process of the session does not wait for a processor.
            waited = max((wait - waits.get(p, 0.0) for p, (wait, _) in used.items()), default=0.0)
            elapsed, looked = time.monotonic() - looked, time.monotonic()
            taken += elapsed - min(waited, elapsed)
            waits = {process: wait for process, (wait, _) in used.items()}
            over_memory = any(resident > limits.memory for _, resident in used.values())
            if over_memory or taken > limits.seconds:
                os.kill(child, signal.SIGKILL)
                return "memory" if over_memory else "seconds"
    finally:
        os.close(ends)
    return ""


def _used(session: int) -> dict[int, tuple[float, int]]:
    """Seconds that each process of a session has waited for a processor, and its KiB."""
    page, used = os.sysconf("SC_PAGESIZE") >> 10, {}
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, IndexError):  # it has ended
            process = int(place.name)
            if os.getsid(process) == session:
                waited = int((place / "schedstat").read_text().split()[1]) / 1e9
                used[process] = waited, int((place / "statm").read_text().split()[1]) * page
    return used

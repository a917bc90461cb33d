"""Signals that ask for an end: noted, so that everything can be saved first."""

import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

from bayes_asr.base.processes import group

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@dataclass
class ReceivedSignal:
    """The number of the signal that came in `note_signals`; 0: none yet."""

    number: int = 0


@contextmanager
def note_signals() -> Iterator[ReceivedSignal]:
    """Note the first of SIGNALS instead of ending; after it, SIGINT has its usual effect.

    The others may well come twice, to the process and to its group, and change nothing then. So may
    SIGINT where there are several processes, from the terminal and from what started them.

    One that is ignored, as in background jobs of a script or by nohup, stays ignored. Outside the
    main thread, where Python lets nobody handle signals, none is ever noted.
    """
    notice = ReceivedSignal()
    if threading.current_thread() is not threading.main_thread():
        yield notice
        return
    previous = {number: signal.getsignal(number) for number in SIGNALS}
    previous = {n: handler for n, handler in previous.items() if handler is not signal.SIG_IGN}

    def note(number: int, frame: FrameType | None) -> None:
        notice.number = notice.number or number
        # A second interrupt ends a single process at once, as a user expects.
        if group.size() == 1:
            _handle({n: handler for n, handler in previous.items() if n == signal.SIGINT})

    try:
        _handle(dict.fromkeys(previous, note))
        yield notice
    except BaseException:
        # Of several processes, the others are ended by a signal when one has ended: it must not
        # come before they have said why.
        if group.size() == 1:
            _handle(previous)
        raise
    _handle(previous)


def _handle(handlers: Mapping[signal.Signals, Any]) -> None:
    for number, handler in handlers.items():
        signal.signal(number, handler)

"""One function over many utterances, in order, by processes."""

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.context import SpawnContext, SpawnProcess
from typing import Any, TypeVar

from bayes_asr.base.errors import InputError
from bayes_asr.base.processes.malloc import THREADS, share_threads
from bayes_asr.base.shards import Mapper

SAFE_PATH = "PYTHONSAFEPATH"
ENDS = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}

Input = TypeVar("Input")
Output = TypeVar("Output")


def map_utterances(
    function: Callable[[str, Input], Output], utterances: Iterable[tuple[str, Input]], nj: int
) -> Iterator[Output]:
    """Yield function(utterance, input) in order, from `nj` processes, or from this one for 1.

    The processes are a few utterances ahead, so memory stays bounded; `function` and what it takes
    and gives must pickle.  Raises InputError, naming the utterance, if a process dies.
    """
    with open_pool(nj) as mapper:
        yield from mapper(function, utterances)


@contextmanager
def open_pool(nj: int) -> Iterator[Mapper]:
    """Yield `map_utterances` for many calls, between which the `nj` processes live on."""
    if nj == 1:
        yield map_serially
        return
    context = _Context()
    with _environment_of_workers(nj):  # this starts a process that tracks resources
        pool = ProcessPoolExecutor(nj, context, _end_with_parent)
    with pool:
        try:
            yield _Pool(pool, context, nj)
        except BaseException:
            context.terminate()  # nobody wants what they are at
            raise


def map_serially(
    function: Callable[[str, Input], Output], items: Iterable[tuple[str, Input]]
) -> Iterator[Output]:
    """Yield function(name, item) in order, from this process."""
    return (function(*item) for item in items)


@dataclass(frozen=True)
class _Pool:
    """Applies functions by the processes of `pool`, which `context` has started."""

    pool: ProcessPoolExecutor
    context: "_Context"
    nj: int

    def __call__(
        self, function: Callable[[str, Input], Output], items: Iterable[tuple[str, Input]]
    ) -> Iterator[Output]:
        ahead: deque[tuple[str, Future[Output]]] = deque()
        utt = ""
        try:
            for utt, item in items:
                with _environment_of_workers(self.nj):
                    ahead.append((utt, self.pool.submit(function, utt, item)))
                # Two items for each worker wait: enough to keep all busy, and memory stays bounded.
                if len(ahead) > 2 * self.nj:
                    utt, future = ahead.popleft()
                    yield future.result()
            while ahead:
                utt, future = ahead.popleft()
                yield future.result()
        except BrokenProcessPool:
            self.pool.shutdown()  # which waits until all have ended
            died = self.context.say_how_one_died()
            raise InputError(f"{utt}: {died}; try a smaller nj") from None


class _Context(SpawnContext):
    """Starts the workers of a pool, and knows them after their end."""

    def __init__(self) -> None:
        super().__init__()
        self._workers: list[SpawnProcess] = []

    def Process(self, *args: Any, **kwargs: Any) -> SpawnProcess:  # type: ignore[override]  # noqa: N802
        worker = SpawnProcess(*args, **kwargs)
        self._workers.append(worker)
        return worker

    def terminate(self) -> None:
        """End the workers at once."""
        for worker in self._workers:
            worker.terminate()

    def say_how_one_died(self) -> str:
        """The end of the worker that died, in words; the pool ends the others by SIGTERM."""
        # None and 0 are workers that live or ended well.
        statuses = {worker.exitcode for worker in self._workers} - {None, 0, -signal.SIGTERM}
        if statuses == {-signal.SIGKILL}:
            return (
                "a worker process was killed (status -9), as the kernel does where memory runs out"
            )
        codes = ", ".join(map(str, sorted(status for status in statuses if status is not None)))
        return f"a worker process died with status {codes or 'unknown'}"


def _end_with_parent() -> None:
    """Leave interrupts to the parent process, but end where that was killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # They were blocked at the start, so no interrupt came before it was ignored.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDS)
    parent = multiprocessing.parent_process()

    # A thread waits for the parent, since the main thread may be deep in a computation.
    def watch() -> None:
        if parent:
            parent.join()
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextmanager
def _environment_of_workers(nj: int) -> Iterator[None]:
    """Start no Python that would import files of the working directory, nor one of all threads.

    Until it leaves interrupts to this process, it does not hear of them.
    """
    # The workers share the processors, each with its part of the threads.
    variables = {SAFE_PATH: "1", THREADS: os.environ.get(THREADS, share_threads(nj))}
    previous = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    # A worker is born with interrupts blocked, since it inherits the mask, and so do the threads of
    # the pool: a signal that one of them took would not wake the main thread, which acts on it.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ENDS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for name, value in previous.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value

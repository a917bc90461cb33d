"""A pool of processes: in order, and each with its share of the processors."""

import os
import signal

import pytest

from bayes_asr.base.processes.malloc import THREADS
from bayes_asr.base.processes.pool import map_utterances, open_pool
from tests.support.resting import resting


def say_threads(utt: str, item: int) -> tuple[str, int, str]:
    return utt, item, os.environ.get(THREADS, "")


@pytest.mark.slow
@pytest.mark.parametrize(("given", "due"), [(None, "2"), ("7", "7")])
def test_workers_share_the_processors_unless_told_otherwise(
    given: str | None, due: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a job may use is less than the machine has."""
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(5)), raising=False)
    if given is None:
        monkeypatch.delenv(THREADS, raising=False)
    else:
        monkeypatch.setenv(THREADS, given)
    items = [(f"u{number}", number) for number in range(7)]
    assert list(map_utterances(say_threads, items, 2)) == [(*item, due) for item in items]
    assert os.environ.get(THREADS) == given


@pytest.mark.slow
def test_processes_of_an_open_pool_serve_many_calls() -> None:
    with open_pool(2) as way:
        first = set(way(say_process, [(str(n), n) for n in range(6)]))
        again = set(way(say_process, [(str(n), n) for n in range(6)]))
    assert len(first | again) <= 2
    assert os.getpid() not in first


def say_process(utt: str, item: int) -> int:
    return os.getpid()


RESTING = """
from bayes_asr.base.processes.pool import map_utterances
from tests.support.resting import ITEMS, say_and_rest
try:
    list(map_utterances(say_and_rest, ITEMS, 2))
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_workers_end_with_their_parent_without_a_traceback(number: signal.Signals) -> None:
    """A terminal interrupts all processes, a queue may end the first one alone."""
    with resting(RESTING) as parent:
        end = os.killpg if number == signal.SIGINT else os.kill
        end(parent.pid, number)
        said, complaint = parent.communicate(timeout=30)  # the workers, too, have closed them
    assert said == ("interrupted\n" if number == signal.SIGINT else "")
    assert "Traceback" not in complaint  # Python counts semaphores there

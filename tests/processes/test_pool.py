"""A pool of processes: in order, and each with its share of the processors."""

import os

import pytest

from bayes_asr.processes.pool import THREADS, map_utterances, open_pool


def say_threads(utt: str, item: int) -> tuple[str, int, str]:
    return utt, item, os.environ.get(THREADS, "")


@pytest.mark.parametrize(("given", "due"), [(None, "2"), ("7", "7")])
def test_workers_share_the_processors_unless_told_otherwise(
    given: str | None, due: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 5)
    if given is None:
        monkeypatch.delenv(THREADS, raising=False)
    else:
        monkeypatch.setenv(THREADS, given)
    items = [(f"u{number}", number) for number in range(7)]
    assert list(map_utterances(say_threads, items, 2)) == [(*item, due) for item in items]
    assert os.environ.get(THREADS) == given


def test_processes_of_an_open_pool_serve_many_calls() -> None:
    with open_pool(2) as way:
        first = set(way(say_process, [(str(n), n) for n in range(6)]))
        again = set(way(say_process, [(str(n), n) for n in range(6)]))
    assert len(first | again) <= 2
    assert os.getpid() not in first


def say_process(utt: str, item: int) -> int:
    return os.getpid()

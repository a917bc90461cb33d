"""A process whose two workers rest, to be ended from outside."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.places import ROOT

ITEMS = [(str(number), number) for number in range(9)]


def say_and_rest(utt: str, item: int) -> None:
    """Work for `map_utterances`."""
    os.write(1, b"resting\n")
    time.sleep(60)


@contextmanager
def resting(code: str, *arguments: str) -> Iterator["subprocess.Popen[str]"]:
    """A Python, the first of its group, that runs the code, when two workers have begun to rest."""
    parent = subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with parent:
        assert parent.stdout
        assert [parent.stdout.readline() for _ in range(2)] == ["resting\n"] * 2
        yield parent

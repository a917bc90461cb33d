"""Benches of benchmarks/gpu_worker.py with paths that hang, die, or make a card useless."""

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tests.support.places import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))
from gpu_case import Attempt, Report, UselessError
from gpu_worker import Job


def open_faulty(settings: Any) -> Callable[[Job], Iterable[Report]]:
    """What fails by the name of a path."""

    def measure(job: Job) -> Iterator[Report]:
        for path in job.paths:
            yield Attempt(path)
            if path == "hangs":
                time.sleep(60)
            if path == "dies":
                os.abort()
            if path == "raises":
                raise ValueError("no network")
            yield job.describe_failure(path, "fails" if path == "breaks" else "")
            if path == "breaks":
                raise UselessError("the card failed")

    return measure

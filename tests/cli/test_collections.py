"""Garbage is not looked for while a verb is imported, nor in what was: all of it stays."""

import json
import subprocess
import sys
from typing import Any

import pytest

CALLED = """
import gc, json
from contextlib import suppress
from bayes_asr.cli import main

{before}
phases = []
gc.callbacks.append(lambda phase, about: phases.append(phase))
with suppress(SystemExit):
    main(["train", "--help"])
once = dict(collections=len(phases), frozen=gc.get_freeze_count(), collects=gc.isenabled())
made = [[] for _ in range(20_000)]
with suppress(SystemExit):
    main(["forward", "--help"])
twice = dict(collections=len(phases), frozen=gc.get_freeze_count(), collects=gc.isenabled())
print("\\n" + json.dumps([once, twice]))
"""


def called(before: str = "") -> list[dict[str, Any]]:
    """What is known about collections after each of two verbs that a new process runs."""
    code = CALLED.format(before=before)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    result: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return result


@pytest.mark.slow
def test_the_first_verb_is_imported_without_them_and_frozen() -> None:
    once, twice = called()
    assert once["collections"] == 0
    assert once["frozen"] > 100_000, "torch is among it"
    assert once["collects"]
    assert twice["collections"] > 0, "what is made afterwards may be garbage"
    assert twice["frozen"] < once["frozen"] + 10_000, "not what was made in between"
    assert twice["collects"]


@pytest.mark.slow
def test_a_caller_that_has_turned_them_off_finds_them_so() -> None:
    once, twice = called("gc.disable()")
    assert [once["frozen"], twice["frozen"]] == [0, 0]
    assert not once["collects"]
    assert not twice["collects"]

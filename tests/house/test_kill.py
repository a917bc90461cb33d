"""Trainings that are killed at random moments and resumed, and trainings that last."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.attacks.soak_training import soak
from tests.support.places import ROOT

KILLS = os.environ.get("BAYES_ASR_KILLS", "6")


@pytest.mark.slow
@pytest.mark.timeout(120 + 30 * int(KILLS))
def test_killed_and_resumed_is_bit_for_bit_the_run_that_was_not_killed() -> None:
    """Promise 7; BAYES_ASR_KILLS=100 makes it 100 runs instead of a few."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.attacks.kill_training", "--kills", KILLS],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout)["identical"] == int(KILLS)


@pytest.mark.slow
def test_memory_stays_flat_over_many_epochs(tmp_path: Path) -> None:
    """`python -m tests.attacks.soak_training` is the long form."""
    found = soak(tmp_path, 160)
    assert found["samples"] > 20
    assert found["growth_per_cent"] < 1, found

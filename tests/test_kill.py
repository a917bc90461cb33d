"""Promise 7, with trainings that are killed at random moments and resumed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

KILLS = os.environ.get("BAYES_ASR_KILLS", "6")


@pytest.mark.slow
@pytest.mark.timeout(120 + 30 * int(KILLS))
def test_killed_and_resumed_is_bit_for_bit_the_run_that_was_not_killed() -> None:
    """BAYES_ASR_KILLS=100 makes it 100 runs instead of a few."""
    script = Path(__file__).parent / "kill_training.py"
    done = subprocess.run(
        [sys.executable, script, "--kills", KILLS], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout)["identical"] == int(KILLS)

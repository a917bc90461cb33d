"""Signals that end a verb: one line, and the status of a shell."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.attacks.extremes import COMMANDS, module_of
from tests.support.resting import resting

INTERRUPTED = """
import os, signal, sys

def hear(event, given):
    if event == "exec" and given[0].co_filename == {file!r}:
        os.kill(os.getpid(), signal.SIGINT)

sys.addaudithook(hear)
from bayes_asr.cli import main
sys.exit(main([*{command!r}.split(), "--help"]))
"""


@pytest.mark.parametrize("command", COMMANDS)
def test_interrupt_while_arguments_are_parsed_is_one_line(command: str) -> None:
    code = INTERRUPTED.format(command=command, file=module_of(command).__file__)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "bayes-asr: interrupted\n")


RESTING = """
import signal, sys, tempfile
from bayes_asr.base.processes.pool import map_utterances
from bayes_asr.cli import main, status
from tests.support.resting import ITEMS, say_and_rest

def rest(args):
    with tempfile.TemporaryDirectory(dir=args.folder):
        list(map_utterances(say_and_rest, ITEMS, 2))

status.run = rest
signal.signal(signal.SIGHUP, signal.Handlers[sys.argv[2]])
sys.exit(main(["status", sys.argv[1]]))
"""


@pytest.mark.parametrize(
    ("hang_up", "ends", "expected"),
    [
        ("SIG_DFL", [signal.SIGTERM], "SIGTERM"),
        ("SIG_DFL", [signal.SIGHUP, signal.SIGTERM], "SIGHUP"),
        ("SIG_IGN", [signal.SIGHUP, signal.SIGTERM], "SIGTERM"),  # as by nohup
    ],
)
def test_ends_from_outside_leave_nothing_behind(
    tmp_path: Path, hang_up: str, ends: list[signal.Signals], expected: str
) -> None:
    """A queue and a closed terminal signal a process that has workers, or its group too."""
    with resting(RESTING, str(tmp_path), hang_up) as parent:
        for number in ends:
            parent.send_signal(number)
        said, complaint = parent.communicate(timeout=30)
    assert (said, complaint) == ("", f"bayes-asr status: interrupted by {expected}\n")
    assert parent.returncode == 128 + signal.Signals[expected]
    assert not [*tmp_path.iterdir()]

"""SIGINT before a verb has begun: one line, and the status of a shell."""

import subprocess
import sys

import pytest

from tests.attacks.extremes import COMMANDS, module_of

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

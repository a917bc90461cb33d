"""SIGINT before a verb has begun: one line, and the status of a shell."""

import subprocess
import sys

import pytest

from bayes_asr.cli import VERBS

INTERRUPTED = """
import os, signal, sys

def hear(event, given):
    if event == "exec" and given[0].co_filename.endswith({modules!r}):
        os.kill(os.getpid(), signal.SIGINT)

sys.addaudithook(hear)
from bayes_asr.cli import main
sys.exit(main([{verb!r}, "--help"]))
"""


@pytest.mark.parametrize("verb", VERBS)
def test_interrupt_while_arguments_are_parsed_is_one_line(verb: str) -> None:
    code = INTERRUPTED.format(verb=verb, modules=(f"/cli/{verb}.py", f"/cli/{verb}/__init__.py"))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "bayes-asr: interrupted\n")

"""Tests of what every verb of the command line shares."""

import subprocess
import sys

import pytest

from bayes_asr.cli import VERBS, main


@pytest.mark.parametrize("count", ["0", "-1", "two", "1.5"])
@pytest.mark.parametrize("verb", ["decode", "rescore"])
def test_number_of_processes_is_positive(
    verb: str, count: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main([verb, f"--nj={count}"])
    assert stopped.value.code == 2
    assert f"{count} is not a whole number of at least 1" in capsys.readouterr().err


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_explains_itself(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main([verb, "--help"])
    assert stopped.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: bayes-asr {verb}")


def test_module_is_the_command() -> None:
    command = [sys.executable, "-m", "bayes_asr", "nonsense"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "invalid choice: 'nonsense'" in done.stderr

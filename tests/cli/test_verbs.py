"""Tests of what every verb of the command line shares."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bayes_asr import __version__
from bayes_asr.cli import main
from tests.attacks.extremes import COMMANDS
from tests.support.places import ROOT


@pytest.mark.parametrize("count", ["0", "-1", "two", "1.5", "2147483648"])
@pytest.mark.parametrize("command", ["decode", "rescore", "gmm mono"])
def test_number_of_processes_is_positive(
    command: str, count: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main([*command.split(), f"--nj={count}"])
    assert stopped.value.code == 2
    (said,) = capsys.readouterr().err.splitlines()
    assert f"--nj: {count!r} is not a whole number between 1 and 1000; " in said


@pytest.mark.parametrize("command", ["gmm", *COMMANDS])
def test_every_command_explains_itself(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main([*command.split(), "--help"])
    assert stopped.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: bayes-asr {command}")


def test_help_behind_a_recipe_is_that_of_the_verb(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["run", "mini", "--seeds=2", "--help"])
    assert stopped.value.code == 0
    assert capsys.readouterr().out.startswith("usage: bayes-asr run RECIPE")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["w1/x.wav", "w2/x.wav", "--ctm=CTM"], "w1/x.wav and w2/x.wav are both x in a CTM"),
        (["a b.wav", "a_b.sph", "--ctm=CTM"], "a b.wav and a_b.sph are both a_b in a CTM"),
        (["w1/x.wav", "--wip=0.5"], "--wip goes with --lmwt"),
    ],
)
def test_transcribe_refuses_what_it_would_confuse(
    options: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [option.replace("CTM", str(tmp_path / "ctm")) for option in options]
    assert main(["transcribe", str(tmp_path), *given]) == 1
    assert message in capsys.readouterr().err


def test_version_is_that_of_setup(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["--version"])
    assert stopped.value.code == 0
    assert capsys.readouterr().out == f"bayes-asr {__version__}\n"
    command = [sys.executable, "setup.py", "--version"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split()[-1] == __version__


def test_module_is_the_command() -> None:
    command = [sys.executable, "-m", "bayes_asr", "nonsense"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "invalid choice: 'nonsense'" in done.stderr


@pytest.mark.slow
def test_status_counts_where_nothing_can_be_printed(tmp_path: Path) -> None:
    """Python would end with 120, as it cannot write what is left in its buffers."""
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    script = (
        "import sys; from bayes_asr.cli import main; sys.stdout.write('left'); sys.exit(main())"
    )
    words = ["train", str(tmp_path / "nothing.yaml"), f"--out={tmp_path}"]
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = subprocess.run(
            [sys.executable, "-c", script, *words],
            stdout=full,
            stderr=full,
            env=buffered,
            check=False,
        )
    assert done.returncode == 1

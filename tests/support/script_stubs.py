"""A copy of the scripts whose programs are stubs that note down their arguments."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.support.places import ROOT

STUB = """#!/usr/bin/env bash
printf -v arguments '\\t%s' "$@"; echo "${0##*/}$arguments" >>"$CALLS"  # at once: others write too
case "$*" in
    *"import torch"*) [[ -n $TORCH ]] && echo "$TORCH" ;;
    -c* | -P* | --version) exec "$REAL_PYTHON" "$@" ;;
    "$FAILING"*) echo "it went wrong"; exit 3 ;;
    forward*) mkdir -p "$2/forward_$4" && echo new | tee "$2/forward_$4/"{loglikes,outputs}.ark ;;
    decode*) mkdir -p "$2/decode_$4" && echo new >"$2/decode_$4/words.txt" ;;
    report*) echo "| system | dev | test |" ;;
esac
"""


def executable(path: Path, text: str) -> None:
    """Write a program."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


class Checkout:
    """A copy of the scripts with three empty recipes, and an active environment made of stubs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "a checkout"
        self.calls_file = folder / "calls"
        shutil.copytree(ROOT / "local", self.folder / "local")
        for name in ("run.sh", "test.sh", "setup.py", "constraints.txt", "pyproject.toml"):
            shutil.copy(ROOT / name, self.folder)
        (self.folder / "bayes_asr").mkdir()
        for recipe in ("given", "made"):
            (self.folder / "recipes" / recipe).mkdir(parents=True)
            (self.folder / "recipes" / recipe / "config.yaml").touch()
        (self.folder / "conf/experiments/pair").mkdir(parents=True)
        for system in ("gru", "lstm"):
            (self.folder / f"conf/experiments/pair/{system}.yaml").touch()
        (self.folder / "recipes/made/config.yaml").write_text("recipe: {offers: [dim]}\n")
        (self.folder / "recipes/made/prepare.py").touch()
        gmm = self.folder / "recipes/gmm"
        gmm.mkdir()
        (gmm / "config.yaml").write_text("recipe: {offers: [corpus]}\n")
        for name in ("kaldi.sh", "prepare.py"):
            (gmm / name).touch()
        for name in ("kaldi_gmm.sh", "gmm.sh"):
            executable(self.folder / "local" / name, STUB)
        self.environment = folder / "environment"
        for name in ("python", "bayes-asr"):
            executable(self.environment / "bin" / name, STUB)
        self.variables = {
            "CALLS": str(self.calls_file),
            "REAL_PYTHON": sys.executable,
            "PYTHONPATH": str(ROOT),
            "VIRTUAL_ENV": str(self.environment),
            "TORCH": "2.13.0+cpu",
            "FAILING": "nothing fails",
        }

    def set_up(self) -> None:
        """Make the environment ready, as the first call of run.sh does."""
        done = self.run("bash", "-euc", 'root=$PWD; . local/setup.sh; set_up "mini,report"')
        assert done.returncode == 0, done.stderr

    def run(self, *command: str, **changes: str) -> subprocess.CompletedProcess[str]:
        """Run a script of the checkout with the stubs as its active environment."""
        return run_with(self.variables | changes, self.folder, *command)

    def start(self, *command: str) -> subprocess.Popen[str]:
        """Start a script in a process group of its own, which it leads."""
        return subprocess.Popen(
            command,
            cwd=self.folder,
            env=os.environ | self.variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )

    def calls(self, program: str) -> list[list[str]]:
        """The arguments of each call of a program so far; `bayes-asr doctor` counts as another."""
        lines = self.calls_file.read_text().splitlines() if self.calls_file.exists() else []
        called = [line.replace("bayes-asr\tdoctor", "doctor", 1).split("\t") for line in lines]
        return [arguments for name, *arguments in called if name == program]


def run_with(
    variables: Mapping[str, str], folder: Path, *command: str
) -> subprocess.CompletedProcess[str]:
    """Run a command with more variables in its environment."""
    return subprocess.run(
        command,
        cwd=folder,
        env=os.environ | variables,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )

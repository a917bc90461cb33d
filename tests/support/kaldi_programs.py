"""Runs programs of Kaldi, where KALDI_ROOT says that they are."""

import os
import shlex
import subprocess
from pathlib import Path

import pytest

FOLDERS = ("bin", "gmmbin", "featbin", "fstbin", "latbin", "lmbin")
NEEDS_KALDI = [
    pytest.mark.kaldi,
    pytest.mark.skipif("KALDI_ROOT" not in os.environ, reason="KALDI_ROOT is not set"),
]


def run_kaldi(cwd: Path, pipeline: str, **names: object) -> str:
    """Run a pipeline of bash in a folder, `{name}` filled in; return what it prints."""
    root = Path(os.environ["KALDI_ROOT"])
    scripts = root / "egs" / "wsj" / "s5" / "utils"
    path = [*(root / "src" / name for name in FOLDERS), scripts, scripts / "parallel"]
    quoted = {name: shlex.quote(str(value)) for name, value in names.items()}
    command = pipeline.format(**quoted) if names else pipeline
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        cwd=cwd,
        env={**os.environ, "PATH": ":".join([*map(str, path), os.environ["PATH"]]), "LC_ALL": "C"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def run_program(name: str, *arguments: object) -> None:
    """Run one program."""
    run_kaldi(Path(), " ".join([name, *(shlex.quote(str(argument)) for argument in arguments)]))

"""Each header of the compiled code stands on its own, so that an editor can parse it."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.places import ROOT

HEADERS = sorted((ROOT / "bayes_asr").rglob("csrc/*.h"))


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler")
@pytest.mark.parametrize("header", HEADERS, ids=lambda path: f"{path.parts[-3]}-{path.stem}")
def test_header_is_parsed_alone(header: Path) -> None:
    command = ["c++", "-std=c++17", "-fsyntax-only", "-x", "c++", str(header)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr

"""A long utterance on a large graph stays small: the benchmark's own figure."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bayes_asr.decode import compiled
from tests.support.places import ROOT

needs_native = pytest.mark.skipif(compiled.library() is None, reason="the C++ decoder is not built")


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["numpy", pytest.param("native", marks=needs_native)])
def test_a_minute_on_35000_states_needs_less_than_500_megabytes(
    engine: str, tmp_path: Path
) -> None:
    command = [sys.executable, ROOT / "benchmarks" / "decode.py", "--only", "long"]
    command += ["--engine", engine, "--json", tmp_path / "rows.json"]
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": path})
    (row,) = json.loads((tmp_path / "rows.json").read_text())
    assert row["frames"] == 6000
    assert row["words"] > 50
    assert row["peak_megabytes"] < 500

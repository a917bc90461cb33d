"""A long utterance on a large graph stays small: the benchmark's own figure."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bayes_asr.decode.search import compiled
from tests.support.places import ROOT

needs_native = pytest.mark.skipif(
    not compiled.LIBRARY.usable, reason="the C++ decoder is not built"
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("engine", "seconds"), [("numpy", 15), pytest.param("native", 60, marks=needs_native)]
)
def test_a_minute_on_35000_states_needs_less_than_500_megabytes(
    engine: str, seconds: int, tmp_path: Path
) -> None:
    """What NumPy, which takes long, needs for a part of it is counted as often as the part fits."""
    command = [sys.executable, ROOT / "benchmarks" / "decode.py", "--only", "long"]
    command += ["--engine", engine, "--seconds", str(seconds), "--json", tmp_path / "rows.json"]
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": path})
    (row,) = json.loads((tmp_path / "rows.json").read_text())
    parts = 60 / seconds
    assert row["frames"] * parts == 6000
    assert row["words"] * parts > 50
    before = row["megabytes_before"]
    assert before + parts * (row["peak_megabytes"] - before) < 500

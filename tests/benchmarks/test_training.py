"""The benchmarks of training run and write their rows, at a size that says nothing of speed."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from bayes_asr.nn.frames import PackedFrames
from tests.support.nn_units import acoustic_model
from tests.support.places import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))
from roofline import multiply_adds, products

TOY = ("--units", "8", "--layers", "2", "--batch", "2", "--frames", "6", "--rounds", "1")
KEYS = ("unit", "tied", "dtype", "batch", "frames")
SPEEDS = ("frames_per_second", "ratio_to_reference", "roofline_fraction")


def rows_of(script: str, tmp_path: Path, *options: str) -> list[dict[str, Any]]:
    """What a benchmark writes."""
    command = [sys.executable, ROOT / "benchmarks" / script, *TOY, *options]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    subprocess.run(
        [*command, "--json", tmp_path / "rows.json"], check=True, env=environment, cwd=tmp_path
    )
    return json.loads((tmp_path / "rows.json").read_text())


@pytest.mark.slow
def test_steps_of_every_unit_are_timed_beside_the_peers(tmp_path: Path) -> None:
    rows = rows_of("step.py", tmp_path)
    ours = [row for row in rows if row["roofline_fraction"]]
    assert len(ours) == 5 * 2 * 2
    assert {row["dtype"] for row in ours} == {"float32", "bfloat16"}
    assert all(row.keys() >= {*KEYS, *SPEEDS, "ratio_to_lstm", "spread"} for row in rows)
    assert all(0 < row[key] < math.inf for row in ours for key in SPEEDS)
    (reference,) = [row for row in rows if row["unit"] == "reference loop"]
    assert reference["ratio_to_reference"] == 1


@pytest.mark.slow
def test_sweep_times_every_size(tmp_path: Path) -> None:
    sweep = (
        "--sweep",
        "frames",
        "--values",
        "4",
        "8",
        "12",
        "--unit",
        "lstm",
        "--dtype",
        "float32",
    )
    rows = rows_of("step.py", tmp_path, *sweep, "--directions", "tied")
    assert [row["frames"] for row in rows] == [4, 8, 12]


@pytest.mark.slow
def test_passes_of_every_unit_are_timed(tmp_path: Path) -> None:
    rows = rows_of("recurrence.py", tmp_path)
    assert all(row.keys() >= {*KEYS, "frames_per_second", "ratio_to_reference"} for row in rows)


@pytest.mark.parametrize("tied", [False, True])
def test_products_of_a_step_are_those_that_torch_counts(tied: bool) -> None:
    """Against torch's own counter, in a network whose recurrence it sees."""
    model = acoustic_model(3, [4, 2], units=(5, 5), tied_directions=tied, fused=False)
    with FlopCounterMode(display=False) as counter:
        logits = model({"features": torch.randn(14, 3)}, PackedFrames((7, 7)))
        sum(y.sum() for y in logits.values()).backward()
    counted = multiply_adds(products(model, 14))
    first = 2 * 2 * 2  # frames, of layers, directions and sequences, that pass nothing back
    assert counter.get_total_flops() == 2 * (counted - first * 5 * 10)

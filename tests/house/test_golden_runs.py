"""Golden runs: later code gives the losses, weights, likelihoods and words that are on record.

`golden_runs.json` is what `python -m tests.support.golden_runs record` wrote. A change of the code
that must not change numbers leaves it; one that must, records it anew and says why.
"""

import json
from pathlib import Path

import pytest

from tests.support.golden_runs import RUNS, compute
from tests.support.golden_values import describe_changes, describe_machine, is_digest

RECORDED = json.loads(Path(__file__).with_name("golden_runs.json").read_text())
EVERYWHERE = {"gmm"}  # the same bits on every processor


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_runs_give_what_is_recorded(name: str, tmp_path: Path) -> None:
    recorded, values = RECORDED["runs"][name], compute(name, tmp_path)
    assert recorded.keys() == values.keys()
    if RECORDED["machine"] == describe_machine() or name in EVERYWHERE:
        assert describe_changes(recorded, values) == []
    for key, value in recorded.items():
        if isinstance(value, str):
            assert is_digest(value) or values[key] == value, key
        else:
            assert values[key] == pytest.approx(value, rel=1e-3, abs=1e-5), key

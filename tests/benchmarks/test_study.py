"""Studies: which run comes next, what is repeated, and what the table says is missing."""

import json
import math
import sys
from pathlib import Path

import pytest

from tests.support.places import ROOT
from tests.support.small_corpus import write_corpus

sys.path.insert(0, str(ROOT / "benchmarks"))
import study

SYSTEMS = ("a", "b", "c")
LOWEST = {"a": study.MIDDLE, "b": 0, "c": len(study.RATES) - 2}


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> dict[Path, float]:
    """Errors of runs by their folder, in place of trainings."""
    errors: dict[Path, float] = {}
    monkeypatch.setattr(study, "dev_error", errors.get)
    return errors


def complete(run: study.Run, trained: dict[Path, float], out: Path) -> None:
    """Train a run whose errors grow with its distance from the lowest rate; then score it."""
    folder = run.folder(out)
    if folder in trained:
        folder.mkdir(parents=True)
        (folder / "score_test.json").touch()
    trained[folder] = 0.3 + 0.01 * abs(run.rate - LOWEST[run.system])


def test_runs_come_in_the_order_of_what_they_tell(
    trained: dict[Path, float], tmp_path: Path
) -> None:
    done = []
    while missing := study.list_missing(tmp_path, SYSTEMS, seeds=2):
        done.append(missing[0])
        complete(missing[0], trained, tmp_path)
    middle = study.MIDDLE
    assert done[:3] == [study.Run(system, middle, 1) for system in SYSTEMS]
    assert {run[:2] for run in done[3:9]} == {(s, middle + i) for s in SYSTEMS for i in (-1, 1)}
    for system, lowest in LOWEST.items():
        errors = study.read_errors(tmp_path, system)
        assert study.best_rate(errors) == lowest
        # The best is inside of what was tried, unless there is no rate beyond it.
        assert {i for i in (lowest - 1, lowest + 1) if i in range(len(study.RATES))} <= {*errors}
        for seed in (1, 2):
            assert study.is_scored(study.Run(system, lowest, seed).folder(tmp_path))
    searched = max(i for i, run in enumerate(done) if run.seed == 1 and run.rate != LOWEST[run[0]])
    assert all(run.seed == 1 for run in done[:searched])


def test_a_rate_that_diverges_is_the_worst(tmp_path: Path) -> None:
    why = "epoch 1 diverged: loss nan; the run went back 3 times (train.max_returns)"
    (tmp_path / "state.json").write_text(json.dumps({"state": "failed", "why": why}))
    assert study.dev_error(tmp_path) == math.inf
    assert (
        study.untried({study.MIDDLE: 0.4, study.MIDDLE - 1: 0.5, study.MIDDLE + 1: math.inf}) == []
    )


def test_a_run_is_trained_once_and_the_rest_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    corpus = write_corpus(tmp_path / "corpus")
    (tmp_path / "pair.yaml").write_text("systems: {gru: units/gru.yaml, lstm: units/lstm.yaml}\n")
    (tmp_path / "small.yaml").write_text("model: {layers: 1, units: 4}\ntrain: {epochs: 1}\n")
    words = ["study.py", str(tmp_path / "pair.yaml"), "--out", str(tmp_path / "out")]
    more = ["--train", str(tmp_path / "small.yaml"), "--set", f"data.dir={corpus}"]
    monkeypatch.setattr(sys, "argv", [*words, *more, "--minutes", "1e-6"])
    study.main()
    folder = study.Run("gru", study.MIDDLE, 1).folder(tmp_path / "out")
    error = study.dev_error(folder)
    assert error is not None
    table = capsys.readouterr().out
    assert f"| gru |  | {study.RATES[study.MIDDLE]:g}: {error:.2%} | 0 |  |  | rates |" in table
    assert "| lstm |  |  | 0 |  |  | rates |" in table
    missing = study.list_missing(tmp_path / "out", ("gru", "lstm"), seeds=3)
    assert missing[0] == study.Run("lstm", study.MIDDLE, 1)

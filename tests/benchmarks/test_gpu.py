"""The benchmark of a card, without one: all of it runs, and no path that fails hides the others."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from bayes_asr.config.catalogue import GPU_PATHS
from bayes_asr.nn.kernels.reference import fused
from tests.support.places import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))
import gpu
from card import Dry
from gpu_case import Bench, Row, Turns, measure_recurrence, measure_steps
from gpu_worker import Job, Worker
from trained import Case

from tests.support.faulty_benches import open_faulty

CASE = Case("li-bru", "float32", batch=3, frames=4, ragged=True)
BENCH = Bench(Dry(), gpu.TINY._replace(layers=2), Turns(rounds=2, milliseconds=1))


@pytest.fixture(autouse=True)
def same_products() -> Iterator[None]:
    """Whether products are in TF32 is a setting of the process."""
    matmul, cudnn = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    yield
    torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = matmul, cudnn


class Fake:
    """A path with the states of `fused`, changed."""

    COMPILED = False
    supports = staticmethod(fused.supports)

    def __init__(self, change: Any) -> None:
        self.change = change

    def unroll(self, recurrence: Any) -> torch.Tensor:
        """The changed states."""
        return self.change(fused.unroll(recurrence))


def add_path(patch: pytest.MonkeyPatch, name: str, backend: Any) -> None:
    """Name a path that a module of `sys.modules` computes."""
    backend.__name__ = f"path_{name}"
    patch.setitem(sys.modules, backend.__name__, backend)
    patch.setitem(GPU_PATHS, name, backend.__name__)


def steps(case: Case, *paths: str) -> dict[str, Row]:
    """The row of each path."""
    reports = list(measure_steps(BENCH, case, paths, launches=True))
    return {row["path"]: row for row in reports if isinstance(row, dict)}


def plan(*words: str) -> list[Job]:
    """The jobs of a command."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["gpu.py", *words])
        return gpu.plan(gpu.parse())


@pytest.mark.slow
def test_dry_run_writes_figures_and_a_page(tmp_path: Path) -> None:
    paths = ("eager", "graph", "triton", "cudnn")
    command = [sys.executable, ROOT / "benchmarks/gpu.py", "--dry", "--no-tests"]
    options = ["--units", "torch-lstm", "torch.nn.LSTM", "--precision", "float32"]
    output = ["--json", tmp_path / "rows.json", "--record", tmp_path]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*command, *options, *output, "--paths", *paths],
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    rows = json.loads((tmp_path / "rows.json").read_text())
    steps_of = {row["network"]: row for row in rows if row.get("milliseconds")}
    assert {*steps_of} == {"torch-lstm", "torch.nn.LSTM"}
    assert {row["path"] for row in rows} == {"", *paths}
    for row in rows:
        numbers = [x for x in row.values() if isinstance(x, float)]
        assert np.isfinite(numbers).all()
        assert row["outcome"] or numbers
    assert "frames/s" in done.stdout
    (page,) = tmp_path.glob("*.md")
    assert "gpu" in page.stem
    assert "| torch.nn.LSTM |" in page.read_text()


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["float32", "tf32", "bfloat16"])
@pytest.mark.parametrize("network", ["li-bru", "ubru", "torch.nn.GRU"])
def test_every_precision_is_near_float32(network: str, precision: str) -> None:
    path = "" if "." in network else "eager"
    case = CASE._replace(network=network, precision=precision)
    row = steps(case, path)[path]
    assert not row["outcome"]
    assert max(row["error_of_outputs"], row["error_of_gradients"]) < 0.1
    assert row["frames_per_second"] > 0
    *_, alone = measure_recurrence(BENCH, case, (path,))
    assert isinstance(alone, dict)
    assert alone["forward_microseconds"] == alone["backward_microseconds"] == 1000 / case.frames


@pytest.mark.slow
def test_wrong_and_raising_paths_are_named_and_right_ones_timed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(h: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("no kernel\nfor this card")

    add_path(monkeypatch, "wrong", Fake(lambda h: 1.01 * h))
    add_path(monkeypatch, "lost", Fake(lambda h: h * float("nan")))
    add_path(monkeypatch, "right", Fake(lambda h: h))
    add_path(monkeypatch, "raising", Fake(fail))
    idle = Fake(lambda h: h)
    monkeypatch.setattr(idle, "supports", lambda cell, weights: False, raising=False)
    add_path(monkeypatch, "idle", idle)
    monkeypatch.setitem(GPU_PATHS, "missing", "no_such_module")
    rows = steps(CASE, "eager", "wrong", "lost", "right", "raising", "idle", "missing")
    assert not rows["eager"]["outcome"] + rows["right"]["outcome"]
    assert rows["right"]["error_of_gradients"] < 1e-4
    assert rows["right"]["over_eager"] == 1
    assert rows["wrong"]["outcome"] == "differs from eager float32"
    assert rows["wrong"]["frames_per_second"] > 0
    assert "nan" in rows["lost"]["outcome"]
    assert rows["raising"]["outcome"] == "RuntimeError: no kernel"
    assert rows["idle"]["outcome"] == "UnitError: it does not compute this unit"
    assert "no_such_module" in rows["missing"]["outcome"]


@pytest.mark.slow  # it starts four processes
def test_paths_that_hang_or_die_are_left_out_and_the_others_measured() -> None:
    deadline = time.monotonic() + 60
    worker = Worker(None, deadline=deadline, limit=1, open_=open_faulty)
    paths = ("one", "hangs", "two", "dies", "breaks", "three")
    outcomes = {row["path"]: row["outcome"] for row in worker.measure(Job(CASE, paths))}
    assert outcomes == {
        "one": "",
        "hangs": "no answer within 1 s",
        "two": "",
        "dies": "its process died, or the card failed",
        "breaks": "fails",
        "three": "",
    }
    again = {row["path"]: row["outcome"] for row in worker.measure(Job(CASE, paths, True))}
    assert {path for path, outcome in again.items() if not outcome} == {"one", "two", "three"}
    assert "failed in a case before" in again["hangs"]
    (raised,) = worker.measure(Job(CASE, ("raises",)))
    assert raised["outcome"] == "ValueError: no network"
    worker.close()


def test_nothing_is_measured_after_the_deadline() -> None:
    worker = Worker(None, deadline=time.monotonic(), limit=5, open_=open_faulty)
    assert not list(worker.measure(Job(CASE, ("one",))))
    worker.close()


def test_most_important_cases_come_first_and_quick_ones_are_few() -> None:
    jobs = plan("--peer-path", "clone")
    first, second, third, *_ = jobs
    assert first.case == Case("li-bru", "float32", 8, 300, False)
    assert second.case == first.case._replace(network="torch.nn.LSTM")
    assert third == Job(first.case, tuple(GPU_PATHS), recurrence=True)
    quick = plan("--quick", "--peer-path", "clone")
    assert {job.case.batch for job in quick} == {8, 16, 32}
    assert {job.case.frames for job in quick} == {300}
    assert [job.case.network for job in quick].count("pytorch-kaldi liGRU") == 1
    assert not [job for job in plan() if "pytorch" in job.case.network]


def test_ragged_batches_have_the_lengths_of_a_group_of_utterances() -> None:
    lengths = Case("li-bru", "float32", 16, 300, ragged=True).lengths
    assert lengths[0] == 300
    assert min(lengths) >= 240
    assert list(lengths) == sorted(lengths, reverse=True)
    assert len(set(lengths)) > 8


def test_failures_that_repeat_are_told_once() -> None:
    job = Job(CASE, ("eager",))
    row, other = job.describe_failure("eager", "no"), job.describe_failure("eager", "never")
    assert gpu.summarize([row, row, other]) == [row, other]


def test_time_of_the_tests_is_limited() -> None:
    assert gpu.run_tests(["tests/nn"], 0.1, dry=True) == "not done within 0 s"

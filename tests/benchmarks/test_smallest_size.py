"""Every benchmark says what its options are, and runs at the smallest size that it has."""

import importlib
import json
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bayes_asr.config.merge import load
from bayes_asr.data.corpus.sets import training_and_dev
from bayes_asr.data.features.front_end import FEATURES
from tests.support.chain_corpus import write_chain
from tests.support.places import ROOT
from tests.support.small_corpus import PHONES, write_corpus

sys.path.insert(0, str(ROOT / "benchmarks"))
SCRIPTS = sorted(
    path.stem for path in (ROOT / "benchmarks").glob("*.py") if "__main__" in path.read_text()
)
TOY = "--units 8 --layers 1 --rounds 1"
SMALLEST = {
    "alignments": "{corpus}/exp/ali {corpus}/exp/ali",
    "classify": "--frames 4 --rounds 1",
    "convolution": "--rounds 1",
    "denominator": "--chain {corpus}/exp/chain --frames 5",
    "epoch": f"--kaldi-dir {{corpus}} {TOY} --batch 6",
    "export": TOY,
    "forward": f"{TOY} --minutes 0",
    "products": "--frames 4 --units 8 --rounds 1",
    "recurrence": f"{TOY} --batch 2 --frames 4 --unit li-bru",
    "step": f"{TOY} --batch 2 --frames 4 --unit li-bru --dtype float32 --directions tied",
}
ELSEWHERE = {
    "archive": "tests/benchmarks/test_archive.py, which has runs",
    "apart": "tests/decode/test_on_the_fly.py, which has the graphs",
    "boundaries": "hand marks of real speech, which no test has",
    "g2p": "a training, which takes long",
    "live": "sound and a run that reads forwards only",
    "long_recording": "a corpus of an hour",
    "all": "the tests of its parts below",
    "calibration": "tests/benchmarks/test_study.py, which has a run",
    "ddp": "two processes, which take long to start",
    "decode": "tests/decode/test_memory.py",
    "gpu": "tests/benchmarks/test_gpu.py",
    "gmm": "bayes-asr gmm, whose own tests run it",
    "hours": "test_hours_are_laid_out",
    "posteriors": "tests/test_denlats.py, where Kaldi is",
    "sequence": "lattices, which no test has of a recipe",
    "study": "tests/benchmarks/test_study.py",
}
"""Where those that are not run here are, or what keeps them from that."""


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Call a benchmark with some words; returns what it prints."""

    def main(script: str, *words: str) -> str:
        monkeypatch.setattr(sys, "argv", [f"{script}.py", *words])
        importlib.import_module(script).main()
        return capsys.readouterr().out

    return main


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small corpus under the names that AN4's recipe knows."""
    root = write_corpus(tmp_path_factory.mktemp("corpus"))
    for kind in ("", "_dev"):
        (root / f"exp/tri3_ali{kind}").symlink_to(root / f"exp/ali{kind}")
    write_chain(root / "exp/chain", [[*PHONES]])
    return root


def skip_without_runtime(script: str) -> None:
    if script == "export":
        pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")


def test_each_is_run_here_or_elsewhere() -> None:
    assert sorted([*SMALLEST, *ELSEWHERE]) == SCRIPTS


@pytest.mark.parametrize("script", SCRIPTS)
def test_it_explains_its_options(script: str, call: Callable[..., str]) -> None:
    skip_without_runtime(script)
    with pytest.raises(SystemExit) as end:
        call(script, "--help")
    assert end.value.code == 0


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:TF32 acceleration")  # of switching oneDNN off
@pytest.mark.parametrize(
    "script",
    [pytest.param(s, marks=[pytest.mark.slow] if s == "export" else []) for s in SMALLEST],
)
def test_it_runs(script: str, call: Callable[..., str], corpus: Path, tmp_path: Path) -> None:
    skip_without_runtime(script)
    words = shlex.split(SMALLEST[script].format(corpus=corpus))
    assert call(script, *words, "--json", str(tmp_path / "rows.json"))
    found: Any = json.loads((tmp_path / "rows.json").read_text())
    for row in found if isinstance(found, list) else [found]:
        numbers = [value for value in row.values() if isinstance(value, float)]
        assert numbers
        assert np.isfinite(numbers).all()


def test_hours_are_laid_out(corpus: Path, tmp_path: Path) -> None:
    from hours import lay_out

    frames = sum(training_and_dev(load([], [f"data.dir={corpus}"]))[0].lengths.values())
    lay_out(corpus, tmp_path / "hours", hours=2 * frames / 360_000)
    train, dev = training_and_dev(load([], [f"data.dir={tmp_path / 'hours'}"]))
    assert sum(train.lengths.values()) == 2 * frames
    utt = next(iter(train.lengths))
    assert len(train.read(utt, FEATURES)) == train.lengths[utt]
    assert dev.lengths


def test_parts_that_cannot_run_are_skipped_with_a_reason(
    call: Callable[..., str], tmp_path: Path
) -> None:
    said = call(
        *("all", "--only", "gmm", "denominator", "--chain", str(tmp_path / "none")),
        *("--json", str(tmp_path / "rows.json")),
    )
    gmm, denominator = json.loads((tmp_path / "rows.json").read_text())
    assert gmm["outcome"] == "skipped: --experiment is not given"
    assert denominator["outcome"] == f"skipped: --chain {tmp_path / 'none'} does not exist"
    assert said.count("skipped") == 4


def test_parts_end_with_their_share_of_the_time(call: Callable[..., str], tmp_path: Path) -> None:
    call("all", "--only", "step", "--minutes", "1e-6", "--json", str(tmp_path / "rows.json"))
    (row,) = json.loads((tmp_path / "rows.json").read_text())
    assert row["outcome"] == "ended after 0 s, its share of the time"


def test_parts_take_no_more_time_than_there_is() -> None:
    from all import PARTS

    assert sum(part.share for part in PARTS.values()) == pytest.approx(1)
    # What was computed, not how fast.
    compare = {"alignments", "posteriors", "boundaries", "calibration", "g2p", "live"}
    compare |= {"archive", "long_recording", "study"}
    alone = {"all", "gpu"}  # the latter has minutes of its own, on another device
    assert {part.script for part in PARTS.values()} == {*SCRIPTS} - alone - compare


def test_clone_without_their_units_is_refused(call: Callable[..., str], tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="no clone of pytorch-kaldi"):
        call("step", "--peer-path", str(tmp_path))

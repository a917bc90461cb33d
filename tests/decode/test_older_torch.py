"""The oldest versions of torch that are allowed, which lack parts of later ones."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from bayes_asr.cli import main
from bayes_asr.decode.export import OLDEST_TORCH
from tests.house.test_promises import untrained_run
from tests.support.places import ROOT

FRAMES, WIDTH = 30, 5


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return untrained_run(tmp_path / "run", WIDTH, 6, unit="li-bru")


@pytest.mark.slow
def test_networks_compute_the_same_where_torch_cannot_tell_exporting(run: Path) -> None:
    """Of torch 2.6, which has no `is_exporting`."""
    script = (
        "import sys, torch; vars(torch.compiler).pop('is_exporting', None); import bayes_asr;"
        f"x = torch.arange({FRAMES * WIDTH}.).view({FRAMES}, {WIDTH}).sin();"
        "print(bayes_asr.load(sys.argv[1])(x.numpy()).tolist())"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, run], capture_output=True, text=True, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    import bayes_asr

    x = torch.arange(float(FRAMES * WIDTH)).view(FRAMES, WIDTH).sin()
    assert json.loads(done.stdout) == bayes_asr.load(run)(x.numpy()).tolist()


@pytest.mark.parametrize("form", ["--onnx", "--torch"])
def test_torch_before_loops_could_be_written_is_refused(
    run: Path, form: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("onnxscript")
    monkeypatch.setattr(torch, "__version__", type(torch.__version__)("2.7.1+cpu"))
    out = run / "network"
    assert main(["export", str(run), form, str(out)]) == 1
    error = capsys.readouterr().err
    assert f"torch {OLDEST_TORCH} or newer" in error
    assert error.count("\n") == 1
    assert not out.exists()


def test_extra_that_exports_asks_for_that_torch() -> None:
    assert f'"export": [*ONNX, "torch>={OLDEST_TORCH}"]' in (ROOT / "setup.py").read_text()

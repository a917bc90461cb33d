"""ONNX files of other networks than that of the run: refused, not computed with."""

import math
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bayes_asr.base.errors import InputError
from bayes_asr.decode.forward import onnx_network
from bayes_asr.decode.forward.onnx_network import OnnxNetwork
from bayes_asr.train.runs.trained_network import TrainedNetwork, read_network
from tests.support.onnx_product import write_product

pytest.importorskip("onnxruntime")
WIDTH, PDFS = 5, 6
FITTING = {"columns": PDFS, "width": WIDTH, "inputs": WIDTH}


@pytest.fixture
def network(small_run: Path) -> TrainedNetwork:
    return read_network(small_run)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"columns": 3}, r"computes \(4, 3\) of 4 frames"),
        ({"rows": 1}, r"computes \(1, 6\) of 4 frames"),
        ({"value": math.inf}, "not finite"),
        ({"value": math.nan}, "not finite"),
    ],
)
def test_outputs_that_do_not_fit_the_run_are_refused(
    options: dict[str, Any], said: str, network: TrainedNetwork, tmp_path: Path
) -> None:
    opened = OnnxNetwork(write_product(tmp_path / "x.onnx", **FITTING | options), network)
    with pytest.raises(InputError, match=f"x.onnx: .*{said}"):
        opened.compute_prepared([np.ones((4, WIDTH), np.float32)])


def test_inputs_that_do_not_fit_the_run_are_refused(
    network: TrainedNetwork, tmp_path: Path
) -> None:
    path = write_product(tmp_path / "x.onnx", **FITTING | {"width": 7})
    with pytest.raises(InputError, match=r"x.onnx: reads 7 values of features"):
        OnnxNetwork(path, network)


def test_file_that_fits_is_computed_with(network: TrainedNetwork, tmp_path: Path) -> None:
    opened = OnnxNetwork(write_product(tmp_path / "x.onnx", **FITTING, value=1.0), network)
    (computed,) = opened.compute_prepared([np.ones((4, WIDTH), np.float32)])
    np.testing.assert_array_equal(computed, np.full((4, PDFS), WIDTH, np.float32))


def test_file_of_other_weights_is_refused(network: TrainedNetwork, tmp_path: Path) -> None:
    """As of a run that was trained again since; one of an earlier version does not say."""
    path, record = tmp_path / "x.onnx", {"network": "12ab"}
    assert OnnxNetwork(write_product(path, **FITTING), network, record).record == {}
    write_product(path, **FITTING, network="12ab")
    assert OnnxNetwork(path, network, record).record == record
    write_product(path, **FITTING, network="34cd")
    with pytest.raises(InputError, match=r"x.onnx: is of another network"):
        OnnxNetwork(path, network, record)


def test_speakers_whose_activations_a_file_lacks_are_counted(
    network: TrainedNetwork, tmp_path: Path, messages: Any
) -> None:
    adapted = replace(network, speakers={"anna": {}, "bert": {}})
    OnnxNetwork(write_product(tmp_path / "x.onnx", **FITTING), adapted)
    assert "x.onnx: computes all speakers alike; the run has activations of 2" in messages()


@pytest.mark.slow
def test_loop_without_end_is_stopped(
    network: TrainedNetwork, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onnx_network, "SECONDS", 0.2)
    path = write_product(tmp_path / "x.onnx", **FITTING, is_endless=True)
    opened = OnnxNetwork(path, network)
    with pytest.raises(InputError, match=r"x.onnx: computes 4 frames for over 1 s"):
        opened.compute_prepared([np.ones((4, WIDTH), np.float32)])


@pytest.mark.parametrize("weights", ["w.bin", "/dev/zero", "../w.bin"])
def test_weights_in_other_files_are_refused(
    weights: str, network: TrainedNetwork, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "w.bin").write_bytes(bytes(4 * WIDTH * PDFS))
    monkeypatch.chdir(tmp_path)
    path = write_product(tmp_path / "x.onnx", **FITTING, weights=weights)
    with pytest.raises(InputError, match=r"x.onnx: not an ONNX model of .*xternal"):
        OnnxNetwork(path, network)


def test_device_is_no_onnx_file(network: TrainedNetwork) -> None:
    with pytest.raises(InputError, match="/dev/zero: is no file"):
        OnnxNetwork(Path("/dev/zero"), network)


def test_pipe_that_nobody_writes_into_is_no_onnx_file(
    network: TrainedNetwork, tmp_path: Path
) -> None:
    """Whoever opens it waits for ever."""
    os.mkfifo(tmp_path / "x.onnx")
    with pytest.raises(InputError, match=r"x\.onnx: is no file"):
        OnnxNetwork(tmp_path / "x.onnx", network)


@pytest.mark.parametrize("names", [("sound", "loglikes"), ("features", "posteriors")])
def test_other_names_of_inputs_and_outputs_are_refused(
    names: tuple[str, str], network: TrainedNetwork, tmp_path: Path
) -> None:
    opened = OnnxNetwork(write_product(tmp_path / "x.onnx", **FITTING, names=names), network)
    with pytest.raises(InputError, match=r"x\.onnx: cannot compute 4 frames: .*bayes-asr export"):
        opened.compute_prepared([np.ones((4, WIDTH), np.float32)])

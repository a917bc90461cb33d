"""ONNX files of other networks than that of the run: refused, not computed with."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from bayes_asr.base.errors import InputError
from bayes_asr.decode.forward.onnx_network import OnnxNetwork
from bayes_asr.train.runs.trained_network import TrainedNetwork, read_network

pytest.importorskip("onnxruntime")
onnx = pytest.importorskip("onnx")
WIDTH, PDFS = 5, 6


@pytest.fixture
def network(small_run: Path) -> TrainedNetwork:
    return read_network(small_run)


def write_onnx(
    path: Path, *, columns: int = PDFS, rows: int = 99, value: float = 0.0, width: int = WIDTH
) -> Path:
    """Write a product with a matrix of one value, whose outputs have so many rows at most."""
    helper, kinds = onnx.helper, onnx.TensorProto
    constants = [
        helper.make_tensor("w", kinds.FLOAT, [WIDTH, columns], [value] * WIDTH * columns),
        helper.make_tensor("from", kinds.INT64, [1], [0]),
        helper.make_tensor("to", kinds.INT64, [1], [rows]),
    ]
    nodes = [
        helper.make_node("MatMul", ["features", "w"], ["product"]),
        helper.make_node("Slice", ["product", "from", "to"], ["loglikes"]),
    ]
    ends = [
        helper.make_tensor_value_info(name, kinds.FLOAT, [None, None])
        for name in ("features", "loglikes")
    ]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], constants)
    opsets = [helper.make_opsetid("", 20)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    front_end = {"cmvn": "none", "deltas": 0, "left_context": 0, "right_context": 0}
    about = {"form": "utterance", "features": str(width), "front_end": json.dumps(front_end)}
    helper.set_model_props(model, about)
    onnx.save(model, path)
    return path


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
    options: dict[str, float], said: str, network: TrainedNetwork, tmp_path: Path
) -> None:
    opened = OnnxNetwork(write_onnx(tmp_path / "x.onnx", **options), network)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=f"x.onnx: .*{said}"):
        opened.compute_prepared([np.ones((4, WIDTH), np.float32)])


def test_inputs_that_do_not_fit_the_run_are_refused(
    network: TrainedNetwork, tmp_path: Path
) -> None:
    path = write_onnx(tmp_path / "x.onnx", width=7)
    with pytest.raises(InputError, match=r"x.onnx: reads 7 values of features"):
        OnnxNetwork(path, network)


def test_file_that_fits_is_computed_with(network: TrainedNetwork, tmp_path: Path) -> None:
    opened = OnnxNetwork(write_onnx(tmp_path / "x.onnx", value=1.0), network)
    (computed,) = opened.compute_prepared([np.ones((4, WIDTH), np.float32)])
    np.testing.assert_array_equal(computed, np.full((4, PDFS), WIDTH, np.float32))


def test_device_is_no_onnx_file(network: TrainedNetwork) -> None:
    with pytest.raises(InputError, match="/dev/zero: is no file"):
        OnnxNetwork(Path("/dev/zero"), network)

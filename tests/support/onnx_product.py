"""An ONNX file that says to be of bayes-asr export, and computes a product with a matrix."""

import json
from pathlib import Path

import pytest

onnx = pytest.importorskip("onnx")
helper, TensorProto = onnx.helper, onnx.TensorProto


def write_product(
    path: Path, *, inputs: int, columns: int, width: int, rows: int = 99, value: float = 0.0
) -> Path:
    """Write a product with a matrix [inputs, columns] of one value, cut after so many rows.

    width: what the file says that it reads.
    """
    constants = [
        helper.make_tensor("w", TensorProto.FLOAT, [inputs, columns], [value] * inputs * columns),
        helper.make_tensor("from", TensorProto.INT64, [1], [0]),
        helper.make_tensor("to", TensorProto.INT64, [1], [rows]),
    ]
    nodes = [
        helper.make_node("MatMul", ["features", "w"], ["product"]),
        helper.make_node("Slice", ["product", "from", "to"], ["loglikes"]),
    ]
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [None, None])
        for name in ("features", "loglikes")
    ]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], constants)
    opsets = [helper.make_opsetid("", 20)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    front_end = {"cmvn": "none", "deltas": 0, "left_context": 0, "right_context": 0}
    about = {"form": "utterance", "features": str(width), "front_end": json.dumps(front_end)}
    helper.set_model_props(model, about)
    path.write_bytes(model.SerializeToString())
    return path

"""An ONNX file that says to be of bayes-asr export, and computes a product with a matrix."""

import json
from pathlib import Path
from typing import Any

import pytest

onnx = pytest.importorskip("onnx")
helper, TensorProto = onnx.helper, onnx.TensorProto


def write_product(
    path: Path,
    *,
    inputs: int,
    columns: int,
    width: int,
    rows: int = 99,
    value: float = 0.0,
    is_endless: bool = False,
    weights: str = "",
    names: tuple[str, str] = ("features", "loglikes"),
    network: str | None = None,
) -> Path:
    """Write a product with a matrix [inputs, columns] of one value, cut after so many rows.

    width: what the file says that it reads; is_endless: with a loop before that does not end;
    weights: another file that has the matrix; names: of the input and the output; network: what the
    file says of the weights.
    """
    constants = [
        helper.make_tensor("w", TensorProto.FLOAT, [inputs, columns], [value] * inputs * columns),
        helper.make_tensor("from", TensorProto.INT64, [1], [0]),
        helper.make_tensor("to", TensorProto.INT64, [1], [rows]),
    ]
    if weights:
        constants[0].ClearField("float_data")
        constants[0].raw_data = bytes(4 * inputs * columns)
        onnx.external_data_helper.set_external_data(constants[0], weights)
        constants[0].ClearField("raw_data")
    nodes = [
        helper.make_node("MatMul", [names[0], "w"], ["product"]),
        helper.make_node("Slice", ["product", "from", "to"], [names[1]]),
    ]
    if is_endless:
        nodes.insert(1, _endless_loop())
        nodes[2].input[0] = "last"
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [None, None]) for name in names]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], constants)
    opsets = [helper.make_opsetid("", 20)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    front_end = {"cmvn": "none", "deltas": 0, "left_context": 0, "right_context": 0}
    about = {"form": "utterance", "features": str(width), "front_end": json.dumps(front_end)}
    helper.set_model_props(model, about | ({"network": network} if network else {}))
    path.write_bytes(model.SerializeToString())
    return path


def _endless_loop() -> Any:
    """A Loop whose condition stays true, and which hands on `product` as `last`."""
    condition, number = (
        helper.make_tensor_value_info(name, kind, [])
        for name, kind in (("on", TensorProto.BOOL), ("i", TensorProto.INT64))
    )
    carried, handed = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("x", "y")
    )
    true = helper.make_tensor("true", TensorProto.BOOL, [], [True])
    still = helper.make_tensor_value_info("still", TensorProto.BOOL, [])
    body = helper.make_graph(
        [
            helper.make_node("Constant", [], ["still"], value=true),
            helper.make_node("Identity", ["x"], ["y"]),
        ],
        "body",
        [number, condition, carried],
        [still, handed],
    )
    return helper.make_node("Loop", ["", "", "product"], ["last"], body=body)

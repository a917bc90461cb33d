"""Networks whose weights ONNX has in 8 bits."""

from pathlib import Path

import numpy as np
import pytest

from bayes_asr.base.errors import InputError
from bayes_asr.decode.export import OLDEST_TORCH, _check_runs, export_onnx
from tests.decode.test_export import COMPLEMENT, ONE, made_up, network, session
from tests.support.nn_units import DIRECTIONS, name

pytest.importorskip("torch", OLDEST_TORCH)
onnxruntime = pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.usefixtures("quick_onnx")


@pytest.mark.slow
def test_quantised_weights_are_smaller_and_near(tmp_path: Path) -> None:
    """Weights of products take a byte, also the recurrent ones; what remains takes some KB."""
    net = network(unit="li-bru", units=(128,))
    x = made_up(50)
    export_onnx(net, tmp_path / "large.onnx")
    (found,) = session(net, tmp_path, quantize=True).run(None, {"features": x})
    large, small = ((tmp_path / f"{n}.onnx").stat().st_size for n in ("large", "network"))
    assert 4 * small < large + 4 * 20_000
    error = np.abs(found - net(x).numpy()).max()
    assert 0 < error < 1
    metadata = onnxruntime.InferenceSession(tmp_path / "network.onnx").get_modelmeta()
    assert metadata.custom_metadata_map["weights"] == "int8"


@pytest.mark.slow
@pytest.mark.parametrize("directions", DIRECTIONS, ids=name)
def test_every_matrix_of_a_unit_is_quantised(directions: dict[str, bool], tmp_path: Path) -> None:
    net = network(**COMPLEMENT, **ONE, **directions)
    x = made_up(20)
    (found,) = session(net, tmp_path, quantize=True).run(None, {"features": x})
    assert 0 < np.abs(found - net(x).numpy()).max() < 0.5


def test_a_model_that_does_not_run_is_refused() -> None:
    """As one whose product of matrices, not of batches of them, is given a batch."""
    import onnx
    from onnx.helper import make_graph, make_model, make_node, make_opsetid, make_tensor_value_info

    values = [make_tensor_value_info(n, onnx.TensorProto.FLOAT, ["frames", 3]) for n in "xy"]
    node = make_node("MatMul", ["x", "x"], ["y"])  # 2 x 3 by 2 x 3, of two frames
    graph = make_graph([node], "g", values[:1], values[1:])
    with pytest.raises(InputError, match=r"in 8 bits: .*leave out"):
        _check_runs(make_model(graph, opset_imports=[make_opsetid("", 20)], ir_version=9))

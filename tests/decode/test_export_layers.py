"""Every kind of layer that can be exported computes in ONNX Runtime what `load` does."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from bayes_asr.base.errors import InputError
from bayes_asr.data.features.front_end import FEATURES
from bayes_asr.decode.export import OLDEST_TORCH, export_onnx, export_torchscript
from bayes_asr.decode.forward.log_likelihoods import LogLikelihoods
from bayes_asr.nn.network import AcousticModel
from bayes_asr.train.runs.trained_network import TrainedNetwork
from tests.decode.test_export import (
    check_close,
    check_program,
    check_steps,
    check_utterances,
    made_up,
)
from tests.support.nn_layers import FORMS, INPUTS, network_of, stacked
from tests.support.nn_units import plain_front_end, side_by_side

pytest.importorskip("torch", OLDEST_TORCH)
onnxruntime = pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.usefixtures("quick_onnx")


def exported() -> list[AcousticModel]:
    """The networks whose first layer can be exported."""
    nets = map(network_of, FORMS)
    return [net for net in nets if net.strides["tested"] == 1 and net.layers[0].exportable]


def loaded(net: Any) -> LogLikelihoods:
    priors = torch.log_softmax(torch.arange(4.0, dtype=torch.float64), 0)
    return LogLikelihoods(TrainedNetwork(net, {FEATURES: plain_front_end(INPUTS)}, priors))


@pytest.mark.slow
@pytest.mark.parametrize("looks_ahead", [False, True])
def test_every_layer_gives_what_load_gives(looks_ahead: bool, tmp_path: Path) -> None:
    nets = [net for net in exported() if net.looks_ahead == looks_ahead]
    check_onnx(loaded(side_by_side(nets)), tmp_path)


@pytest.mark.slow
def test_a_causal_stack_gives_what_load_gives(tmp_path: Path) -> None:
    """As a whole and step by step; the head of the phones reads a lower layer."""
    net = stacked(
        {"name": "maps", "kind": "conv2d", "channels": 3, "causal": True, "padding": 1},
        {"name": "tdnn", "kind": "conv1d", "channels": 5, "causal": True, "dilation": 2},
        {"name": "rnn", "kind": "recurrent", "units": 5, "bidirectional": False, "residual": True},
        {"name": "last", "kind": "mlp", "units": 4, "reads": ["rnn", "maps"]},
        heads={"monophones": "tdnn"},
    )
    check_onnx(loaded(net), tmp_path)


def check_onnx(net: LogLikelihoods, folder: Path) -> None:
    check_utterances(net, folder, INPUTS)
    if not net.model.looks_ahead:
        check_steps(net, folder, INPUTS)
        check_program(net, folder, INPUTS)


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
def test_torchscript_of_convolutions_takes_any_length(tmp_path: Path) -> None:
    net = loaded(network_of({"kind": "conv1d", "channels": 6, "dilation": 2}))
    export_torchscript(net, tmp_path / "network.pt")
    script = torch.jit.load(tmp_path / "network.pt")
    for frames in (1, 2, 60):
        x = made_up(frames, INPUTS)
        check_close(script(torch.from_numpy(x)).numpy(), net(x).numpy())


@pytest.mark.parametrize(
    ("form", "computed"),
    [
        ({"kind": "conv1d", "channels": 6, "stride": 3}, "one of 3 frames"),
        ({"kind": "pool", "units": 6}, "one frame an utterance"),
    ],
)
def test_strides_are_not_exported(form: Mapping[str, Any], computed: str, tmp_path: Path) -> None:
    net = loaded(network_of(form))
    with pytest.raises(InputError, match=f"layer tested computes {computed}, which no exporter"):
        export_onnx(net, tmp_path / "network.onnx")
    assert np.isfinite(net(made_up(7, INPUTS)).numpy()).all()


def test_segments_are_not_exported(tmp_path: Path) -> None:
    net = loaded(network_of({"kind": "segments", "units": 6, "segment": 3, "shift": 1}))
    with pytest.raises(InputError, match="layer tested begins anew in each segment, which no"):
        export_onnx(net, tmp_path / "network.onnx")

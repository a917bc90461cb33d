"""Li-BRU as the authors' code has it, where BAYESIAN_RECURRENCE names a clone.

That is idiap/bayesian-recurrence, whose gate z keeps the old state: our weights of the gate that V
multiplies are the negative of theirs, and `batch-opposed` negates what W multiplies.
"""

import importlib.util
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from bayes_asr.config.merge import load
from bayes_asr.nn.frames import pack, unpack
from bayes_asr.nn.layer import Layer
from bayes_asr.nn.network import AcousticModel
from bayes_asr.nn.recurrent import RecurrentLayer
from bayes_asr.train.components import architecture
from tests.support.places import ROOT

CLONE = os.environ.get("BAYESIAN_RECURRENCE", "")
INPUTS, T, B = 5, 30, 4
FORMS = {"harmonic": "logprobs", "geometric": "geomean"}


def load_theirs(**options: Any) -> nn.Module:
    """Their network, without dropout; the test is skipped where there is no clone."""
    path = Path(CLONE, "bayesian_recurrence", "libru.py")
    if not path.is_file():
        pytest.skip("BAYESIAN_RECURRENCE does not name a clone of idiap/bayesian-recurrence")
    spec = importlib.util.spec_from_file_location("libru", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    network: nn.Module = module.liBRU(INPUTS, **options)
    return network


def build_ours(form: str) -> AcousticModel:
    """The network of conf/authors.yaml, small."""
    config = load([ROOT / "conf/authors.yaml"], ["model.units=6", f"model.form={form}"]).model
    return AcousticModel(**architecture(config, {"features": INPUTS}, {"pdfs": 3}))


def copy_weights(theirs: nn.Module, number: int, layer: Layer) -> None:
    """Give a layer the weights and the norm of one of theirs."""
    assert isinstance(layer, RecurrentLayer)
    V = torch.cat([-theirs.Vz[number].weight.T, theirs.V[number].weight.T], 1)
    W = torch.cat([theirs.Wz[number].weight, theirs.W[number].weight])
    layer.V.data.copy_(V.unsqueeze(0))
    layer.W.weight.data.copy_(W)
    layer.norm.norm.load_state_dict(theirs.norm[number].state_dict())


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("training", [True, False])
def test_outputs_and_gradients_are_theirs(form: str, training: bool) -> None:
    torch.manual_seed(0)
    options = {"bidirectional": True, "hidden_type": FORMS[form]}
    theirs, ours = load_theirs(layer_sizes=[6] * 4, **options), build_ours(form)
    for norm in theirs.norm:
        nn.init.uniform_(norm.weight, 0.5, 1.5)
        nn.init.normal_(norm.bias)
        norm.running_mean.normal_()
    recurrent = [layer for layer in ours.layers if isinstance(layer, RecurrentLayer)]
    for number, layer in enumerate(recurrent):
        copy_weights(theirs, number, layer)
    theirs.train(training)
    ours.train(training)
    x = torch.randn(B, T, INPUTS)
    expected = theirs(x)
    packed, frames, order = pack(list(x))
    computed = torch.stack(unpack(ours.hidden({"features": packed}, frames), frames, order))
    torch.testing.assert_close(computed, expected, rtol=1e-5, atol=1e-5)
    weights = torch.randn_like(expected)
    (computed * weights).sum().backward()
    (expected * weights).sum().backward()
    for number, layer in enumerate(recurrent):
        W, Wz, V, Vz, norm = (
            part[number] for part in (theirs.W, theirs.Wz, theirs.V, theirs.Vz, theirs.norm)
        )
        pairs = (
            (layer.W.weight, torch.cat([Wz.weight.grad, W.weight.grad])),
            (layer.V, torch.cat([-Vz.weight.grad.T, V.weight.grad.T], 1)),
            (layer.norm.norm.weight, norm.weight.grad),
            (layer.norm.norm.bias, norm.bias.grad),
        )
        for parameter, by_theirs in pairs:
            error = (parameter.grad.squeeze(0) - by_theirs).norm() / by_theirs.norm()
            assert error < 1e-5

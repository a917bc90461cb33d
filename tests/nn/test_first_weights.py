"""First weights: range, variance and orthogonality of what is drawn."""

import math

import pytest
import torch
from torch import Tensor

from bayes_asr.config.merge import load
from bayes_asr.nn.recurrent import RecurrentLayer
from bayes_asr.train.components import architecture, draw_network
from tests.support.nn_units import recurrent_layer
from tests.support.places import CONF

INPUTS, UNITS = 70, 60
LIKE_THEIRS = [CONF / "pytorch-kaldi.yaml"]


def assert_uniform(weights: Tensor, bound: float) -> None:
    """Within +-bound, up to which many numbers come, with the variance bound^2 / 3."""
    assert weights.abs().max() <= bound
    assert weights.abs().max() > 0.99 * bound
    # The mean of n squares has the standard deviation bound^2 sqrt(4 / 45 n).
    tolerance = 5 * bound**2 * math.sqrt(4 / 45 / weights.numel())
    assert abs(weights.square().mean() - bound**2 / 3) < tolerance


def draw(unit: str, input_init: str) -> RecurrentLayer:
    torch.manual_seed(1)
    return recurrent_layer(INPUTS, UNITS, unit, norm="none", input_init=input_init)


def test_mlps_and_heads_begin_as_those_of_pytorch_kaldi() -> None:
    """Its MLP draws from U(+-sqrt(0.01 / (inputs + outputs))), ours from 24.5 times as far."""
    config = load(LIKE_THEIRS, ["model.stack=[{name: a, kind: mlp, units: 60, norm: none}]"])
    torch.manual_seed(1)
    plan = architecture(config.model, {"features": INPUTS}, {"pdfs": 90})
    model = draw_network(config.model, plan)
    (layer,), (head,) = model.layers, model.heads
    for linear, sizes in ((layer.W, INPUTS + UNITS), (head, UNITS + 90)):
        assert_uniform(linear.weight.detach(), math.sqrt(0.01 / sizes))
        assert not linear.bias.any()
    plain = load([], ["model.stack=[{name: a, kind: mlp, units: 60, norm: none}]"])
    torch.manual_seed(1)
    plan = architecture(plain.model, {"features": INPUTS}, {"pdfs": 90})
    drawn = draw_network(plain.model, plan)
    assert_uniform(drawn.layers[0].W.weight.detach(), math.sqrt(6 / (INPUTS + UNITS)))
    assert_uniform(drawn.heads[0].weight.detach(), 1 / math.sqrt(UNITS))


@pytest.mark.parametrize("unit", ["li-gru", "gru", "lstm", "rnn", "minimal-gru"])
def test_other_units_of_theirs_begin_as_torch_does(unit: str) -> None:
    theirs, uniform = (draw(unit, name).state_dict() for name in ("pytorch-kaldi", "uniform"))
    assert all(torch.equal(theirs[name], uniform[name]) for name in uniform)


@pytest.mark.parametrize("unit", ["torch-lstm", "torch-gru"])
def test_cudnn_classes_draw_all_gates_as_one_matrix(unit: str) -> None:
    layer = draw(unit, "pytorch-kaldi")
    gates = {"torch-lstm": 4, "torch-gru": 3}[unit]
    # LSTM_cudnn leaves torch's weights of inputs, GRU_cudnn takes Glorot's for [G*H, inputs].
    bounds = {"torch-lstm": UNITS**-0.5, "torch-gru": math.sqrt(6 / (INPUTS + gates * UNITS))}
    for V_HX, W_XF in zip(layer.V.detach(), layer.W.weight.detach().chunk(2), strict=True):
        torch.testing.assert_close(V_HX @ V_HX.T, torch.eye(UNITS), atol=1e-5, rtol=0)
        assert_uniform(W_XF, bounds[unit])
    assert not torch.equal(*layer.V)
    assert not layer.W.bias.any()


def test_all_of_a_torch_rnn_is_drawn_by_its_units() -> None:
    layer, theirs = draw("rnn", "uniform-units"), torch.nn.RNN(INPUTS, UNITS)
    for drawn in (layer.V, layer.W.weight, layer.W.bias):
        assert drawn.detach().abs().max() <= UNITS**-0.5
    for drawn in (layer.V, layer.W.weight, theirs.weight_hh_l0, theirs.weight_ih_l0):
        assert_uniform(drawn.detach(), UNITS**-0.5)

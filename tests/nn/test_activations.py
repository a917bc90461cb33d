"""Activations: closed forms, and the parameterised ones of Zhang & Woodland (2015)."""

import numpy as np
import pytest
import torch
from scipy.special import expit

from bayes_asr.base.errors import InputError
from bayes_asr.config.catalogue import ACTIVATIONS, check_trained
from bayes_asr.nn.frames import PackedFrames
from bayes_asr.nn.units.activations import FIXED, PReLU, PSigmoid, build_activation
from tests.support.nn_units import acoustic_model, recurrent_layer

A = torch.linspace(-5, 5, 1001, dtype=torch.float64)


def p_sigmoid(eta: float, gamma: float, theta: float) -> np.ndarray:
    """The function with these parameters on A."""
    activation = PSigmoid(1, 1, ("eta", "gamma", "theta")).double()
    with torch.no_grad():
        for name, value in (("eta", eta), ("gamma", gamma), ("theta", theta)):
            getattr(activation, name).fill_(value)
        return activation(A[:, None]).numpy()[:, 0]


OF_ONE_NUMBER = [name for name in FIXED if name != "log-softmax"]


@pytest.mark.parametrize("name", [*OF_ONE_NUMBER, *ACTIVATIONS])
def test_derivative_is_that_of_the_function(name: str) -> None:
    torch.manual_seed(0)
    activation = build_activation(name, 3, 1)
    a = (3 * torch.randn(50, 1, 3, dtype=torch.float64)).requires_grad_()
    if isinstance(activation, torch.nn.Module):
        activation.double()
        for parameter in activation.parameters():
            parameter.data.add_(torch.rand_like(parameter))
        assert torch.autograd.gradcheck(lambda a, *_: activation(a), (a, *activation.parameters()))
    (by_a,) = torch.autograd.grad(activation(a).sum(), a)
    torch.testing.assert_close(activation.derivative(a), by_a)


def test_initial_parameters_are_those_of_the_plain_functions() -> None:
    a = A[:, None]
    assert torch.equal(build_activation("p-sigmoid", 1, 1)(a), a.sigmoid())
    assert torch.equal(build_activation("p-relu", 1, 1, ("alpha",))(a), a.relu())
    leaky = torch.nn.functional.leaky_relu(a, 0.25)
    assert torch.equal(build_activation("p-relu", 1, 1)(a), leaky)


def test_derivatives_by_the_parameters_are_those_of_the_paper() -> None:
    activation = PSigmoid(1, 1, ("eta", "gamma", "theta")).double()
    values = {"eta": 0.7, "gamma": -1.3, "theta": 0.4}
    for name, value in values.items():
        getattr(activation, name).data.fill_(value)
    a = torch.tensor([[0.9]], dtype=torch.float64)
    activation(a).sum().backward()
    s = expit(values["gamma"] * 0.9 - values["theta"])
    assert activation.eta.grad.item() == pytest.approx(s)
    assert activation.gamma.grad.item() == pytest.approx(0.9 * values["eta"] * s * (1 - s))
    assert activation.theta.grad.item() == pytest.approx(-values["eta"] * s * (1 - s))


@pytest.mark.parametrize(("name", "trains"), [("p-sigmoid", "eta"), ("p-relu", "alpha")])
def test_scale_alone_needs_only_the_value(name: str, trains: str) -> None:
    torch.manual_seed(0)
    activation = build_activation(name, 3, 2, (trains,))
    assert isinstance(activation, torch.nn.Module)
    scale = getattr(activation.double(), trains)
    scale.data = torch.tensor([[0.5, -2.0, 0.0], [1.0, 3.0, 0.0]], dtype=torch.float64)
    a = torch.randn(7, 2, 3, dtype=torch.float64, requires_grad=True)
    kept: list[torch.Tensor] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
        value = activation(a)
    assert [t.shape for t in kept] == [scale.shape, a.shape]
    assert torch.equal(kept[1], value)
    grad = torch.randn_like(value)
    by_scale, by_a = torch.autograd.grad(value, (scale, a), grad)
    plain = torch.sigmoid if name == "p-sigmoid" else torch.relu
    expected = torch.autograd.grad(scale * plain(a), (scale, a), grad)
    torch.testing.assert_close(by_a, expected[1])
    torch.testing.assert_close(by_scale[:, :2], expected[0][:, :2])
    assert torch.equal(by_scale[:, 2], torch.zeros(2, dtype=torch.float64))


@pytest.mark.parametrize("fused", [False, True])
def test_the_derivative_of_a_p_relu_at_0_is_beta(fused: bool) -> None:
    """As the poster has it: alpha a for a > 0, otherwise beta a; of a frame and in a recurrence."""
    activation = PReLU(1, 1, ("alpha", "beta"))
    a = torch.tensor([[-1.0], [0.0], [1.0]], requires_grad=True)
    activation(a).sum().backward()
    assert a.grad.flatten().tolist() == [0.25, 0.25, 1.0] == activation.derivative(a)[:, 0].tolist()
    assert (activation.alpha.grad.item(), activation.beta.grad.item()) == (1.0, -1.0)
    options = {"activation": "p-relu"}
    net = recurrent_layer(3, 2, "rnn", options, bidirectional=False, norm="none", fused=fused)
    with torch.no_grad():
        net.W.bias.zero_()
        net.V.fill_(0.5)
    # All is 0, so that d sum(h) / d a_t = beta (1 + V's row sum times that of t + 1).
    net(torch.zeros(3, 3), PackedFrames((3,))).sum().backward()
    by_last, by_second = 0.25, 0.25 * (1 + 0.25)
    expected = by_last + by_second + 0.25 * (1 + by_second)
    assert net.W.bias.grad.tolist() == [expected, expected]


def test_shapes_that_the_paper_names() -> None:
    a = A.numpy()
    assert np.abs(p_sigmoid(1, 30, 0) - (a > 0))[np.abs(a) > 0.2].max() < 0.0025
    assert np.abs(p_sigmoid(4, 1, 2) - np.logaddexp(0, a)).max() == pytest.approx(1.2, abs=0.01)
    # Printed as p-Sigmoid(3, -2, 3), which falls: it is the ReLU of -a, and (3, 2, 3) that of a.
    for gamma, mirrored in ((-2, -1), (2, 1)):
        near = (mirrored * a >= -5) & (mirrored * a <= 3)
        difference = np.abs(p_sigmoid(3, gamma, 3) - np.maximum(mirrored * a, 0))
        assert difference[near].max() == pytest.approx(0.21, abs=0.01)


@pytest.mark.parametrize("trains", [(), ("beta",), ("alpha",), ("alpha", "beta")])
def test_only_named_parameters_are_trained(trains: tuple[str, ...]) -> None:
    activation = PReLU(4, 2, trains)
    assert [name for name, _ in activation.named_parameters()] == list(trains)
    assert "beta" in trains or activation.beta == 0


@pytest.mark.parametrize("activation", [PSigmoid(4, 2, ("eta",)), PReLU(4, 2, ("alpha",))])
def test_numbers_that_stay_lie_where_trained_ones_do(activation: PSigmoid | PReLU) -> None:
    """On a GPU; the device meta refuses tensors of others too."""
    coefficients = activation.to("meta", torch.float64).coefficients()
    assert (coefficients.device.type, coefficients.dtype) == ("meta", torch.float64)
    assert coefficients.shape == (2, len(activation.initial), 4)


def test_unknown_parameter_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InputError, match="has alpha; known here: eta, gamma, theta"):
        check_trained("p-sigmoid", ("alpha",))


def test_scaling_costs_a_two_thousandth_of_the_parameters() -> None:
    counts = []
    for name in ("sigmoid", "p-sigmoid"):
        options = {"activation": name, **({"activation_trains": ["eta"]} if "p-" in name else {})}
        with torch.device("meta"):
            net = acoustic_model(
                378, [6005], unit="mlp", units=[1000] * 5, options=options, norm="none"
            )
        counts.append(sum(p.numel() for p in net.parameters()))
    assert counts[1] - counts[0] == 5000
    assert 100 * 5000 / counts[0] == pytest.approx(0.048, abs=5e-4)  # the paper says 0.06

"""Back-propagation through time as a lecture derives it, an oracle of every way to compute it.

a_t = b + W h_{t-1} + U x_t, h_t = tanh(a_t), o_t = c + V h_t, L = -sum_t log softmax(o_t)[y_t]
(Ganapathy, Deep Learning: Theory and Practice, 2019; Goodfellow et al. 2016, section 10.2.2).
"""

from typing import NamedTuple

import numpy as np
import pytest
import torch
from scipy.special import log_softmax, softmax
from torch import nn

from bayes_asr.nn.frames import PackedFrames
from bayes_asr.nn.kernels.cpu import library
from bayes_asr.nn.recurrent import RecurrentLayer
from tests.support.nn_units import layer

T, OUTPUTS = 9, 5


class Network(NamedTuple):
    """Parameters in the letters of the lecture, where W is recurrent."""

    W: np.ndarray
    U: np.ndarray
    V: np.ndarray
    b: np.ndarray
    c: np.ndarray


def run_forward(net: Network, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The states h_1 .. h_T and outputs o_1 .. o_T."""
    h, states = np.zeros(len(net.b)), []
    for frame in x:
        h = np.tanh(net.b + net.W @ h + net.U @ frame)
        states.append(h)
    return np.array(states), np.array(states) @ net.V.T + net.c


def loss(net: Network, x: np.ndarray, y: np.ndarray) -> float:
    return -log_softmax(run_forward(net, x)[1], axis=1)[np.arange(len(y)), y].sum()


def go_back(net: Network, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, Network]:
    """Gradients of the loss by the states, and by the parameters."""
    h, o = run_forward(net, x)
    by_o = softmax(o, axis=1) - np.eye(len(net.c))[y]
    by_h = np.zeros_like(h)
    by_h[-1] = net.V.T @ by_o[-1]
    for t in reversed(range(len(x) - 1)):
        # The slide has W^T (dL/dh_{t+1}) diag(1 - h_{t+1}^2); the diagonal stands left of dL/dh.
        by_h[t] = net.W.T @ ((1 - h[t + 1] ** 2) * by_h[t + 1]) + net.V.T @ by_o[t]
    by_a = (1 - h**2) * by_h
    before = np.vstack([np.zeros_like(h[:1]), h[:-1]])
    by_parameters = Network(by_a.T @ before, by_a.T @ x, by_o.T @ h, by_a.sum(0), by_o.sum(0))
    return by_h, by_parameters


def made(dtype: torch.dtype) -> tuple[RecurrentLayer, nn.Linear, Network]:
    """A layer of this toolkit with a head, and the same in the lecture's letters."""
    torch.manual_seed(4)
    recurrent = layer(unit="rnn", bidirectional=False, norm="none").to(dtype)
    head = nn.Linear(4, OUTPUTS).to(dtype)
    assert recurrent.V is not None
    assert recurrent.W.bias is not None
    tensors = recurrent.V[0].T, recurrent.W.weight, head.weight, recurrent.W.bias, head.bias
    return recurrent, head, Network(*(t.detach().double().numpy() for t in tensors))


def drawn() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(6)
    return rng.standard_normal((T, 3)), rng.integers(OUTPUTS, size=T)


def test_the_derivation_is_that_of_the_loss() -> None:
    """By differences, of every parameter."""
    _, _, net = made(torch.float64)
    x, y = drawn()
    _, found = go_back(net, x, y)
    for place, gradient in enumerate(found):
        for index in np.ndindex(gradient.shape):
            values = []
            for step in (1e-5, -1e-5):
                moved = [each.copy() for each in net]
                moved[place][index] += step
                values.append(loss(Network(*moved), x, y))
            assert gradient[index] == pytest.approx((values[0] - values[1]) / 2e-5, abs=1e-8)


@pytest.mark.parametrize("way", ["scan", "fused", "compiled"])
def test_every_way_back_is_the_derivation(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if way == "compiled" and not library.paths():
        pytest.skip("no compiled recurrences: install with a C++ compiler")
    if way == "fused":
        monkeypatch.setenv(library.PATH_VARIABLE, "torch")
    dtype = torch.float32 if way == "compiled" else torch.float64
    recurrent, head, net = made(dtype)
    recurrent.fused = way != "scan"
    x, y = drawn()
    h = recurrent(torch.tensor(x, dtype=dtype), PackedFrames((T,)))
    nn.functional.cross_entropy(head(h), torch.tensor(y), reduction="sum").backward()
    _, expected = go_back(net, x, y)
    assert recurrent.V is not None
    assert recurrent.W.bias is not None
    parameters = recurrent.V, recurrent.W.weight, head.weight, recurrent.W.bias, head.bias
    found = [p.grad for p in parameters]
    found[0] = found[0][0].T  # type: ignore[index]
    tolerance = 1e-5 if way == "compiled" else 1e-12
    for gradient, wanted in zip(found, expected, strict=True):
        np.testing.assert_allclose(gradient, wanted, rtol=0, atol=tolerance)

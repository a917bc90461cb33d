"""Units that inherit from ours and replace an equation, against the loop over frames."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor

from bayes_asr.nn.frames import PackedFrames
from bayes_asr.nn.kernels.reference import associative
from bayes_asr.nn.layer import State
from bayes_asr.nn.units.cell import Cell, Product
from tests.support.nn_units import gradients, recurrent_layer


def leak(self: Cell, a: Tensor, state: State, mask: Tensor | None) -> State:
    """The equation of an heir, as `Cell.forward`."""
    return ((state[0] + a.select(-2, 0).tanh()) / 2,)


def leak_at_once(
    self: Cell, x: Tensor, state: State, product: Product, mask: Tensor | None
) -> State:
    """Another one, as `Cell.step`."""
    fed = product(state[0], slice(None)) if self.recurrent else 1.0
    return leak(self, x + 2 * fed, state, mask)


def read_cautiously(self: Cell, a: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """The terms of an heir, as `MarkovChain.read`."""
    stay, enter, evidence = a.unbind(-2)
    return stay.tanh(), enter - 1, evidence / 2


@pytest.mark.parametrize("mixed_in", [False, True])
@pytest.mark.parametrize(
    ("unit", "replaced"),
    [
        *((unit, {"forward": leak}) for unit in ("rnn", "li-gru", "li-bru", "mgu", "ubru")),
        *((unit, {"step": leak_at_once}) for unit in ("rnn", "li-gru", "li-bru", "ubru")),
        ("ubru", {"read": read_cautiously}),
    ],
)
def test_who_replaces_an_equation_has_its_own_gradients(
    unit: str, replaced: dict[str, Any], mixed_in: bool
) -> None:
    options = {"transitions": "from-input"} if unit == "ubru" else {}
    net = recurrent_layer(3, 5, unit, options, norm="none")
    bases, own = (type(net.cell),), replaced
    if mixed_in:
        bases, own = (type("Mixin", (), replaced), *bases), {}
    net.cell.__class__ = type("Heir", bases, own)
    looped, x, frames = copy.deepcopy(net), torch.randn(11, 3), PackedFrames((6, 4, 1))
    looped.fused = False
    (y, found), (expected, wanted) = (gradients(each, x, frames, None) for each in (net, looped))
    torch.testing.assert_close([y, *found], [expected, *wanted])
    if "read" not in replaced:
        assert not associative.supports(net.cell, torch.zeros(1, device="meta"))

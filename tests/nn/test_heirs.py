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
from bayes_asr.nn.units.conventional import GRU, RNN, LiGRU
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


def drop_half(self: Cell, candidate: Tensor, mask: Tensor | None) -> Tensor:
    """The dropout of an heir, as `Cell.drop`."""
    return candidate if mask is None else candidate * (0.5 + mask)


def normalise(self: Cell, a: Tensor, state: State, mask: Tensor | None) -> State:
    """The equation of an heir whose units read one another, as `Cell.forward`."""
    h = self.drop(state[0] + a.select(-2, -1), mask)
    return (torch.nn.functional.layer_norm(h, h.shape[-1:]),)


class ScaledReset(GRU):
    """An heir with a parameter that `reset` alone reads."""

    def __init__(self, units: int, sets: int, **options: Any) -> None:
        super().__init__(units, sets, **options)
        self.scale = torch.nn.Parameter(torch.rand(sets, units))

    def reset(self, a: Tensor, h: Tensor) -> Tensor:
        """Return the factor of V for the last gate."""
        return self.scale * super().reset(a, h)


class ScaledHandOn(LiGRU):
    """An heir with a parameter that `hand_on` alone reads."""

    def __init__(self, units: int, sets: int, **options: Any) -> None:
        super().__init__(units, sets, **options)
        self.scale = torch.nn.Parameter(torch.rand(sets, units))

    def hand_on(self, h: Tensor) -> Tensor:
        """Return the inputs of the next layer."""
        return self.scale * h


@pytest.mark.parametrize("mixed_in", [False, True])
@pytest.mark.parametrize(
    ("unit", "replaced"),
    [
        *((unit, {"forward": leak}) for unit in ("rnn", "li-gru", "li-bru", "mgu", "ubru")),
        *((unit, {"step": leak_at_once}) for unit in ("rnn", "li-gru", "li-bru", "ubru")),
        *((unit, {"forward": normalise}) for unit in ("rnn", "gru", "li-bru")),
        *((unit, {"drop": drop_half}) for unit in ("rnn", "gru", "li-gru", "bru", "li-bru")),
        ("ubru", {"read": read_cautiously}),
    ],
)
def test_who_replaces_an_equation_has_its_own_gradients(
    unit: str, replaced: dict[str, Any], mixed_in: bool
) -> None:
    options = {"transitions": "from-input"} if unit == "ubru" else {}
    net = recurrent_layer(3, 5, unit, options, norm="none", dropout=0.3 * ("drop" in replaced))
    bases, own = (type(net.cell),), replaced
    if mixed_in:
        bases, own = (type("Mixin", (), replaced), *bases), {}
    net.cell.__class__ = type("Heir", bases, own)
    looped, x, frames = copy.deepcopy(net), torch.randn(11, 3), PackedFrames((6, 4, 1))
    looped.fused = False
    keys = torch.arange(3) if "drop" in replaced else None
    (y, found), (expected, wanted) = (gradients(each, x, frames, keys) for each in (net, looped))
    torch.testing.assert_close([y, *found], [expected, *wanted])
    if "read" not in replaced:
        assert not associative.supports(net.cell, torch.zeros(1, device="meta"))


def test_an_elementwise_equation_of_one_s_own_keeps_the_fused_pass() -> None:
    """Also where it takes roots of its state, which are no numbers at random ones."""

    def rooted(self: Cell, a: Tensor, state: State, mask: Tensor | None) -> State:
        return (state[0].sqrt() + a.select(-2, 0).sigmoid(),)

    net = recurrent_layer(3, 5, "rnn", {}, norm="none")
    for forward, fuses in ((leak, True), (rooted, True), (normalise, False)):
        net.cell.__class__ = type("Heir", (RNN,), {"forward": forward})
        vars(net.cell).pop("_elementwise", None)
        assert net.cell.can_fuse == fuses


@pytest.mark.parametrize("heir", [ScaledReset, ScaledHandOn])
@pytest.mark.parametrize("activation", ["tanh", "p-relu"])
def test_parameters_of_an_heir_are_trained(
    heir: type[Cell], activation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bayes_asr.nn.units.cell.find_cell", lambda unit, options: heir)
    net = recurrent_layer(3, 5, "gru", {"activation": activation}, norm="none")
    looped, x, frames = copy.deepcopy(net), torch.randn(11, 3), PackedFrames((6, 4, 1))
    looped.fused = False
    (y, found), (expected, wanted) = (gradients(each, x, frames, None) for each in (net, looped))
    torch.testing.assert_close([y, *found], [expected, *wanted])

"""The parallel scan over time of Markov chains, on a CPU, against the loop over frames."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor

from bayes_asr.nn import recurrent
from bayes_asr.nn.frames import PackedFrames
from bayes_asr.nn.kernels.dispatch import choose_backend
from bayes_asr.nn.kernels.reference import associative
from bayes_asr.nn.recurrent import RecurrentLayer
from bayes_asr.nn.units.cell import build_cell
from tests.support.nn_units import DIRECTIONS, UNITS, layer, name

CHAINS = [u for u in UNITS if u["unit"] == "ubru"]
every_chain = pytest.mark.parametrize("unit", CHAINS, ids=name)


def differentiate(net: RecurrentLayer, x: Tensor, frames: PackedFrames) -> tuple[Tensor, ...]:
    """Outputs, and the gradients of a random projection of them by inputs and parameters."""
    x = x.clone().requires_grad_()
    y = net(x, frames, torch.arange(len(frames.lengths)))
    projection = torch.randn(y.shape, generator=torch.Generator().manual_seed(3)).double()
    return y.detach(), *torch.autograd.grad((y * projection).sum(), [x, *net.parameters()])


@every_chain
@pytest.mark.parametrize("lengths", [(300, 257, 256, 2, 1), (1,), (9, 9)])
def test_scan_is_the_loop(
    unit: dict[str, Any], lengths: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        recurrent,
        "choose_backend",
        lambda *_, fused, path: associative if fused else choose_backend(*_, fused=False),
    )
    frames = PackedFrames(lengths)
    x = 3 * torch.randn(frames.count, 3, dtype=torch.float64)
    for directions in DIRECTIONS:
        net = layer(**unit, **directions, norm="none", dropout=0.4, initial_state="trained")
        looped = copy.deepcopy(net)
        looped.fused = False
        for mine, theirs in zip(
            differentiate(net, x, frames), differentiate(looped, x, frames), strict=True
        ):
            assert (mine - theirs).abs().max() <= 1e-12 * max(1.0, theirs.abs().max().item())


def test_rounds_are_the_logarithm_of_the_frames() -> None:
    rounds = []

    def compose(later: Tensor, earlier: Tensor) -> Tensor:
        rounds.append(later.shape[1])
        return later + earlier

    frames = PackedFrames((300, 20))
    sums = associative.accumulate(torch.ones(1, frames.count, 1, 1), frames, compose)
    assert torch.equal(sums.flatten(), frames.time + 1.0)
    assert len(rounds) == 9


@every_chain
def test_chains_are_scanned_away_from_a_cpu(unit: dict[str, Any]) -> None:
    cell = build_cell(unit["unit"], 4, 1, unit["options"])
    for each in (cell, cell.backward_message() or cell):
        weights = torch.zeros(1, device="meta")
        assert choose_backend(each, weights, fused=True) is associative
        assert choose_backend(each, torch.zeros(1), fused=True) is not associative

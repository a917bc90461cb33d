"""The parallel scan over time of Markov chains, on a CPU, against the loop over frames."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor

from bayes_asr.nn import recurrent
from bayes_asr.nn.frames import PackedFrames
from bayes_asr.nn.kernels.dispatch import Backend, choose_backend
from bayes_asr.nn.kernels.reference import associative
from bayes_asr.nn.recurrent import RecurrentLayer
from bayes_asr.nn.units.cell import Cell, build_cell
from tests.support.nn_units import DIRECTIONS, UNITS, layer, name

CHAINS = [u for u in UNITS if u["unit"] == "ubru"]
every_chain = pytest.mark.parametrize("unit", CHAINS, ids=name)


@pytest.fixture
def scanned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let layers scan on a CPU as well, unless they are to take the reference."""

    def choose(cell: Cell, weights: Tensor, *, fused: bool, path: str) -> Backend:
        return associative if fused else choose_backend(cell, weights, fused=False, path=path)

    monkeypatch.setattr(recurrent, "choose_backend", choose)


def differentiate(net: RecurrentLayer, x: Tensor, frames: PackedFrames) -> list[Tensor]:
    """Outputs, and the gradients of a random projection of them by inputs and parameters."""
    device = net.W.weight.device
    x = x.to(device).requires_grad_()
    keys = torch.arange(len(frames.lengths), device=device)
    y = net(x, PackedFrames(frames.lengths, device), keys)
    projection = torch.randn(y.shape, generator=torch.Generator().manual_seed(3)).to(y)
    by = torch.autograd.grad((y * projection).sum(), [x, *net.parameters()])
    return [tensor.detach().cpu() for tensor in (y, *by)]


def assert_as_looped(unit: dict[str, Any], lengths: tuple[int, ...], device: str) -> None:
    """Compare outputs and gradients in double precision with those of the loop on a CPU."""
    frames = PackedFrames(lengths)
    x = 3 * torch.randn(frames.count, 3, dtype=torch.float64)
    for directions in DIRECTIONS:
        net = layer(**unit, **directions, norm="none", dropout=0.4, initial_state="trained")
        looped = copy.deepcopy(net)
        looped.fused = False
        for scan, loop in zip(
            differentiate(net.to(device), x, frames), differentiate(looped, x, frames), strict=True
        ):
            assert (scan - loop).abs().max() <= 1e-12 * max(1.0, loop.abs().max().item())


@every_chain
@pytest.mark.parametrize("lengths", [(300, 257, 256, 2, 1), (1,), (9, 9)])
@pytest.mark.usefixtures("scanned")
def test_scan_is_the_loop(unit: dict[str, Any], lengths: tuple[int, ...]) -> None:
    assert_as_looped(unit, lengths, "cpu")


@pytest.mark.gpu
@every_chain
def test_scan_on_a_card_is_the_loop(unit: dict[str, Any]) -> None:
    assert_as_looped(unit, (300, 257, 256, 2, 1), "cuda")


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

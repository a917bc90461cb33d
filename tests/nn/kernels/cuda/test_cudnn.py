"""LSTM and GRU as torch.nn has them, which cuDNN runs on a GPU, against the reference.

On a CPU torch's own code takes the same call.
"""

import itertools

import pytest
import torch
from torch import Tensor

from bayes_asr.nn.frames import PackedFrames
from bayes_asr.nn.kernels.cuda import cudnn
from bayes_asr.nn.kernels.dispatch import choose_backend
from bayes_asr.nn.kernels.reference import fused, scan
from bayes_asr.nn.kernels.reference.scan import Recurrence
from bayes_asr.nn.units.cell import Cell, build_cell
from tests.support.nn_units import KEYS, LENGTHS, batch, layer, recurrent_layer

UNITS = 5
CELLS = ("torch-lstm", "lstm", "torch-gru")
SHARED = ((1, 1, 1), *((2, *sets) for sets in itertools.product((1, 2), repeat=2)))
"""Directions, and the sets of terms and of weights that they have."""


def recurrence_of(
    unit: str, shared: tuple[int, int, int] = (2, 2, 2), device: str = "cpu"
) -> Recurrence:
    """A random recurrence over ragged sequences, of which everything is trained."""
    torch.manual_seed(3)
    D, S, sets = shared
    cell = build_cell(unit, UNITS, sets, {}).to(device, torch.float64)
    for parameter in cell.parameters():
        torch.nn.init.normal_(parameter)
    frames = PackedFrames(LENGTHS, torch.device(device))
    sizes = [(frames.count, S, cell.gates * UNITS), (sets, UNITS, cell.gates * UNITS)]
    sizes += cell.states * [(len(LENGTHS), D, UNITS)]
    terms, V, *initial = (
        torch.randn(size, dtype=torch.float64, device=device, requires_grad=True) for size in sizes
    )
    return Recurrence(cell, frames, (False, True)[:D], terms, V, None, tuple(initial))


def results(h: Tensor, recurrence: Recurrence) -> list[Tensor]:
    """States, and gradients of their squares by whatever is trained."""
    assert recurrence.V is not None
    leaves = [recurrence.terms_NSX, recurrence.V, *recurrence.initial_BDH]
    leaves += recurrence.cell.parameters()
    return [h, *torch.autograd.grad(h.square().sum(), leaves)]


@pytest.mark.parametrize("shared", SHARED)
@pytest.mark.parametrize("unit", CELLS)
def test_states_and_all_gradients_are_those_of_the_equations(
    unit: str, shared: tuple[int, int, int]
) -> None:
    recurrence = recurrence_of(unit, shared)
    computed = results(cudnn.unroll(recurrence), recurrence)
    expected = results(scan.unroll(recurrence), recurrence)
    torch.testing.assert_close(computed, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("unit", CELLS)
def test_a_mask_leaves_it_to_the_reference(unit: str) -> None:
    recurrence = recurrence_of(unit)
    mask = (torch.rand(len(LENGTHS), 2, UNITS, dtype=torch.float64) > 0.5).double()
    dropped = recurrence._replace(mask_BDH=mask)
    computed = results(cudnn.unroll(dropped), dropped)
    expected = results(scan.unroll(dropped), dropped)
    torch.testing.assert_close(computed, expected, rtol=1e-12, atol=1e-12)
    reduced = dropped._replace(terms_NSX=dropped.terms_NSX.bfloat16())
    assert cudnn.unroll(reduced).dtype == torch.bfloat16


@pytest.mark.parametrize(
    ("unit", "options", "weights", "expected"),
    [
        ("torch-lstm", {}, torch.zeros(1), cudnn),
        ("torch-gru", {}, torch.zeros(1), cudnn),
        ("lstm", {"peepholes": False}, torch.zeros(1), cudnn),
        ("lstm", {"peepholes": True}, torch.zeros(1, device="meta"), fused),
        ("gru", {}, torch.zeros(1, device="meta"), fused),
        ("li-bru", {}, torch.zeros(1, device="meta"), fused),
        ("torch-lstm", {}, torch.zeros(1, dtype=torch.float64), fused),
        ("torch-gru", {}, torch.zeros(1, dtype=torch.float64), scan),
    ],
)
def test_what_it_computes_otherwise_is_another_backend_s(
    unit: str, options: dict[str, bool], weights: Tensor, expected: object
) -> None:
    cell: Cell = build_cell(unit, UNITS, 1, options)
    assert choose_backend(cell, weights, fused=True, path="cudnn") is expected


@pytest.mark.parametrize("unit", CELLS)
@pytest.mark.parametrize("reduced", [False, True])
def test_a_layer_learns_as_on_the_eager_path(unit: str, reduced: bool) -> None:
    net = layer(unit=unit, initial_state="trained").float()
    x, frames = batch()
    computed = []
    for net.path in ("cudnn", "eager"):
        net.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=reduced):
            y = net(x.float(), frames, KEYS)
        y.float().square().sum().backward()
        computed.append({"y": y.float(), **{n: p.grad for n, p in net.named_parameters()}})
    bound = 0.05 if reduced else 1e-5
    for name, expected in computed[1].items():
        assert (computed[0][name] - expected).norm() <= bound * expected.norm(), name


def test_it_keeps_nothing_without_gradients() -> None:
    recurrence = recurrence_of("torch-lstm")
    with torch.no_grad():
        assert not cudnn.unroll(recurrence).requires_grad


@pytest.mark.gpu
@pytest.mark.parametrize("unit", CELLS)
def test_cudnn_multiplies_in_single_precision(unit: str) -> None:
    net = recurrent_layer(40, 64, unit, initial_state="trained", norm="layer").cuda()
    x = torch.randn(200 + 150, 40, device="cuda")
    frames = PackedFrames((200, 150), x.device)
    computed = []
    for net.path in ("cudnn", "eager"):
        net.zero_grad()
        y = net(x, frames)
        y.square().sum().backward()
        computed.append({"y": y.detach(), **{n: p.grad for n, p in net.named_parameters()}})
    for name, expected in computed[1].items():
        assert (computed[0][name] - expected).norm() <= 2e-5 * expected.norm(), name

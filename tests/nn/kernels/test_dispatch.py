"""The choice of the backend of a recurrence, and every backend against the reference."""

from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from bayes_asr.nn.frames import PackedFrames
from bayes_asr.nn.kernels import dispatch
from bayes_asr.nn.kernels.cpu import library
from bayes_asr.nn.kernels.cpu import recurrence as cpu
from bayes_asr.nn.kernels.dispatch import BACKENDS, Backend, choose_backend
from bayes_asr.nn.kernels.reference import fused, scan
from bayes_asr.nn.kernels.reference.scan import Recurrence
from bayes_asr.nn.units.cell import Cell, build_cell
from tests.support.nn_units import RECURRENT, layer, name

FRAMES, UNITS, SETS = PackedFrames((5, 3, 3, 1)), 6, 2


def recurrence_of(cell: Cell) -> Recurrence:
    """A random recurrence in both directions, of which everything is trained."""
    torch.manual_seed(1)
    width, sequences = cell.gates * cell.gate_size, len(FRAMES.lengths)
    terms = torch.randn(FRAMES.count, SETS, width, requires_grad=True)
    V = torch.randn(SETS, UNITS, width, requires_grad=True) if cell.recurrent else None
    mask = (torch.rand(sequences, SETS, UNITS) > 0.3).float()
    initial = tuple(torch.rand(sequences, SETS, UNITS) for _ in range(cell.states))
    return Recurrence(cell, FRAMES, (False, True), terms, V, mask, initial)


def unrolled(backend: Backend, recurrence: Recurrence) -> list[Tensor]:
    """States, and gradients of their squares by terms, weights and parameters of the cell."""
    h = backend.unroll(recurrence)
    weights = [] if recurrence.V is None else [recurrence.V]
    leaves = [recurrence.terms_NSX, *weights, *recurrence.cell.parameters()]
    return [h, *torch.autograd.grad(h.square().sum(), leaves)]


@pytest.mark.parametrize("unit", RECURRENT, ids=name)
@pytest.mark.parametrize("backend", BACKENDS[:-1], ids=lambda module: module.__name__)
def test_a_backend_returns_what_the_reference_returns(
    backend: Backend, unit: dict[str, Any]
) -> None:
    cell = build_cell(unit["unit"], UNITS, SETS, unit["options"])
    recurrence = recurrence_of(cell)
    if not backend.supports(cell, recurrence.initial_BDH[0]):
        pytest.skip("another backend computes it")
    pairs = zip(unrolled(backend, recurrence), unrolled(scan, recurrence), strict=True)
    for value, expected in pairs:
        torch.testing.assert_close(value, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.skipif(not library.LIBRARY.usable, reason=library.LIBRARY.fault)
@pytest.mark.parametrize(
    ("unit", "weights", "kernels", "backend"),
    [
        ("li-bru", torch.zeros(1), "portable", cpu),
        ("li-bru", torch.zeros(1), "torch", fused),
        ("li-bru", torch.zeros(1, dtype=torch.float64), "portable", fused),
        ("li-bru", torch.zeros(1, device="meta"), "portable", fused),
        ("torch-gru", torch.zeros(1), "portable", scan),
    ],
)
def test_cell_device_and_type_choose(
    unit: str, weights: Tensor, kernels: str, backend: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(library.PATH_VARIABLE, kernels)
    cell = build_cell(unit, UNITS, SETS, {})
    assert choose_backend(cell, weights, fused=True) is backend
    assert choose_backend(cell, weights, fused=False) is scan


def test_a_further_backend_is_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    unrolled: list[Cell] = []

    def unroll(recurrence: Recurrence) -> Tensor:
        unrolled.append(recurrence.cell)
        return scan.unroll(recurrence)

    further = SimpleNamespace(COMPILED=True, supports=lambda *_: True, unroll=unroll)
    monkeypatch.setattr(dispatch, "BACKENDS", (further, *BACKENDS))
    net, x = layer(unit="torch-gru"), torch.randn(FRAMES.count, 3, dtype=torch.float64)
    net(x, FRAMES)
    assert net.compiled
    assert unrolled == [net.cell]

"""The recurrence of one layer in both directions, by each path, and cuDNN's LSTM and GRU."""

from typing import Protocol

import torch
from peers import GRU, LSTM
from torch import Tensor, nn
from trained import Case, Size, Unit

from bayes_asr.nn.kernels.dispatch import choose_backend
from bayes_asr.nn.kernels.reference.scan import Recurrence


class Timed(Protocol):
    """A recurrence over a random batch."""

    def take(self, path: str) -> None:
        """Compute by this path from now on."""

    def forward(self) -> Tensor:
        """The states."""

    def backward(self, h: Tensor) -> None:
        """The gradients by inputs and weights, of states that `forward` has returned."""


class UnitRecurrence:
    """The recurrence of a unit of this toolkit, behind its input products and norms."""

    def __init__(self, case: Case, size: Size, device: torch.device) -> None:
        self._unit = Unit(case, size._replace(layers=1), device)
        (self.layer,) = self._unit.layers
        self.frames, H = self._unit.batch.frames, self.layer.units
        width = self.layer.cell.gates * self.layer.cell.gate_size
        self.terms = torch.randn(self.frames.count, self.layer.directions, width, device=device)
        shape = (len(self.frames.lengths), self.layer.directions, H)
        self.initial = tuple(s.detach().expand(shape).contiguous() for s in self.layer.begin())
        masked = torch.full(shape, 1 - self.layer.dropout, device=device)
        self.mask = torch.bernoulli(masked) if self.layer.dropout else None
        self.arriving = torch.randn(self.frames.count, *shape[1:], device=device)

    def take(self, path: str) -> None:
        """Compute by a path of `GPU_PATHS`, from terms of the type that it reads."""
        self._unit.take(path)
        layer = self.layer
        self._backend = choose_backend(layer.cell, layer.W.weight, fused=True, path=path)
        reduced = self._unit.bfloat16 and self._backend.COMPILED
        terms = self.terms.to(torch.bfloat16 if reduced else torch.float32)
        self._inputs = terms.detach().requires_grad_()

    def forward(self) -> Tensor:
        """States h [N, D, H]."""
        both = (False, True)
        layer = self.layer
        return self._backend.unroll(
            Recurrence(
                layer.cell, self.frames, both, self._inputs, layer.V, self.mask, self.initial
            )
        )

    def backward(self, h: Tensor) -> None:
        """Gradients by terms and V."""
        weights = [] if self.layer.V is None else [self.layer.V]
        torch.autograd.grad(h, [self._inputs, *weights], self.arriving.to(h.dtype))


class TorchRecurrence:
    """A layer of torch's own units, its input products included."""

    def __init__(
        self, kind: type[nn.LSTM] | type[nn.GRU], case: Case, size: Size, device: torch.device
    ) -> None:
        width = 2 * size.units
        self.layer = kind(width, size.units, bidirectional=True).to(device)
        self.inputs = torch.randn(case.frames, case.batch, width, device=device).requires_grad_()
        self.bfloat16 = case.precision == "bfloat16"

    def take(self, path: str) -> None:
        """There is one path only."""

    def forward(self) -> Tensor:
        """States [T, B, 2H]."""
        with torch.autocast(self.inputs.device.type, torch.bfloat16, enabled=self.bfloat16):
            h: Tensor = self.layer(self.inputs)[0]
        return h

    def backward(self, h: Tensor) -> None:
        """Gradients by inputs and all weights."""
        torch.autograd.grad(h, [self.inputs, *self.layer.parameters()], torch.ones_like(h))


def build_recurrence(case: Case, size: Size, device: torch.device) -> Timed:
    """The recurrence of a case, with random weights and inputs, the same ones each time."""
    torch.manual_seed(1)
    kinds: dict[str, type[nn.LSTM] | type[nn.GRU]] = {LSTM: nn.LSTM, GRU: nn.GRU}
    if case.network in kinds:
        return TorchRecurrence(kinds[case.network], case, size, device)
    return UnitRecurrence(case, size, device)

"""Units of the literature that are not Bayesian: each is its equation, with h_0 = 0.

Shapes: `cell`. The Bayesian units that are compared with them are in `bayesian` and `unitwise`.
"""

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn

from bayes_asr.base.errors import InputError
from bayes_asr.nn.layer import State
from bayes_asr.nn.units.cell import (
    ActivatedCell,
    Cell,
    MixingCell,
    Partials,
    Product,
    apply_mask,
)


class RNN(ActivatedCell):
    r"""h_t = f(a), equations 15 (tanh) and 16 (ReLU) of Bittar & Garner (2021), with h_0 = 0.

    f = \sigma is the unit that feeds back probabilities. f may be parameterised (`activations`).
    """

    kernel: ClassVar = "rnn"

    def forward(self, a: Tensor, state: State, mask: Tensor | None) -> State:
        """Return the state after a frame."""
        return (self.drop(self.activation(a.squeeze(-2)), mask),)

    def partials(
        self, a: Tensor, previous: Sequence[Tensor], state: Sequence[Tensor], mask: Tensor | None
    ) -> Partials:
        """Return the derivatives of `forward`."""
        by_gate = apply_mask(self.activation.derivative(a.squeeze(-2)), mask)
        return [by_gate.unsqueeze(-2)], [[None]]


class MLP(RNN):
    """h_t = f(W x_t + b): a feed-forward layer, the same in both directions of time."""

    states = 0
    recurrent = False


class LSTM(Cell):
    r"""Long short-term memory (Hochreiter & Schmidhuber 1997) with a forget gate (Gers et al.).

    i = \sigma(a_i + p_i c_{t-1}), f = \sigma(a_f + p_f c_{t-1}), c_t = f c_{t-1} + i \tanh a_c,
    o = \sigma(a_o + p_o c_t), h_t = o \tanh c_t. The peepholes p are diagonal; they start at 0, as
    an LSTM without them. The gates are in torch's order i, f, c, o.
    """

    kernel: ClassVar = "lstm"  # lstm-peepholes, where there are any
    gates = 4
    states = 2

    def __init__(self, units: int, sets: int, *, peepholes: bool = False) -> None:
        super().__init__(units, sets)
        self.peepholes = peepholes
        if peepholes:
            self.p_i, self.p_f, self.p_o = (nn.Parameter(torch.zeros(sets, units)) for _ in "ifo")

    def coefficients(self) -> Tensor | None:
        """Return the peepholes of i, f and o."""
        return torch.stack((self.p_i, self.p_f, self.p_o), 1) if self.peepholes else None

    def forward(self, a: Tensor, state: State, mask: Tensor | None) -> State:
        """Return h and c after a frame."""
        a_i, a_f, a_c, a_o = a.unbind(-2)
        c = state[1]
        if self.peepholes:
            a_i, a_f = a_i + self.p_i * c, a_f + self.p_f * c
        c = a_f.sigmoid() * c + a_i.sigmoid() * apply_mask(a_c.tanh(), mask)
        if self.peepholes:
            a_o = a_o + self.p_o * c
        return a_o.sigmoid() * c.tanh(), c

    def partials(
        self, a: Tensor, previous: Sequence[Tensor], state: Sequence[Tensor], mask: Tensor | None
    ) -> Partials:
        """Return the derivatives of `forward`; those of h go through c, but for its own gate."""
        a_i, a_f, a_c, a_o = a.unbind(-2)
        old, c = previous[1], state[1]
        if self.peepholes:
            a_i, a_f, a_o = a_i + self.p_i * old, a_f + self.p_f * old, a_o + self.p_o * c
        i, f, o, g, t = a_i.sigmoid(), a_f.sigmoid(), a_o.sigmoid(), a_c.tanh(), c.tanh()
        # dc_t by the pre-activations of i, f and c; that of o is 0.
        by_i, by_f = i * (1 - i) * apply_mask(g, mask), f * (1 - f) * old
        by_c = torch.stack((by_i, by_f, apply_mask(i, mask) * (1 - g * g), torch.zeros_like(g)), -2)
        # dh_t / da_o, dh_t / dc_t and dc_t / dc_{t-1}
        by_o, h_by_c, c_by_old = t * o * (1 - o), o * (1 - t * t), f
        if self.peepholes:
            h_by_c = h_by_c + self.p_o * by_o
            c_by_old = c_by_old + self.p_i * by_i + self.p_f * by_f
        by_h = by_c * h_by_c.unsqueeze(-2)
        by_h.select(-2, 3).copy_(by_o)
        return [by_h, by_c], [[None, h_by_c * c_by_old], [None, c_by_old]]


class BlockLSTM(Cell):
    r"""An LSTM of blocks of S memory cells that share their gates (Hochreiter & Schmidhuber 1997).

    As `LSTM` for each cell s of a block, with one i, f and o of the block, whose peepholes read all
    of its cells: i = \sigma(a_i + \sum_s p_{i,s} c_{s,t-1}), likewise f, and o with c_{s,t}. The
    gates are i, f, those of the candidates of the first cells of all blocks, of the second ones and
    so on, and o. Unit s B + b is cell s of block b of B. With S = 1 it is `LSTM`.
    """

    states = 2
    fusible = False  # gates are of blocks

    def __init__(
        self, units: int, sets: int, *, cells_per_block: int, peepholes: bool = False
    ) -> None:
        if units % cells_per_block:
            raise InputError(
                f"units is {units}, which is no multiple of cells_per_block = {cells_per_block};"
                " make it one"
            )
        super().__init__(units, sets)
        self.cells, self.gates = cells_per_block, 3 + cells_per_block
        self.gate_size = units // cells_per_block
        self.peepholes = peepholes
        if peepholes:
            self.p_i, self.p_f, self.p_o = (nn.Parameter(torch.zeros(sets, units)) for _ in "ifo")

    def forward(self, a: Tensor, state: State, mask: Tensor | None) -> State:
        """Return h and c after a frame."""
        # [n, D, S, B] of the S candidates in turn becomes [n, D, H], with unit s B + b.
        a_i, a_f, a_o = (a.select(-2, gate) for gate in (0, 1, -1))
        candidate = a[..., 2:-1, :].flatten(-2).tanh()
        c = state[1]
        if self.peepholes:
            a_i, a_f = a_i + self._add_up(self.p_i * c), a_f + self._add_up(self.p_f * c)
        c = self._share(a_f) * c + self._share(a_i) * apply_mask(candidate, mask)
        if self.peepholes:
            a_o = a_o + self._add_up(self.p_o * c)
        return self._share(a_o) * c.tanh(), c

    def _add_up(self, x: Tensor) -> Tensor:
        """The sums over the cells of each block [n, D, B], of numbers of each cell [n, D, H]."""
        return x.unflatten(-1, (self.cells, -1)).sum(-2)

    def _share(self, a: Tensor) -> Tensor:
        """The gate of a block for each of its cells [n, D, H], by its pre-activations [n, D, B]."""
        return a.sigmoid().repeat(1, 1, self.cells)


class TorchLSTM(LSTM):
    """The LSTM of torch.nn.LSTM, without peepholes."""

    kernel: ClassVar = "lstm"


class GRU(MixingCell):
    r"""Gated recurrent unit of Cho et al. (2014): the reset gate acts before the matrix product.

    z = \sigma(a_z), r = \sigma(a_r), \tilde h = f(W x + V (r h_{t-1}) + b) with f = tanh,
    h_t = (1 - z) h_{t-1} + z \tilde h.
    """

    kernel: ClassVar = "gru"
    gates = 3
    resets = True
    fusible = True

    def reset(self, a: Tensor, h: Tensor) -> Tensor:
        """Return r h_{t-1}."""
        return a.select(-2, 1).sigmoid() * h


class LiGRU(MixingCell):
    r"""Light gated recurrent unit (Ravanelli et al. 2018), equation 8 of Bittar & Garner's poster.

    z = \sigma(a_z), \tilde h = f(a_h), h_t = z \tilde h + (1 - z) h_{t-1}, h_0 = 0, f = ReLU.
    """

    kernel: ClassVar = "mixing"
    gates = 2


class TorchGRU(Cell):
    r"""The GRU of torch.nn.GRU: the reset gate acts on the product, and z keeps the old state.

    r = \sigma(a_r), z = \sigma(a_z), \tilde h = \tanh(W x + b + r (V h_{t-1} + b')),
    h_t = z h_{t-1} + (1 - z) \tilde h. The gates are in torch's order r, z, h.
    """

    gates = 3

    def __init__(self, units: int, sets: int) -> None:
        super().__init__(units, sets)
        self.recurrent_bias = nn.Parameter(torch.zeros(sets, units))

    def step(self, x: Tensor, state: State, product: Product, mask: Tensor | None) -> State:
        """Return the state after a frame."""
        (h,) = state
        y = product(h, slice(None))
        r, z = (x + y)[..., :2, :].sigmoid().unbind(-2)
        c = torch.tanh(x.select(-2, 2) + r * (y.select(-2, 2) + self.recurrent_bias))
        return (torch.lerp(apply_mask(c, mask), h, z),)


class MGU(MixingCell):
    r"""Minimal gated unit (Zhou et al. 2016): one gate forgets and resets.

    f = \sigma(a_f), \tilde h = \tanh(W x + V (f h_{t-1}) + b), h_t = (1 - f) h_{t-1} + f \tilde h.
    """

    kernel: ClassVar = "mgu"
    gates = 2
    resets = True
    fusible = True

    def reset(self, a: Tensor, h: Tensor) -> Tensor:
        """Return f h_{t-1}."""
        return a.squeeze(-2).sigmoid() * h


class MinimalGRU(MGU):
    r"""pytorch-kaldi's `minimalGRU`: a gate that resets with one polarity, updates with the other.

    z = \sigma(a_z), \tilde h = \tanh(W x + V (z h_{t-1}) + b), h_t = z h_{t-1} + (1 - z) \tilde h.
    It is another model than `MGU`: no change of weights turns one into the other.
    """

    kernel: ClassVar = "minimal-gru"

    def forward(self, a: Tensor, state: State, mask: Tensor | None) -> State:
        """Return the state after a frame."""
        z, c = a.unbind(-2)
        return (torch.lerp(apply_mask(self.activation(c), mask), state[0], z.sigmoid()),)

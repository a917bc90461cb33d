"""Recurrent cells: each is its equation.

A cell gets a_t = W x_t + V h_{t-1} + b for each of its G gates and returns the next state. What surrounds the equation (input
products, batch normalisation, time, directions) is in `layer`, `scan` and `fused`.

Shapes: pre-activations [n, D, G, H], state and mask [n, D, H]. `mask` is the recurrent dropout mask of the candidate, one for
all frames of a sequence; None outside training.

`partials` gives the derivatives of the new state with respect to the pre-activations [N, D, G, H] and, at fixed
pre-activations, to the previous state [N, D, H]. From them `fused` runs the backward pass of any of these cells.
"""

import math
from typing import ClassVar, Protocol

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid


class Cell(Protocol):
    """What `layer` asks of a cell with one state vector."""

    gates: ClassVar[int]
    initial: ClassVar[float]
    """Every component of the state before the first frame."""

    def __call__(self, a: Tensor, h: Tensor, mask: Tensor | None) -> Tensor:
        """Return the state after a frame [n, D, H]."""

    def partials(
        self, a: Tensor, h: Tensor, new: Tensor, mask: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Return the derivatives of the new state `new` by `a` [N, D, G, H] and by `h` [N, D, H]."""


class LiGRU:
    r"""Light gated recurrent unit (Ravanelli et al. 2018), equation 8 of Bittar & Garner's poster.

    z = \sigma(a_z), \tilde h = ReLU(a_h), h_t = z \tilde h + (1 - z) h_{t-1}, with h_0 = 0.
    """

    gates = 2
    initial = 0.0

    def __call__(self, a: Tensor, h: Tensor, mask: Tensor | None) -> Tensor:
        z, c = a.unbind(-2)
        return torch.lerp(h, masked(c.relu(), mask), z.sigmoid())

    def partials(
        self, a: Tensor, h: Tensor, new: Tensor, mask: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        z = a.select(-2, 0).sigmoid()
        c = masked(a.select(-2, 1).relu(), mask)
        by_gate = torch.empty_like(a)
        torch.mul(z * (1 - z), c - h, out=by_gate.select(-2, 0))
        torch.mul(masked(z, mask), a.select(-2, 1) > 0, out=by_gate.select(-2, 1))
        return by_gate, 1 - z


class LiBRU:
    r"""Light Bayesian recurrent unit (Bittar & Garner 2021), equations 19a-c, in the log domain.

    z = \sigma(a_z), \tilde h = \sigma(a_h), h_t = z \tilde h + (1 - z) h_{t-1}, where a = W x + V \log h_{t-1} + b.

    The state is l = \log h, so that no logarithm of a small number is ever taken (no epsilon):
    l_t = logaddexp(\log z + \log \tilde h, \log(1 - z) + l_{t-1}). The next layer reads l, as in the paper.
    The paper does not say how the recurrence starts: here h_0 = 1/2, the prior of a feature of which nothing is known.
    Dropout multiplies \log \tilde h, which keeps it the logarithm of a probability; a dropped candidate has \log \tilde h = 0
    and adds nothing to the sums in which log-probabilities appear.
    """

    gates = 2
    initial = math.log(0.5)

    def __call__(self, a: Tensor, h: Tensor, mask: Tensor | None) -> Tensor:
        log_z, log_c = logsigmoid(a).unbind(-2)
        candidate = log_z + masked(log_c, mask)
        # log(1 - z) = log z - a_z
        return torch.logaddexp(candidate, log_z - a.select(-2, 0) + h)

    def partials(
        self, a: Tensor, h: Tensor, new: Tensor, mask: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        log_z = logsigmoid(a.select(-2, 0))
        z, c = a.sigmoid().unbind(-2)
        # The share of the old state in the new one, in [0, 1]; nothing is divided by a small probability.
        kept = torch.exp(log_z - a.select(-2, 0) + h - new)
        by_gate = torch.empty_like(a)
        torch.sub(1 - z, kept, out=by_gate.select(-2, 0))
        torch.mul(masked(1 - kept, mask), 1 - c, out=by_gate.select(-2, 1))
        return by_gate, kept


def masked(x: Tensor, mask: Tensor | None) -> Tensor:
    """Apply a dropout mask where there is one."""
    return x if mask is None else x * mask


CELLS: dict[str, type[Cell]] = {"li-bru": LiBRU, "li-gru": LiGRU}

"""Bayesian recurrent units (Bittar & Garner 2021): each is its equation.

Shapes: pre-activations a [n, D, G, H]; states and mask [n, D, H] (`cell`). Gates are in the order
of the equations.
"""

import math
from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from bayes_asr.nn.layer import State
from bayes_asr.nn.linear import multiply_directions
from bayes_asr.nn.units.activations import softplus
from bayes_asr.nn.units.cell import (
    LogProbability,
    NegativeLogProbability,
    Partials,
    Product,
    apply_mask,
)
from bayes_asr.nn.units.conventional import RNN, LiGRU

LEAST_LOG = math.log(torch.finfo(torch.float32).tiny)


class BRU(LogProbability, RNN):
    r"""Bayesian recurrent unit, equation 13: h_t = \sigma(W x_t + V \log h_{t-1} + b), h_0 = 1/2.

    The state is l = \log h, so that no logarithm of a small number is ever taken; the next layer
    reads l, as in the paper.
    """

    kernel: ClassVar = "rnn"

    def __init__(self, units: int, sets: int, *, dropped_candidate: str = "zero") -> None:
        super().__init__(units, sets, activation="log-sigmoid", dropped_candidate=dropped_candidate)


class ComplementBRU(LogProbability):
    r"""BRU with both terms of the beta distribution, equation 7 of Bittar & Garner (2021):
    h_t = \sigma(W x_t + V \log h_{t-1} + U \log(1 - h_{t-1}) + b), h_0 = 1/2.

    Section 2.1 leaves the second term out; U begins at 0, where this is `BRU`. The states are
    \log h and \log(1 - h), of which one is always far from 0: fed back with a gain above 1 they
    would grow without bound, so neither is below that of the smallest float32. Dropout multiplies
    the second one, whatever a dropped candidate is.
    """

    states = 2

    def __init__(self, units: int, sets: int, *, dropped_candidate: str = "zero") -> None:
        super().__init__(units, sets, dropped_candidate=dropped_candidate)
        self.U = nn.Parameter(torch.zeros(sets, units, units))

    def step(self, x: Tensor, state: State, product: Product, mask: Tensor | None) -> State:
        """Return the state after a frame."""
        absent = multiply_directions(state[1], self.U)
        a = (x + product(state[0], slice(None))).squeeze(-2) + absent
        # log h and log(1 - h) of h = sigma(a), each without 1 - h ever being computed.
        present, absent = (logsigmoid(side).clamp(min=LEAST_LOG) for side in (a, -a))
        return self.drop(present, mask), apply_mask(absent, mask)


class LogBRU(NegativeLogProbability, RNN):
    r"""Bayesian recurrent unit, equation 14: h_t = softplus(W x_t + V h_{t-1} + b).

    h = -\log p of the probability p of equation 13 with W and b negated and the same V; p_0 = 1/2
    gives h_0 = \log 2.
    """

    kernel: ClassVar = "rnn"

    def __init__(self, units: int, sets: int, *, dropped_candidate: str = "zero") -> None:
        super().__init__(units, sets, activation="softplus", dropped_candidate=dropped_candidate)


class LiBRU(LogProbability):
    r"""Light Bayesian recurrent unit (Bittar & Garner 2021), equations 19a-c, in the log domain.

    z = \sigma(a_z), \tilde h = \sigma(a_h), h_t = z \tilde h + (1 - z) h_{t-1},
    where a = W x + V \log h_{t-1} + b.

    The state is l = \log h, so that no logarithm of a small number is ever taken (no epsilon):
    l_t = logaddexp(\log z + \log \tilde h, \log(1 - z) + l_{t-1}).
    The next layer reads l, as in the paper. The paper does not say how the recurrence starts: here
    h_0 = 1/2, the prior of a feature of which nothing is known. Dropout multiplies \log \tilde h,
    which keeps it the logarithm of a probability; a dropped candidate has \log \tilde h = 0 and
    adds nothing to the sums in which log-probabilities appear.
    """

    kernel: ClassVar = "li-bru"
    gates = 2

    def forward(self, a: Tensor, state: State, mask: Tensor | None) -> State:
        """Return the state after a frame."""
        log_z, log_c = logsigmoid(a).unbind(-2)
        candidate = log_z + self.drop(log_c, mask)
        # log(1 - z); log z - a_z cancels where the gate is shut, with errors that the state adds up
        return (torch.logaddexp(candidate, logsigmoid(-a.select(-2, 0)) + state[0]),)

    def partials(
        self, a: Tensor, previous: Sequence[Tensor], state: Sequence[Tensor], mask: Tensor | None
    ) -> Partials:
        """Return the derivatives of `forward`."""
        z, c = a.sigmoid().unbind(-2)
        # dl_t / dl_{t-1} = (1 - z) h_{t-1} / h_t: the share of the old state in the new one, in
        # [0, 1]; as a difference of logarithms, nothing is divided by a small probability.
        share = torch.exp(logsigmoid(-a.select(-2, 0)) + previous[0] - state[0])
        by_gate = torch.empty_like(a)
        # dl_t / da_z = (1 - share) (1 - z) - share z, where 1 - share is that of the candidate.
        torch.sub(1 - z, share, out=by_gate.select(-2, 0))
        torch.mul(apply_mask(1 - share, mask), 1 - c, out=by_gate.select(-2, 1))
        return [by_gate], [[share]]


class OwnGateLiBRU(LogProbability):
    r"""Li-BRU whose gate recurs on itself (Bittar & Garner 2021, section 4):
    z_t = \sigma(W x_t + V \log z_{t-1} + b) with z_0 = 1/2, the rest as `LiBRU`.

    The states are \log h and \log z, which is kept above that of the smallest float32, as in
    `ComplementBRU`.
    """

    gates = 2
    states = 2

    def step(self, x: Tensor, state: State, product: Product, mask: Tensor | None) -> State:
        """Return the state after a frame."""
        a_z = x.select(-2, 0) + product(state[1], slice(0, 1)).squeeze(-2)
        a_h = x.select(-2, 1) + product(state[0], slice(1, 2)).squeeze(-2)
        log_z = logsigmoid(a_z)
        candidate = log_z + self.drop(logsigmoid(a_h), mask)
        return torch.logaddexp(candidate, logsigmoid(-a_z) + state[0]), log_z.clamp(min=LEAST_LOG)


class LogLiBRU(NegativeLogProbability):
    r"""The exact twin of `LiBRU` on h = -\log p: the gate still mixes probabilities.

    z = \sigma(a_z), \tilde h = softplus(a_h), h_t = -\log(z e^{-\tilde h} + (1 - z) e^{-h_{t-1}}),
    with h_0 = \log 2. It computes what `LiBRU` does with W and b of the candidate and V of the gate
    negated.
    """

    kernel: ClassVar = "log-li-bru"
    gates = 2

    def forward(self, a: Tensor, state: State, mask: Tensor | None) -> State:
        """Return the state after a frame."""
        a_z, a_h = a.unbind(-2)
        candidate = logsigmoid(a_z) - self.drop(softplus(a_h), mask)
        return (-torch.logaddexp(candidate, logsigmoid(-a_z) - state[0]),)

    def partials(
        self, a: Tensor, previous: Sequence[Tensor], state: Sequence[Tensor], mask: Tensor | None
    ) -> Partials:
        """Return the derivatives of `forward`."""
        z, s = a.sigmoid().unbind(-2)
        # As in `LiBRU`, with h = -l: the derivatives by a_z change their sign, those by h do not.
        share = torch.exp(logsigmoid(-a.select(-2, 0)) - previous[0] + state[0])
        by_gate = torch.empty_like(a)
        torch.sub(share, 1 - z, out=by_gate.select(-2, 0))
        torch.mul(apply_mask(1 - share, mask), s, out=by_gate.select(-2, 1))
        return [by_gate], [[share]]


class HarmonicLiBRU(NegativeLogProbability):
    r"""Li-BRU whose gate takes the harmonic mean of probabilities, the default of the authors' code
    (idiap/bayesian-recurrence, `logprobs`), on h = -\log p.

    z = \sigma(a_z), \tilde h = softplus(a_h), h_t = \log(z e^{\tilde h} + (1 - z) e^{h_{t-1}}),
    with h_0 = \log 2: 1 / p is mixed. Theirs has z in the place of 1 - z, and h_0 = 0.
    """

    kernel: ClassVar = "harmonic-li-bru"
    gates = 2

    def forward(self, a: Tensor, state: State, mask: Tensor | None) -> State:
        """Return the state after a frame."""
        a_z, a_h = a.unbind(-2)
        candidate = logsigmoid(a_z) + self.drop(softplus(a_h), mask)
        return (torch.logaddexp(candidate, logsigmoid(-a_z) + state[0]),)

    def partials(
        self, a: Tensor, previous: Sequence[Tensor], state: Sequence[Tensor], mask: Tensor | None
    ) -> Partials:
        """Return the derivatives of `forward`."""
        z, s = a.sigmoid().unbind(-2)
        # As in `LiBRU`: the states are logarithms that are mixed, here of 1 / p.
        share = torch.exp(logsigmoid(-a.select(-2, 0)) + previous[0] - state[0])
        by_gate = torch.empty_like(a)
        torch.sub(1 - z, share, out=by_gate.select(-2, 0))
        torch.mul(apply_mask(1 - share, mask), s, out=by_gate.select(-2, 1))
        return [by_gate], [[share]]


class GeometricLiBRU(NegativeLogProbability, LiGRU):
    r"""Li-BRU whose gate takes the geometric mean of probabilities (Bittar & Garner 2021, section
    5.2).

    Li-GRU with f = softplus on h = -\log p: e^{-h_t} = (e^{-\tilde h})^z (e^{-h_{t-1}})^{1 - z},
    with h_0 = \log 2.
    """

    kernel: ClassVar = "mixing"

    def __init__(self, units: int, sets: int, *, dropped_candidate: str = "zero") -> None:
        super().__init__(units, sets, activation="softplus", dropped_candidate=dropped_candidate)

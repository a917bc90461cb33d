r"""The unit-wise Bayesian recurrent unit (Garner & Tong 2020; Bittar & Garner 2022).

Each unit is a hidden Markov model of two states: a feature is present at a frame with probability
p_1 where it was present before, and p_2 where it was not; a = W x + b is the logarithm of
p(x|present) / p(x|absent). Everything is computed with log-odds: no probability is ever divided by,
and inputs of any size are exact.
"""

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from bayes_asr.nn.layer import State
from bayes_asr.nn.units.cell import Cell, Partials, apply_mask

FIRST_LOGIT = 2.0
r"""p_1 begins at \sigma(2) = 0.88 and p_2 at \sigma(-2) = 0.12; a unit whose two are equal has no
memory."""


def predict(h: Tensor, stay: Tensor, enter: Tensor) -> tuple[Tensor, Tensor]:
    """Logarithms of p_1 e^h + p_2 and (1 - p_1) e^h + 1 - p_2, whose difference is the logit of the
    prediction.

    h: log-odds of the feature at the frame before; stay, enter: logits of p_1 and p_2.
    """
    return (
        torch.logaddexp(logsigmoid(stay) + h, logsigmoid(enter)),
        torch.logaddexp(logsigmoid(-stay) + h, logsigmoid(-enter)),
    )


def look_back(u: Tensor, stay: Tensor, enter: Tensor) -> tuple[Tensor, Tensor]:
    """Logarithms of p_1 e^u + 1 - p_1 and p_2 e^u + 1 - p_2, whose difference is the message to the
    frame before.

    u: log-odds that a frame and those after it add to those of the feature there.
    """
    return (
        torch.logaddexp(logsigmoid(stay) + u, logsigmoid(-stay)),
        torch.logaddexp(logsigmoid(enter) + u, logsigmoid(-enter)),
    )


class MarkovChain(Cell):
    """A cell whose last state l is the log-odds of a feature, or what frames add to them.

    Dropout multiplies a: a dropped frame tells nothing about the feature.
    """

    recurrent = False

    def __init_subclass__(cls) -> None:
        """Forget what base classes know of an equation, or of terms, that a class replaces."""
        super().__init_subclass__()
        if not cls.knows("partials", "read"):
            cls.partials = Cell.partials  # type: ignore[method-assign]
        if not cls.knows("matrix", "forward"):
            cls.matrix = MarkovChain.matrix  # type: ignore[method-assign]

    def read(self, a: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Return the logits of p_1 and p_2, and the evidence with dropout [n, D, H]."""
        raise NotImplementedError

    def matrix(self, a: Tensor, mask: Tensor | None) -> Tensor:
        """Return A, B and C [3, n, D, H] of e^l = (e^{A + l} + e^B) / (e^{C + l} + 1), l after a
        frame by l before it.
        """
        raise NotImplementedError


class TrainedChain(MarkovChain):
    r"""A chain with p_1 = \sigma(stay) and p_2 = \sigma(enter) [sets, H]."""

    stay: nn.Parameter
    enter: nn.Parameter

    def read(self, a: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Return the logits of p_1 and p_2 [sets, H], and the evidence with dropout [n, D, H]."""
        return self.stay, self.enter, apply_mask(a.squeeze(-2), mask)


class GatedChain(MarkovChain):
    r"""A chain whose p_1 = \sigma(s) and p_2 = \sigma(n) are gates, of each frame.

    s = 2 + W_s x + b_s and n = -2 + W_n x + b_n, so that they begin where trained ones do, whatever
    the norm. The pre-activations are those of s and n, then a.
    """

    gates = 3

    def read(self, a: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Return the logits of p_1 and p_2, and the evidence with dropout [n, D, H]."""
        stay, enter, evidence = a.unbind(-2)
        return stay + FIRST_LOGIT, enter - FIRST_LOGIT, apply_mask(evidence, mask)


class Filter(MarkovChain):
    """A chain from the first frame to the last; the next layer reads log-probabilities.

    input_gate: whether an `InputGate` stands before a.
    smooth: whether later frames count too, by `backward_message`.
    """

    probabilistic = True

    def __init__(
        self, units: int, sets: int, *, input_gate: bool = False, smooth: bool = False
    ) -> None:
        super().__init__(units, sets)
        self.input_gate, self.smooth = input_gate, smooth

    @property
    def projections(self) -> int:
        """Vectors of weights W of each unit: one more than gates, with an input gate."""
        return self.gates + self.input_gate

    def expansion(self) -> nn.Module | None:
        """Return the input gate, if any."""
        return InputGate() if self.input_gate else None

    def forward(self, a: Tensor, state: State, mask: Tensor | None) -> State:
        """Return the log-odds after a frame."""
        stay, enter, evidence = self.read(a, mask)
        present, absent = predict(state[0], stay, enter)
        return (evidence + present - absent,)

    def matrix(self, a: Tensor, mask: Tensor | None) -> Tensor:
        """Return the matrix of a frame: e^a times the first row of predictions."""
        stay, enter, evidence = self.read(a, mask)
        corner = logsigmoid(-enter)
        return _stack(
            evidence + logsigmoid(stay) - corner, evidence + enter, logsigmoid(-stay) - corner
        )

    def probability(self, h: Tensor) -> Tensor:
        """Probability that the feature is present."""
        return h.sigmoid()

    def hand_on(self, h: Tensor) -> Tensor:
        """Logarithm of the probability."""
        return logsigmoid(h)


class UBRU(Filter, TrainedChain):
    r"""h_t = logit P(present | x_1..x_t) = a + logit(p_1 P_{t-1} + p_2 (1 - P_{t-1})), P_0 = 1/2.

    smooth: h_t = logit P(present | x_1..x_T), by the backward pass over what is still to come.
    p_1 and p_2 of each unit are trained.
    """

    kernel: ClassVar = "ubru"

    def __init__(
        self, units: int, sets: int, *, input_gate: bool = False, smooth: bool = False
    ) -> None:
        super().__init__(units, sets, input_gate=input_gate, smooth=smooth)
        self.stay = nn.Parameter(torch.full((sets, units), FIRST_LOGIT))
        self.enter = nn.Parameter(torch.full((sets, units), -FIRST_LOGIT))

    def coefficients(self) -> Tensor:
        r"""Return u, v and w [sets, 3, H] of h_t = a + w + softplus(h_{t-1} + u) - softplus(h_{t-1}
        + v).
        """
        # p_2 and 1 - p_2 are taken out of the logarithms of `predict`; their ratio is e^enter.
        u = logsigmoid(self.stay) - logsigmoid(self.enter)
        v = logsigmoid(-self.stay) - logsigmoid(-self.enter)
        return torch.stack((u, v, self.enter), 1)

    def backward_message(self) -> Cell | None:
        """Return the recurrence that smoothing adds."""
        return BackwardMessage(self.stay, self.enter) if self.smooth else None


class BackwardMessage(TrainedChain):
    r"""The log-odds that the frames after t add to those at t, from the last frame to the first.

    d_t = log(p_1 e^u + 1 - p_1) - log(p_2 e^u + 1 - p_2) with u = d_{t+1} + a_{t+1}, and d_T = 0:
    the logarithm of the ratio of the backward variables of the forward-backward algorithm. Its
    states are d and the u of the next step.
    """

    kernel: ClassVar = "ubru-later"
    states = 2

    def __init__(self, stay: nn.Parameter, enter: nn.Parameter) -> None:
        super().__init__(stay.shape[-1], stay.shape[0])
        self.stay, self.enter = stay, enter

    def coefficients(self) -> Tensor:
        """Return u, v and w [sets, 3, H] of d_t = w + softplus(x + u) - softplus(x + v).

        x is the second state.
        """
        # 1 - p_1 and 1 - p_2 are taken out; what is left beside e^u are the odds of p_1 and p_2.
        w = logsigmoid(-self.stay) - logsigmoid(-self.enter)
        return torch.stack((self.stay, self.enter, w), 1)

    def forward(self, a: Tensor, state: State, mask: Tensor | None) -> State:
        """Return d and u after a frame."""
        stay, enter, evidence = self.read(a, mask)
        present, absent = look_back(state[1], stay, enter)
        d = present - absent
        return d, d + evidence

    def matrix(self, a: Tensor, mask: Tensor | None) -> Tensor:
        """Return the matrix of u: e^a of a frame times the first row of messages."""
        stay, enter, evidence = self.read(a, mask)
        corner = logsigmoid(-enter)
        return _stack(
            evidence + logsigmoid(stay) - corner, evidence + logsigmoid(-stay) - corner, enter
        )


class GatedUBRU(Filter, GatedChain):
    """`UBRU` with gates: p_1 = p_2 forgets the past, p_1 = 1 and p_2 = 0 keep it."""

    kernel: ClassVar = "ubru-gates"

    def partials(
        self, a: Tensor, previous: Sequence[Tensor], state: Sequence[Tensor], mask: Tensor | None
    ) -> Partials:
        """Return the derivatives of `forward`."""
        stay, enter, evidence = self.read(a, mask)
        p_1, p_2 = stay.sigmoid(), enter.sigmoid()
        # The shares of a feature that was there before in the odds that it is there and that not.
        present = torch.sigmoid(logsigmoid(stay) + previous[0] - logsigmoid(enter))
        absent = torch.sigmoid(logsigmoid(-stay) + previous[0] - logsigmoid(-enter))
        by_stay = present * (1 - p_1) + absent * p_1
        by_enter = (1 - present) * (1 - p_2) + (1 - absent) * p_2
        by_evidence = apply_mask(torch.ones_like(evidence), mask)
        return [torch.stack((by_stay, by_enter, by_evidence), -2)], [[present - absent]]

    def backward_message(self) -> Cell | None:
        """Return the recurrence that smoothing adds."""
        return GatedBackwardMessage(self.gate_size, 1) if self.smooth else None


class ContextUBRU(GatedUBRU):
    """`GatedUBRU` whose p_1 and p_2 are those of a `ContextGate`."""

    kernel: ClassVar = "ubru-gates"

    @property
    def projections(self) -> int:
        """Vectors of weights W of each unit: one gate stands for p_1 and p_2."""
        return super().projections - 1

    def expansion(self) -> nn.Module:
        """Return the context gate, and the input gate, if any, behind it."""
        gates = (ContextGate(self.gate_size, self.sets), super().expansion())
        return nn.Sequential(*(gate for gate in gates if gate is not None))


class GatedBackwardMessage(GatedChain):
    """`BackwardMessage` of gates: d_t reads p_1, p_2 and a of the frame after t.

    Its states are d, and the message of a frame to the one before, which is the next d.
    """

    kernel: ClassVar = "ubru-gates-later"
    states = 2

    def forward(self, a: Tensor, state: State, mask: Tensor | None) -> State:
        """Return d of a frame and its message."""
        stay, enter, evidence = self.read(a, mask)
        d = state[1].clone()  # loops of exporters hand back no tensor that they are given
        present, absent = look_back(d + evidence, stay, enter)
        return d, present - absent

    def matrix(self, a: Tensor, mask: Tensor | None) -> Tensor:
        """Return the matrix of messages: e^a of a frame times the first column."""
        stay, enter, evidence = self.read(a, mask)
        corner = logsigmoid(-enter)
        return _stack(
            evidence + logsigmoid(stay) - corner, logsigmoid(-stay) - corner, evidence + enter
        )

    def partials(
        self, a: Tensor, previous: Sequence[Tensor], state: Sequence[Tensor], mask: Tensor | None
    ) -> Partials:
        """Return the derivatives of `forward`."""
        stay, enter, evidence = self.read(a, mask)
        u = previous[1] + evidence
        # The probabilities of the feature at the frame where it was and was not there before.
        present, absent = torch.sigmoid(stay + u), torch.sigmoid(enter + u)
        by_u = present - absent
        by_gate = torch.stack(
            (present - stay.sigmoid(), enter.sigmoid() - absent, apply_mask(by_u, mask)), -2
        )
        return [torch.zeros_like(a), by_gate], [[None, torch.ones_like(u)], [None, by_u]]


class InputGate(nn.Module):
    r"""A probabilistic input gate, after Garner & Tong (2020): the last but one of terms.

    A frame tells something of the feature with probability i = \sigma(2 + W_i x + b_i), and nothing
    otherwise: the evidence is log(i e^a + 1 - i).
    """

    def forward(self, terms: Tensor) -> Tensor:
        """Return [..., G, H] of [..., G + 1, H]."""
        i, a = terms[..., -2, :] + FIRST_LOGIT, terms[..., -1, :]
        evidence = torch.logaddexp(logsigmoid(i) + a, logsigmoid(-i))
        return torch.cat((terms[..., :-2, :], evidence.unsqueeze(-2)), -2)


class ContextGate(nn.Module):
    r"""A context indicator, after Garner & Tong (2020): the first of terms.

    With probability c = \sigma(2 + W_c x + b_c) the past counts, and a feature is present as in
    `UBRU`; otherwise it is with its prior probability, whatever there was before: p_1 =
    c \sigma(stay) + (1 - c) \sigma(prior), and p_2 likewise with enter.
    """

    def __init__(self, units: int, sets: int) -> None:
        super().__init__()
        self.stay = nn.Parameter(torch.full((sets, units), FIRST_LOGIT))
        self.enter = nn.Parameter(torch.full((sets, units), -FIRST_LOGIT))
        self.prior = nn.Parameter(torch.zeros(sets, units))

    def forward(self, terms: Tensor) -> Tensor:
        """Return [..., sets, G, H] of [..., sets, G - 1, H]: c becomes what `GatedChain` reads."""
        c = terms[..., 0, :] + FIRST_LOGIT
        stay = self._mix(c, self.stay) - FIRST_LOGIT
        enter = self._mix(c, self.enter) + FIRST_LOGIT
        return torch.cat((torch.stack((stay, enter), -2), terms[..., 1:, :]), -2)

    def _mix(self, c: Tensor, logit: Tensor) -> Tensor:
        """The logit of the mean of a probability and the prior, by the weight of the context."""
        present, absent = (
            torch.logaddexp(
                logsigmoid(c) + logsigmoid(sign * logit),
                logsigmoid(-c) + logsigmoid(sign * self.prior),
            )
            for sign in (1, -1)
        )
        return present - absent


def _stack(*tensors: Tensor) -> Tensor:
    return torch.stack(torch.broadcast_tensors(*tensors))

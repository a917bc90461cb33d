r"""The unit-wise Bayesian recurrent unit (Garner & Tong 2020; Bittar & Garner 2022).

Each unit is a hidden Markov model of two states: a feature is present at a frame with probability
p_1 where it was present before, and p_2 where it was not; a = W x + b is the logarithm of
p(x|present) / p(x|absent). Everything is computed with log-odds: no probability is ever divided by,
and inputs of any size are exact.
"""

from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from bayes_asr.nn.layer import State
from bayes_asr.nn.units.cell import Cell, apply_mask


class UBRU(Cell):
    r"""h_t = logit P(present | x_1..x_t) = a + logit(p_1 P_{t-1} + p_2 (1 - P_{t-1})), P_0 = 1/2.

    smooth: h_t = logit P(present | x_1..x_T), by the backward pass over what is still to come.
    p_1 = \sigma(stay) and p_2 = \sigma(enter) are trained; they start at 0.88 and 0.12, since a
    unit whose two are equal has no memory.
    Dropout multiplies a: a dropped frame tells nothing about the feature.
    """

    kernel: ClassVar = "ubru"
    recurrent = False
    probabilistic = True

    def __init__(self, units: int, sets: int, *, smooth: bool = False) -> None:
        super().__init__(units, sets)
        self.stay = nn.Parameter(torch.full((sets, units), 2.0))
        self.enter = nn.Parameter(torch.full((sets, units), -2.0))
        self.smooth = smooth

    def coefficients(self) -> Tensor:
        r"""Return u, v and w [sets, 3, H] of h_t = a + w + softplus(h_{t-1} + u) - softplus(h_{t-1}
        + v).
        """
        # p_2 and 1 - p_2 are taken out of the logarithms of `forward`; their ratio is e^enter.
        u = logsigmoid(self.stay) - logsigmoid(self.enter)
        v = logsigmoid(-self.stay) - logsigmoid(-self.enter)
        return torch.stack((u, v, self.enter), 1)

    def forward(self, a: Tensor, state: State, mask: Tensor | None) -> State:
        """Return the log-odds after a frame."""
        # log(p_1 e^h + p_2) - log((1 - p_1) e^h + 1 - p_2) is the logit of the prediction.
        present = torch.logaddexp(logsigmoid(self.stay) + state[0], logsigmoid(self.enter))
        absent = torch.logaddexp(logsigmoid(-self.stay) + state[0], logsigmoid(-self.enter))
        return (apply_mask(a.squeeze(-2), mask) + present - absent,)

    def backward_message(self) -> Cell | None:
        """Return the recurrence that smoothing adds."""
        return BackwardMessage(self.stay, self.enter) if self.smooth else None

    def probability(self, h: Tensor) -> Tensor:
        """Probability that the feature is present."""
        return h.sigmoid()

    def hand_on(self, h: Tensor) -> Tensor:
        """Logarithm of the probability."""
        return logsigmoid(h)


class BackwardMessage(Cell):
    r"""The log-odds that the frames after t add to those at t, from the last frame to the first.

    d_t = log(p_1 e^u + 1 - p_1) - log(p_2 e^u + 1 - p_2) with u = d_{t+1} + a_{t+1}, and d_T = 0:
    the logarithm of the ratio of the backward variables of the forward-backward algorithm. Its
    states are d and the u of the next step.
    """

    kernel: ClassVar = "ubru-later"
    states = 2
    recurrent = False

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
        u = state[1]
        present = torch.logaddexp(logsigmoid(self.stay) + u, logsigmoid(-self.stay))
        absent = torch.logaddexp(logsigmoid(self.enter) + u, logsigmoid(-self.enter))
        d = present - absent
        return d, d + apply_mask(a.squeeze(-2), mask)

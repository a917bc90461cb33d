"""Activation functions with their derivatives, fixed and parameterised."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, cast

import torch
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx, once_differentiable
from torch.nn.functional import elu, leaky_relu, logsigmoid

LEAK = 0.2  # slope of leaky-relu below 0, as in pytorch-kaldi


class Activation(Protocol):
    """A function of one number, applied to tensors [..., H]."""

    def __call__(self, a: Tensor) -> Tensor:
        """Return the value."""

    def derivative(self, a: Tensor) -> Tensor:
        """Return the derivative by `a`."""

    def coefficients(self) -> Tensor | None:
        """Return its parameters [sets, P, H], trained or not; None where there are none."""


@dataclass(frozen=True)
class FixedActivation:
    """A function without parameters."""

    function: Callable[[Tensor], Tensor]
    slope: Callable[[Tensor], Tensor]

    def __call__(self, a: Tensor) -> Tensor:
        """Return the value."""
        return self.function(a)

    def derivative(self, a: Tensor) -> Tensor:
        """Return the derivative by `a`."""
        return self.slope(a)

    def coefficients(self) -> None:
        """Return None."""


def softplus(a: Tensor) -> Tensor:
    r"""log(1 + e^a) = -\log \sigma(-a), exact for large `a` too (torch's is linear above 20)."""
    return -logsigmoid(-a)


class Parameterised(nn.Module):
    """An activation with parameters [sets, H]; or [S, sets, H], where S speakers have theirs each.

    speakers: the speaker of each sequence or frame that is computed, in order [n]; None: a speaker
    without parameters, for whom the mean of all is taken.
    """

    speakers: Tensor | None = None

    def _of(self, parameter: Tensor | float, a: Tensor) -> Tensor | float:
        """A parameter as it multiplies pre-activations [n, D, H], or is added to them."""
        if not isinstance(parameter, Tensor) or parameter.dim() == 2:
            return parameter
        if self.speakers is None:
            return parameter.mean(0)
        return parameter.index_select(0, self.speakers[: len(a)])


class PSigmoid(Parameterised):
    r"""Parameterised sigmoid (Zhang & Woodland 2015): \eta \sigma(\gamma a - \theta).

    eta, gamma, theta: one number for each unit, initially 1, 1, 0; those not in `trains` stay so.
    """

    initial: ClassVar = {"eta": 1.0, "gamma": 1.0, "theta": 0.0}

    def __init__(self, units: int, sets: int, trains: Sequence[str]) -> None:
        super().__init__()
        self.eta, self.gamma, self.theta = _parameters(self.initial, units, sets, trains)
        self.shape = (sets, units)
        self.only_scales = tuple(trains) == ("eta",)

    def forward(self, a: Tensor) -> Tensor:
        """Return the value."""
        eta, gamma, theta = self._values(a)
        if self.only_scales:
            return Scaled.apply("sigmoid", eta, a)
        return eta * torch.sigmoid(gamma * a - theta)

    def derivative(self, a: Tensor) -> Tensor:
        """Return the derivative by `a`."""
        eta, gamma, theta = self._values(a)
        s = torch.sigmoid(gamma * a - theta)
        return eta * gamma * s * (1 - s)

    def _values(self, a: Tensor) -> tuple[Tensor | float, ...]:
        return tuple(self._of(value, a) for value in (self.eta, self.gamma, self.theta))

    def coefficients(self) -> Tensor:
        """Return eta, gamma and theta [sets, 3, H]."""
        eta = _fix_at_zero(cast(Tensor, self.eta)) if self.only_scales else self.eta
        return _side_by_side((eta, self.gamma, self.theta), self.shape)


class PReLU(Parameterised):
    r"""Parameterised ReLU (Zhang & Woodland 2015): \alpha a for a > 0, otherwise \beta a.

    alpha, beta: one number for each unit, initially 1 and 0.25; where `trains` lacks one, it is 1
    or 0 for good.
    """

    initial: ClassVar = {"alpha": 1.0, "beta": 0.25}

    def __init__(self, units: int, sets: int, trains: Sequence[str]) -> None:
        super().__init__()
        self.alpha, self.beta = _parameters(self.initial, units, sets, trains)
        if "beta" not in trains:
            self.beta = 0.0
        self.shape = (sets, units)
        self.only_scales = tuple(trains) == ("alpha",)

    def forward(self, a: Tensor) -> Tensor:
        """Return the value."""
        if self.only_scales:
            return Scaled.apply("relu", self._of(self.alpha, a), a)
        # At 0, torch lets no gradient through relu and all of it through clamp, so that it is beta.
        return self._of(self.alpha, a) * a.relu() + self._of(self.beta, a) * a.clamp(max=0)

    def derivative(self, a: Tensor) -> Tensor:
        """Return the derivative by `a`."""
        alpha, beta = self._of(self.alpha, a), self._of(self.beta, a)
        ones = torch.ones_like(a)
        return torch.where(a > 0, alpha * ones, beta * ones)

    def coefficients(self) -> Tensor:
        """Return alpha and beta [sets, 2, H]."""
        alpha = _fix_at_zero(cast(Tensor, self.alpha)) if self.only_scales else self.alpha
        return _side_by_side((alpha, self.beta), self.shape)


class Scaled(torch.autograd.Function):
    r"""`apply(name, scale, a)` -> scale * f(a) for f = sigmoid or relu, keeping only the value.

    p-Sigmoid(\eta, 1, 0) and p-ReLU(\alpha, 0) as Zhang & Woodland (2015) simplify them: f(a) is
    the value divided by its scale, and where the scale is 0 its derivative is taken to be 0.
    """

    @staticmethod
    def forward(ctx: FunctionCtx, name: str, scale: Tensor, a: Tensor) -> Tensor:
        value = scale * FIXED[name](a)
        ctx.save_for_backward(scale, value)
        ctx.name = name  # type: ignore[attr-defined]
        return value

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, grad: Tensor) -> tuple[None, Tensor, Tensor]:
        scale, value = ctx.saved_tensors  # type: ignore[attr-defined]
        # d(scale f) = f dscale + scale f' da, with f' by f: f (1 - f), or 1 where f > 0.
        f = (value / scale).masked_fill(scale == 0, 0)
        slope = f * (1 - f) if ctx.name == "sigmoid" else (f > 0).to(f.dtype)  # type: ignore[attr-defined]
        return None, (grad * f).sum_to_size(scale.shape), grad * scale * slope


def _parameters(
    initial: dict[str, float], units: int, sets: int, trains: Sequence[str]
) -> list[nn.Parameter | float]:
    return [
        nn.Parameter(torch.full((sets, units), value)) if name in trains else value
        for name, value in initial.items()
    ]


def _fix_at_zero(scale: Tensor) -> Tensor:
    """A scale that has no gradient where it is 0, as that of `Scaled`."""
    return torch.where(scale == 0, scale.detach(), scale)


def _side_by_side(parameters: Sequence[Tensor | float], shape: tuple[int, int]) -> Tensor:
    """Parameters [sets, H], or one number for all of them, as [sets, P, H]."""
    like = next((p for p in parameters if isinstance(p, Tensor)), torch.empty(0))
    return torch.stack(
        [p if isinstance(p, Tensor) else like.new_full(shape, p) for p in parameters], 1
    )


def _refuse_slope(a: Tensor) -> Tensor:
    """Refuse the derivative of functions of several numbers, which no recurrence may use."""
    raise NotImplementedError


FIXED = {
    "tanh": FixedActivation(torch.tanh, lambda a: 1 - a.tanh().square()),
    "sigmoid": FixedActivation(torch.sigmoid, lambda a: a.sigmoid() * (-a).sigmoid()),
    "relu": FixedActivation(torch.relu, lambda a: (a > 0).to(a.dtype)),
    "softplus": FixedActivation(softplus, torch.sigmoid),
    "leaky-relu": FixedActivation(
        lambda a: leaky_relu(a, LEAK), lambda a: torch.ones_like(a).masked_fill(~(a > 0), LEAK)
    ),
    "elu": FixedActivation(elu, lambda a: a.clamp(max=0).exp()),
    "linear": FixedActivation(lambda a: a, torch.ones_like),
    "log-softmax": FixedActivation(lambda a: torch.log_softmax(a, -1), _refuse_slope),
    "log-sigmoid": FixedActivation(logsigmoid, lambda a: (-a).sigmoid()),
}
PARAMETERISED: dict[str, type[PSigmoid] | type[PReLU]] = {"p-sigmoid": PSigmoid, "p-relu": PReLU}


def find_name(activation: Activation) -> str | None:
    """Return the name of an activation; None for one that is not of this module."""
    functions: dict[str, object] = {**FIXED, **PARAMETERISED}
    return next(
        (name for name, f in functions.items() if f in (activation, type(activation))), None
    )


def build_activation(
    name: str, units: int, sets: int, trains: Sequence[str] | None = None
) -> Activation:
    """Return the activation `name` of `sets` times `units` units.

    trains: names of the trained parameters, by default all.
    """
    if name in FIXED:
        return FIXED[name]
    parameterised = PARAMETERISED[name]
    return parameterised(units, sets, tuple(parameterised.initial) if trains is None else trains)

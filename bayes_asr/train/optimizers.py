"""Optimizers: each is a function of the parameters and the configuration, named in `catalogue`."""

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, cast

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT

from bayes_asr.base.errors import InputError
from bayes_asr.base.installed import advise_new_run
from bayes_asr.config.training_keys import TrainConfig

FACTOR = "learning_rate_factor"  # key in a group of parameters: multiplies the rate of the group
Kind = TypeVar("Kind", bound=torch.optim.Optimizer)
WRAPPED = ("add_param_group", "load_state_dict", "state_dict", "step", "zero_grad")


def without_compiler(kind: type[Kind]) -> type[Kind]:
    """A class of torch.optim whose methods do not import torch's compiler, which takes a second
    and 150 MB. torch wraps them in what keeps a compiler away, and `step` in `no_grad`.
    """
    methods = {name: inspect.unwrap(getattr(kind, name)) for name in WRAPPED}
    methods["step"] = torch.no_grad()(methods["step"])
    return cast(type[Kind], type(kind.__name__, (kind,), methods))


Adam = without_compiler(torch.optim.Adam)
AdamW = without_compiler(torch.optim.AdamW)
RMSprop = without_compiler(torch.optim.RMSprop)
SGD = without_compiler(torch.optim.SGD)

STATES = {
    Adam: {"step", "exp_avg", "exp_avg_sq"},
    AdamW: {"step", "exp_avg", "exp_avg_sq"},
    RMSprop: {"step", "square_avg"},
}
"""Entries that the state of a parameter has, by the kind of its optimizer, as torch names them."""


class Optimizers:
    """Several optimizers as one; each changes parameters of its own."""

    def __init__(self, optimizers: Sequence[torch.optim.Optimizer]) -> None:
        self._optimizers = list(optimizers)

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """Groups of parameters with their options, as torch has them."""
        return [group for optimizer in self._optimizers for group in optimizer.param_groups]

    def set_rate(self, rate: float) -> None:
        """Set the learning rate, and that of groups with a factor to so much of it."""
        for group in self.param_groups:
            group["lr"] = rate * group.get(FACTOR, 1.0)

    def step(self) -> None:
        """Change all parameters that have gradients."""
        for optimizer in self._optimizers:
            optimizer.step()

    def zero_grad(self) -> None:
        """Forget all gradients."""
        for optimizer in self._optimizers:
            optimizer.zero_grad()

    def state_dict(self) -> dict[str, Any]:
        """State as torch has it for one optimizer, or a list of such states for several."""
        states = [optimizer.state_dict() for optimizer in self._optimizers]
        return states[0] if len(states) == 1 else {"several": states}

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Go on from what `state_dict` returned; InputError where that is of other optimizers."""
        # One optimizer has its state itself, not a list of one.
        states = saved.get("several", [saved])
        if len(states) != len(self._optimizers) or not all(map(_fits, self._optimizers, states)):
            raise InputError(
                "the checkpoint holds the state of another optimizer than train.optimizer and the"
                f" network of the configuration have; {advise_new_run()}"
            )
        for optimizer, state in zip(self._optimizers, states, strict=True):
            optimizer.load_state_dict(state)


def _fits(optimizer: torch.optim.Optimizer, saved: Any) -> bool:
    """Whether a saved state is of the parameters of an optimizer, with options of its types."""
    try:
        groups, states = saved["param_groups"], saved["state"]
        # torch numbers the parameters through all groups.
        numbers = [group["params"] for group in optimizer.state_dict()["param_groups"]]
        same_groups = [group["params"] for group in groups] == numbers
        options = [
            (value, group.get(name, value))
            for now, group in zip(optimizer.param_groups, groups, strict=True)
            for name, value in now.items()
            if name != "params"
        ]
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        pairs = [(parameters[number], state) for number, state in states.items()]
        required = STATES.get(type(optimizer), set())
        return (
            same_groups
            and all(_alike(*pair) for pair in options)
            and all(required <= state.keys() for _, state in pairs)
            and all(_is_of(value, p) for p, state in pairs for value in state.values())
        )
    except (LookupError, TypeError, AttributeError, ValueError):
        return False


def _alike(option: object, other: object) -> bool:
    """Whether options are of one type; None is of any, and a whole number serves as a float."""
    types = {type(option), type(other)} - {type(None)}
    return len(types) < 2 or types == {int, float}


def _is_of(value: Any, parameter: Tensor) -> bool:
    """Whether a value of a state is one of a parameter: of its shape, a number, or none."""
    return value is None or value.shape in (parameter.shape, ())


def adam(parameters: ParamsT, config: TrainConfig) -> torch.optim.Optimizer:
    """Adam with weight decay apart from the gradient (Loshchilov & Hutter 2019)."""
    return AdamW(parameters, **_adam_options(config))


def adam_l2(parameters: ParamsT, config: TrainConfig) -> torch.optim.Optimizer:
    """Adam (Kingma & Ba 2015) with weight decay in the gradient, as pytorch-kaldi has it."""
    return Adam(parameters, **_adam_options(config))


def _adam_options(config: TrainConfig) -> dict[str, Any]:
    """Options that both kinds of Adam share, as torch names them."""
    beta1, beta2 = config.betas
    return {
        "lr": config.learning_rate,
        "betas": (beta1, beta2),
        "eps": config.epsilon,
        "weight_decay": config.weight_decay,
        "amsgrad": config.amsgrad,
        "fused": True,  # one kernel for all parameters
    }


def rmsprop(parameters: ParamsT, config: TrainConfig) -> torch.optim.Optimizer:
    """RMSprop (Tieleman & Hinton 2012), with pytorch-kaldi's constants unless others are given."""
    return RMSprop(
        parameters,
        lr=config.learning_rate,
        weight_decay=config.weight_decay,
        alpha=config.alpha,
        eps=config.epsilon,
        momentum=config.momentum,
        centered=config.centered,
    )


def sgd(parameters: ParamsT, config: TrainConfig) -> torch.optim.Optimizer:
    """Stochastic gradient descent, with torch's momentum (Sutskever et al. 2013)."""
    return SGD(
        parameters,
        lr=config.learning_rate,
        weight_decay=config.weight_decay,
        momentum=config.momentum,
        dampening=config.dampening,
        nesterov=config.nesterov,
    )

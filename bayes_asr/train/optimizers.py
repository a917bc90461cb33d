"""Optimizers: each is a function of the parameters and the configuration, named in `catalogue`."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.optim.optimizer import ParamsT

from bayes_asr.config.training_keys import TrainConfig

FACTOR = "learning_rate_factor"  # key in a group of parameters: multiplies the rate of the group


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
        """Go on from what `state_dict` returned."""
        # One optimizer has its state itself, not a list of one.
        for optimizer, state in zip(self._optimizers, saved.get("several", [saved]), strict=True):
            optimizer.load_state_dict(state)


def adam(parameters: ParamsT, config: TrainConfig) -> torch.optim.Optimizer:
    """Adam with weight decay apart from the gradient (Loshchilov & Hutter 2019)."""
    return torch.optim.AdamW(parameters, **_adam_options(config))


def adam_l2(parameters: ParamsT, config: TrainConfig) -> torch.optim.Optimizer:
    """Adam (Kingma & Ba 2015) with weight decay in the gradient, as pytorch-kaldi has it."""
    return torch.optim.Adam(parameters, **_adam_options(config))


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
    return torch.optim.RMSprop(
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
    return torch.optim.SGD(
        parameters,
        lr=config.learning_rate,
        weight_decay=config.weight_decay,
        momentum=config.momentum,
        dampening=config.dampening,
        nesterov=config.nesterov,
    )

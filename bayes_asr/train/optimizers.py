"""Optimizers: each is a function of the parameters and the configuration, named in `catalogue`."""

from collections.abc import Iterable

import torch
from torch import nn

from bayes_asr.config import TrainConfig


def adam(parameters: Iterable[nn.Parameter], config: TrainConfig) -> torch.optim.Optimizer:
    """Adam with weight decay apart from the gradient (Loshchilov & Hutter 2019)."""
    return torch.optim.AdamW(
        parameters, lr=config.learning_rate, weight_decay=config.weight_decay, fused=True
    )


def rmsprop(parameters: Iterable[nn.Parameter], config: TrainConfig) -> torch.optim.Optimizer:
    """RMSprop with pytorch-kaldi's constants."""
    return torch.optim.RMSprop(
        parameters,
        lr=config.learning_rate,
        weight_decay=config.weight_decay,
        alpha=0.95,
        eps=1e-8,
    )

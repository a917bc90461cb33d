"""Learning rate schedules."""

import math
from collections.abc import Sequence

import numpy as np

from bayes_asr.config import TrainConfig


def newbob(rate: float, before: float, now: float, *, threshold: float, factor: float) -> float:
    """pytorch-kaldi's rule: multiply the rate by `factor` unless the dev error fell enough.

    before, now: dev frame errors of the last two epochs. The fall is relative to the new error, as
    there: (before - now) / now.
    """
    return rate * factor if before - now < threshold * now else rate


def cosine(initial: float, epoch: int, epochs: int) -> float:
    """Half a cosine from `initial` in epoch 1 to 0 after the last (Loshchilov & Hutter 2017)."""
    return initial * 0.5 * (1 + math.cos(math.pi * (epoch - 1) / epochs))


def next_rate(config: TrainConfig, rate: float, dev_errors: Sequence[float] | np.ndarray) -> float:
    """The learning rate of the epoch after those whose dev errors [E] are given."""
    if config.schedule == "cosine":
        return cosine(config.learning_rate, len(dev_errors) + 1, config.epochs)
    if len(dev_errors) < 2:
        return rate
    threshold, factor = config.improvement_threshold, config.halving_factor
    return newbob(rate, *dev_errors[-2:], threshold=threshold, factor=factor)

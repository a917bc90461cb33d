"""Learning rates: each schedule is a function, named in `catalogue`.

It gets the configuration, the rate of the epoch before, and the dev measure of all epochs so far
[E], frame errors or losses; it returns the rate of the next epoch.
"""

import math
from collections.abc import Sequence

import numpy as np

from bayes_asr.config.epochs import at_epoch
from bayes_asr.config.training_keys import TrainConfig


def newbob(config: TrainConfig, rate: float, dev_errors: Sequence[float] | np.ndarray) -> float:
    """pytorch-kaldi's rule: multiply the rate by a factor unless the dev error fell enough.

    The fall is relative to the size of the new error, as there: (before - now) / now.
    """
    if len(dev_errors) < 2:  # one error has nothing to be compared with
        return rate
    previous, error = dev_errors[-2:]
    improved = previous - error >= config.improvement_threshold * abs(error)
    return rate if improved else rate * config.halving_factor


def cosine(config: TrainConfig, rate: float, dev_errors: Sequence[float] | np.ndarray) -> float:
    """Half a cosine from the first epoch to 0 after the last (Loshchilov & Hutter 2017)."""
    # dev_errors has an entry for each complete epoch, so its length is the number of those.
    angle = math.pi * len(dev_errors) / config.epochs
    return config.learning_rate * 0.5 * (1 + math.cos(angle))


def linear(config: TrainConfig, rate: float, dev_errors: Sequence[float] | np.ndarray) -> float:
    """A straight line from the first epoch to 0 after the last."""
    return config.learning_rate * (1 - len(dev_errors) / config.epochs)


def by_list(config: TrainConfig, rate: float, dev_errors: Sequence[float] | np.ndarray) -> float:
    """The rates of `train.learning_rates` by epoch; the last one stays."""
    return at_epoch(config.learning_rates, len(dev_errors) + 1)

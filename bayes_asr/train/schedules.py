"""Learning rates: each schedule is a function, named in `catalogue`.

It gets the configuration, the rate of the epoch before, and the dev frame errors of all epochs so
far [E]; it returns the rate of the next epoch.
"""

import math
from collections.abc import Sequence

import numpy as np

from bayes_asr.config import TrainConfig


def newbob(config: TrainConfig, rate: float, dev_errors: Sequence[float] | np.ndarray) -> float:
    """pytorch-kaldi's rule: multiply the rate by a factor unless the dev error fell enough.

    The fall is relative to the new error, as there: (before - now) / now.
    """
    if len(dev_errors) < 2:
        return rate
    before, now = dev_errors[-2:]
    fell = before - now >= config.improvement_threshold * now
    return rate if fell else rate * config.halving_factor


def cosine(config: TrainConfig, rate: float, dev_errors: Sequence[float] | np.ndarray) -> float:
    """Half a cosine from the first epoch to 0 after the last (Loshchilov & Hutter 2017)."""
    angle = math.pi * len(dev_errors) / config.epochs
    return config.learning_rate * 0.5 * (1 + math.cos(angle))

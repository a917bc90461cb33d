"""Scores predicted from the goodness of pronunciation, by a regression for each phone.

J. Zhang et al., "speechocean762: an open-source non-native English speech corpus for pronunciation
assessment", Interspeech 2021; Kaldi's egs/gop_speechocean762, local/gop_to_score_train.py.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from bayes_asr.base.errors import InputError

REPLICATES = 2000


@dataclass(frozen=True)
class Regression:
    """The coefficients [D] of each phone."""

    coefficients: dict[str, np.ndarray]

    def predict(self, inputs: np.ndarray, phones: np.ndarray) -> np.ndarray:
        """Scores [N] of inputs [N, D] of phones [N]; InputError for one that was not learnt."""
        if strangers := sorted({*phones.tolist()} - self.coefficients.keys()):
            raise InputError(f"{strangers[0]}: no expert scored this phone in train")
        rows = np.array([self.coefficients[phone] for phone in phones.tolist()])
        return np.asarray((inputs * rows).sum(axis=1))


def fit(
    inputs: np.ndarray,
    scores: np.ndarray,
    phones: np.ndarray,
    *,
    ridge: float = 0.0,
    balanced: bool = False,
) -> Regression:
    """Least squares of scores [N] by inputs [N, D], whose first column is 1, for each phone.

    ridge: of the squares of the other coefficients; balanced: each rounded score of a phone weighs
    as much as the others, as where the rarer ones are sampled more often.
    """
    coefficients = {}
    # Rows that pull each coefficient but the first to 0.
    penalty = np.sqrt(ridge) * np.eye(inputs.shape[1])[1:]
    for phone in np.unique(phones):
        x, y = inputs[phones == phone], scores[phones == phone]
        weight = np.sqrt(_balance(y) if balanced else np.ones(len(y)))
        rows = np.concatenate([x * weight[:, None], penalty])
        targets = np.concatenate([y * weight, np.zeros(len(penalty))])
        coefficients[str(phone)] = np.linalg.lstsq(rows, targets, rcond=None)[0]
    return Regression(coefficients)


def _balance(scores: np.ndarray) -> np.ndarray:
    _, index, counts = np.unique(np.rint(scores), return_inverse=True, return_counts=True)
    return np.asarray(1.0 / counts[index])


def quadratic(gop: np.ndarray) -> np.ndarray:
    """Inputs [N, 3] of a polynomial of the second degree of the goodness [N]."""
    return np.vander(gop, 3, increasing=True)


class Correlation(NamedTuple):
    """Pearson's, with the 95 % percentile interval over speakers."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        """As `0.420 [0.401, 0.437]`."""
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}]"


def correlate(x: np.ndarray, y: np.ndarray, speakers: Iterable[str]) -> Correlation:
    """The correlation of x [N] and y [N], and its interval by resampling `speakers` [N].

    NaN where there is nothing to correlate.
    """
    if not len(x):
        return Correlation(np.nan, np.nan, np.nan)
    _, index = np.unique([*speakers], return_inverse=True)
    x, y = x - x.mean(), y - y.mean()
    terms = (np.ones(len(x)), x, y, x * x, y * y, x * y)
    # Sums by speaker [S, 6]: a replicate is a sum of them.
    sums = np.stack([np.bincount(index, term) for term in terms], axis=1)
    number = len(sums)
    draws = np.random.default_rng(0).multinomial(number, np.full(number, 1 / number), REPLICATES)
    low, high = np.nanquantile(_pearson(draws @ sums), [0.025, 0.975])
    return Correlation(float(_pearson(sums.sum(axis=0))), float(low), float(high))


def _pearson(sums: np.ndarray) -> np.ndarray:
    """Of sums [..., 6] of 1, x, y, xx, yy, xy; NaN where one does not vary."""
    n, x, y, xx, yy, xy = np.moveaxis(sums, -1, 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray((n * xy - x * y) / np.sqrt((n * xx - x * x) * (n * yy - y * y)))

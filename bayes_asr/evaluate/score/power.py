"""Power: the smallest difference between two systems that a set would show."""

from typing import NamedTuple

import numpy as np
import scipy  # which imports its parts as they are used

POWER = 0.8
"""The probability that a difference of the least detectable size is found."""


class Precision(NamedTuple):
    """The standard error of a difference of rates, in points, over `number` units of `unit`."""

    unit: str
    number: int
    standard_error: float


class Detectable(NamedTuple):
    """The least difference that is found at p < `level`, two-sided, over units of `unit`.

    points: of the rate; relative: in per cent of B's, None where B has no errors.
    """

    unit: str
    number: int
    level: float
    points: float
    relative: float | None


def measure_precision(unit: str, difference: np.ndarray, tokens: np.ndarray) -> Precision | None:
    """From the variance of the differences of errors [S] of so many tokens [S]; None of one unit,
    or where all are equal.
    """
    number = len(difference)
    if number < 2 or not np.ptp(difference):
        return None
    deviation = difference.std(ddof=1)
    # The sum of n differences has the deviation sqrt(n) times theirs; the tokens make it a rate.
    return Precision(unit, number, float(100 * deviation * np.sqrt(number) / tokens.sum()))


def detect(precision: Precision, rate: float, level: float = 0.05) -> Detectable:
    """The least difference that matched pairs find with probability `POWER`; rate: that of B.

    Speakers, or what utt2spk has in their place, are few: theirs is Student's t, as in `compare`.
    """
    unit, number, error = precision
    freedom = None if unit == "utterance" else number - 1
    points = error * find_shift(level, POWER, freedom)
    return Detectable(unit, number, level, points, 100 * points / rate if rate else None)


def find_shift(level: float, power: float, freedom: int | None = None) -> float:
    """Standard errors by which a mean must differ from 0 for a two-sided test to show it.

    The normal test where `freedom` is None, else Student's t. A result in the wrong direction shows
    nothing and is not counted.
    """
    if freedom is None:
        return float(scipy.stats.norm.isf(level / 2) + scipy.stats.norm.ppf(power))
    # Given the estimate of the deviation, t is normal: the mean over equally likely estimates.
    # scipy's noncentral t is NaN for some of these.
    # The middles of 4096 equal slices of probability stand for the integral.
    chances = (np.arange(4096) + 0.5) / 4096
    # The estimate of the deviation, by the true one, is sqrt(chi2 / freedom).
    deviations = np.sqrt(scipy.stats.chi2.ppf(chances, freedom) / freedom)
    needed = scipy.stats.t.isf(level / 2, freedom) * deviations
    sf = scipy.stats.norm.sf
    return float(scipy.optimize.brentq(lambda s: sf(needed - s).mean() - power, 0, 1e6))

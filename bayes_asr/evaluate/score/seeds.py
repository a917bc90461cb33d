"""Chance in training: the spread of rates between runs of one configuration."""

import math
from collections.abc import Iterable, Sequence
from statistics import mean, variance  # exact: of equal rates they are these, and 0
from typing import NamedTuple

import numpy as np
import scipy  # which imports its parts as they are used

from bayes_asr.evaluate.score.statistics import Alternative, Interval, p_value


class SeedSpread(NamedTuple):
    """The difference of two sides over seeds, in points.

    standard_error: over other trainings, this very speech given; p: of Welch's t test of that, or
    where the runs of each system are equal, the least of an exact test over so many runs.
    interval: of other trainings and other speech.
    """

    standard_error: float
    p: float
    interval: Interval


class _Variance(NamedTuple):
    """An estimate of a variance and its degrees of freedom."""

    value: float
    freedom: float


def pooled_deviation(systems: Iterable[Sequence[float]]) -> float | None:
    """The standard deviation of rates [runs] around the mean of their system, of all systems.

    None where no system has two runs.
    """
    rates = [np.asarray(system) for system in systems]
    freedom = sum(len(r) - 1 for r in rates)
    squares = sum(float(((r - r.mean()) ** 2).sum()) for r in rates)
    return float(np.sqrt(squares / freedom)) if freedom else None


def spread_over_seeds(
    a: Sequence[Sequence[float]],
    b: Sequence[Sequence[float]],
    over_speech: tuple[float, int],
    alternative: Alternative = "two-sided",
    level: float = 0.95,
) -> SeedSpread | None:
    """The difference A minus B of the mean rates of all runs, the rates given by system and run.

    over_speech: the standard error over speakers or utterances, and how many there are. Both kinds
    of chance are added by Welch and Satterthwaite; what they share counts twice, so that the
    interval is rather too wide. None where a system has one run only.
    """
    if min(len(runs) for runs in (*a, *b)) < 2:
        return None
    runs_a, runs_b = ([rate for runs in side for rate in runs] for side in (a, b))
    difference = float(mean(runs_a) - mean(runs_b))
    parts = [*_list_variances(a), *_list_variances(b)]
    over_seeds = _sum_by_welch_satterthwaite(parts)
    error = float(np.sqrt(over_seeds.value))
    if error:
        law, t = scipy.stats.t(over_seeds.freedom), difference / error
        below, above = law.cdf(t), law.sf(t)
    else:
        # Of all ways to part the runs into two sides, one has so great a difference.
        least = 1 / math.comb(len(runs_a) + len(runs_b), len(runs_a))
        below, above = least if difference < 0 else 1.0, least if difference > 0 else 1.0
    speech, number = over_speech
    # The standard error over speech enters as one more independent variance.
    both = _sum_by_welch_satterthwaite([*parts, _Variance(speech**2, max(number - 1, 1))])
    half = float(scipy.stats.t.ppf((1 + level) / 2, both.freedom) * np.sqrt(both.value))
    return SeedSpread(
        error,
        p_value(below, above, alternative),
        Interval(difference - half, difference + half),
    )


def _list_variances(systems: Sequence[Sequence[float]]) -> list[_Variance]:
    """The share of each system in the variance of the mean of all runs."""
    runs = sum(map(len, systems))
    return [
        # The mean of all runs has n / runs of a system's mean, whose variance is var / n.
        _Variance(len(rates) * float(variance(rates)) / runs**2, len(rates) - 1)
        for rates in systems
    ]


def _sum_by_welch_satterthwaite(parts: Sequence[_Variance]) -> _Variance:
    """A sum of independent estimates, its degrees of freedom by Welch and Satterthwaite."""
    value = sum(part.value for part in parts)
    if not value:
        return _Variance(0.0, sum(part.freedom for part in parts))
    # Welch and Satterthwaite: (sum v)^2 / sum(v^2 / freedom).
    return _Variance(value, value**2 / sum(part.value**2 / part.freedom for part in parts))

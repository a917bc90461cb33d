"""Intervals of an error rate and paired tests between two systems, as functions of arrays.

Rates and intervals are per cent. The arrays hold one number for each segment, utterance or
speaker, always from one alignment convention.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

import numpy as np
import scipy  # which imports its parts as they are used

from bayes_asr.base.errors import InputError
from bayes_asr.evaluate.score.counts import Edit, ErrorCounts

Prior = Literal["uniform", "jeffreys", "clopper-pearson", "wald"]
Alternative = Literal["two-sided", "less", "greater"]
"""`less`: system A has fewer errors than B."""


class Interval(NamedTuple):
    """Bounds in per cent."""

    low: float
    high: float


def beta_interval(
    errors: int, tokens: int, level: float = 0.95, prior: Prior = "uniform"
) -> Interval:
    """Equal-tailed interval of an error rate whose tokens fail independently.

    Beta(e + 1, n - e + 1) under the uniform prior; of no or all tokens it reaches 0 or 100. Tokens
    of one utterance are not independent, so it is too narrow; see `bootstrap`. More errors than
    tokens have no such interval.
    """
    if not 0 <= errors <= tokens or tokens == 0:
        raise InputError(f"no beta interval for {errors} errors of {tokens} tokens; use bootstrap")
    p_value = (1 - level) / 2
    chances = [p_value, 1 - p_value]
    e, n = errors, tokens
    if prior == "wald":
        # The deviation of a share e / n is sqrt(p (1 - p) / n).
        half = scipy.stats.norm.ppf(1 - p_value) * np.sqrt(e / n * (1 - e / n) / n)
        return Interval(100 * (e / n - half), 100 * (e / n + half))
    if prior == "clopper-pearson":
        low, high = scipy.special.betaincinv([e, e + 1], [n - e + 1, n - e], chances)
    elif prior in ("uniform", "jeffreys"):
        # A prior Beta(a, a) gives a posterior Beta(e + a, n - e + a).
        a = 1.0 if prior == "uniform" else 0.5
        low, high = scipy.special.betaincinv(e + a, n - e + a, chances)
    else:
        raise InputError(
            f"unknown prior {prior!r}; known: uniform, jeffreys, clopper-pearson, wald"
        )
    # 0 and 1 at the ends (Brown, Cai & DasGupta 2001), so that the interval holds the rate.
    return Interval(100 * float(low) if e else 0.0, 100 * float(high) if e < n else 100.0)


def beta_of_runs(counts: Sequence[ErrorCounts], level: float = 0.95) -> Interval | None:
    """The beta interval of a run with the mean number of errors of some runs.

    Runs share their test set, so more of them do not make it narrower. None where insertions take
    the rate beyond 100 %.
    """
    errors = round(sum(c.errors for c in counts) / len(counts))
    tokens = counts[0].tokens
    return beta_interval(errors, tokens, level) if errors <= tokens else None


class Bootstrap(NamedTuple):
    """Mean, standard error and percentile interval of the replicates, in per cent."""

    mean: float
    standard_error: float
    interval: Interval


class PairedBootstrap(NamedTuple):
    """Rate of A minus rate of B, and the fraction of replicates where B has fewer errors."""

    difference: Bootstrap
    improvement: float


def bootstrap(
    errors: np.ndarray,
    tokens: np.ndarray,
    replicates: int = 10_000,
    seed: int = 0,
    level: float = 0.95,
) -> Bootstrap:
    """Resample utterances or speakers [S] with replacement (Bisani and Ney, ICASSP 2004)."""
    errors, tokens = _check_lengths(errors, tokens)
    rates = [
        # Errors and tokens are summed apart: the rate of a replicate is a ratio of sums.
        errors[draw].sum(axis=1) / tokens[draw].sum(axis=1)
        for draw in _draw(tokens, replicates, seed)
    ]
    return _summarise(np.concatenate(rates), level)


def paired_bootstrap(
    errors_a: np.ndarray,
    errors_b: np.ndarray,
    tokens: np.ndarray,
    replicates: int = 10_000,
    seed: int = 0,
    level: float = 0.95,
) -> PairedBootstrap:
    """Resample both systems by the same draws of utterances or speakers [S].

    The probability of improvement is that of Bisani and Ney: ties are no improvement.
    """
    errors_a, errors_b, tokens = _check_lengths(errors_a, errors_b, tokens)
    difference = errors_a - errors_b
    rates = np.concatenate(
        [
            difference[draw].sum(axis=1) / tokens[draw].sum(axis=1)
            for draw in _draw(tokens, replicates, seed)
        ]
    )
    # A positive rate means that A has more errors than B in this replicate.
    return PairedBootstrap(_summarise(rates, level), int((rates > 0).sum()) / len(rates))


def _draw(tokens: np.ndarray, replicates: int, seed: int) -> Iterator[np.ndarray]:
    """Indices [replicates, units] drawn with replacement, in blocks of a few megabytes.

    Replicates without any of the units' tokens [units] have no rate, and are left out.
    """
    if not tokens.any():
        raise InputError(f"no reference tokens in any of {len(tokens)} units, so no error rate")
    rng, units = np.random.default_rng(seed), len(tokens)
    # A block has about a million indices.
    block = max(1, 1_000_000 // units)
    for start in range(0, replicates, block):
        draw = rng.integers(0, units, size=(min(block, replicates - start), units), dtype=np.int32)
        yield draw if tokens.all() else draw[tokens[draw].any(axis=1)]


def _summarise(rates: np.ndarray, level: float) -> Bootstrap:
    p_value = (1 - level) / 2
    low, high = np.quantile(100 * rates, [p_value, 1 - p_value])
    error = float(100 * rates.std(ddof=1))
    return Bootstrap(float(100 * rates.mean()), error, Interval(float(low), float(high)))


def _check_lengths(*arrays: np.ndarray) -> list[np.ndarray]:
    """The arrays as numbers, of one length that is not 0."""
    converted = [np.asarray(array) for array in arrays]
    if len({array.shape for array in converted}) != 1 or not converted[0].size:
        shapes = ", ".join(str(array.shape) for array in converted)
        raise InputError(f"statistics need arrays of one length that is not 0, not {shapes}")
    return converted


class MatchedPairs(NamedTuple):
    """Mean difference of errors in n segments, its Z, and p by the normal and by Student's t.

    Differences that are all equal and not 0 have an infinite Z, and p of the exact sign test.
    """

    segments: int
    mean: float
    deviation: float
    z: float
    p: float
    p_student: float


def matched_pairs(
    errors_a: np.ndarray, errors_b: np.ndarray, alternative: Alternative = "two-sided"
) -> MatchedPairs:
    """The matched pairs test of Gillick and Cox (ICASSP 1989) on independent segments [S].

    Segments are those of `mapsswe_segments`, utterances, or speakers. With few of them the normal
    approximation is loose, so p by the t distribution with n - 1 degrees stands beside it.
    """
    errors_a, errors_b = _check_lengths(errors_a, errors_b)
    difference = errors_a - errors_b
    n = len(difference)
    if n < 2:
        raise InputError("a matched pairs test needs at least 2 segments")
    mean = float(difference.mean())
    if not np.ptp(difference):
        # No deviation can be estimated, so that n equal signs are all that is known.
        p = sign_test(errors_a, errors_b, alternative).p
        return MatchedPairs(n, mean, 0.0, float(np.copysign(np.inf, mean)) if mean else 0.0, p, p)
    deviation = float(difference.std(ddof=1))
    # Z = mean / (deviation / sqrt(n)), with the deviation of a sample (n - 1).
    z = mean / (deviation / np.sqrt(n))
    laws = (scipy.stats.norm, scipy.stats.t(n - 1))
    p, p_student = (p_value(law.cdf(z), law.sf(z), alternative) for law in laws)
    return MatchedPairs(n, mean, deviation, float(z), p, p_student)


def p_value(below: float, above: float, alternative: Alternative) -> float:
    """Return p from the probabilities of a statistic as low, and as high, as the one seen."""
    by_alternative = {"two-sided": 2 * min(below, above), "less": below, "greater": above}
    if alternative not in by_alternative:
        raise InputError(f"unknown alternative {alternative!r}; known: {', '.join(by_alternative)}")
    return float(min(1.0, by_alternative[alternative]))


class Marks(NamedTuple):
    """Errors of one utterance at the words of its reference.

    wrong [R]: whether each word is substituted or deleted; inserted [R + 1]: how many insertions
    stand before each word, and after the last.
    """

    wrong: Sequence[int]
    inserted: Sequence[int]


def mark(edits: Iterable[Edit]) -> Marks:
    """The marks of an alignment; a recognised word that may be there counts as none."""
    wrong: list[int] = []
    inserted = [0]
    for edit in edits:
        if edit.ref is None:
            inserted[-1] += edit.kind != "correct"
        else:
            wrong.append(int(edit.kind != "correct"))
            inserted.append(0)
    return Marks(wrong, inserted)


def mapsswe_segments(pairs: Sequence[tuple[Marks, Marks]]) -> tuple[np.ndarray, np.ndarray]:
    """Errors of A and of B [S] in the segments of NIST's MAPSSWE, over the marks of utterances.

    A segment opens with an error of either system and closes after two words that both have
    right, or with the utterance.
    """
    segments: list[list[int]] = []
    for a, b in pairs:
        if len({len(a.wrong) + 1, len(a.inserted), len(b.wrong) + 1, len(b.inserted)}) != 1:
            raise InputError("the two systems were not aligned with the same reference words")
        segments += _find_segments(a, b)
    both = np.array(segments, dtype=np.int64).reshape(-1, 2)
    return both[:, 0], both[:, 1]


def _find_segments(a: Marks, b: Marks) -> list[list[int]]:
    closed: list[list[int]] = []
    current: list[int] | None = None
    good = 0
    # Place j has the insertions before word j, and then word j; the last has insertions alone.
    for j in range(len(a.inserted)):
        wrong = (a.wrong[j], b.wrong[j]) if j < len(a.wrong) else (0, 0)
        # Insertions before a word belong to the segment that is open there.
        inserted = a.inserted[j], b.inserted[j]
        if any(inserted) or any(wrong):
            current = current or [0, 0]
            current[0] += inserted[0] + wrong[0]
            current[1] += inserted[1] + wrong[1]
            # An insertion opens a segment too, but the word after it may be the first good one.
            good = 0
        if current and not any(wrong) and j < len(a.wrong):
            good += 1
            if good == 2:
                closed.append(current)
                current = None
    return closed + ([current] if current else [])


EXACT_LIMIT = 500
"""More pairs than these have no exact Wilcoxon test: its cost grows with their third power."""


class Test(NamedTuple):
    """A test statistic and its p-value."""

    statistic: float
    p: float


def wilcoxon(
    a: np.ndarray,
    b: np.ndarray,
    method: Literal["normal", "exact", "tied"] = "normal",
    alternative: Alternative = "two-sided",
) -> Test:
    """Wilcoxon's signed rank test of paired values [S], such as error rates of speakers.

    `normal`: as NIST's sc_stats does it; differences up to 0.005 count alternately as positive and
    as negative, tied ranks are averaged, nothing is corrected; the statistic is Z. `exact`: equal
    pairs are dropped, p is exact given the tied ranks; the statistic is the sum of positive ranks.
    `tied`: the same by the normal, without a correction for continuity; the statistic is Z.
    """
    a, b = _check_lengths(a, b)
    difference = a - b
    if method == "exact":
        if len(difference) > EXACT_LIMIT:
            raise InputError(f"{len(difference)} pairs are too many for exact; use normal")
        return _exact_wilcoxon(difference[difference != 0], alternative)
    if method == "tied":
        return _approximate_wilcoxon(difference[difference != 0], alternative)
    if method != "normal":
        raise InputError(f"unknown method {method!r}; known: normal, exact, tied")
    # sc_stats ranks equal pairs too, unlike the textbook.
    ranks = scipy.stats.rankdata(np.abs(difference))
    equal = np.abs(difference) <= 0.005
    # The running count of equal pairs is odd at every other one of them.
    positive = np.where(equal, np.cumsum(equal) % 2 == 1, difference > 0)
    n = len(difference)
    # Under no difference the sum has mean n (n + 1) / 4 and variance n (n + 1)(2 n + 1) / 24.
    deviation = np.sqrt(n * (n + 1) * (2 * n + 1) / 24)
    z = float((ranks[positive].sum() - n * (n + 1) / 4) / deviation)
    return Test(z, p_value(scipy.stats.norm.cdf(z), scipy.stats.norm.sf(z), alternative))


def _approximate_wilcoxon(difference: np.ndarray, alternative: Alternative) -> Test:
    """Each rank has either sign by chance, as in the exact test; their sum is taken for normal."""
    ranks = scipy.stats.rankdata(np.abs(difference))
    z = (
        float((np.sign(difference) * ranks).sum() / np.sqrt((ranks**2).sum()))
        if len(ranks)
        else 0.0
    )
    return Test(z, p_value(scipy.stats.norm.cdf(z), scipy.stats.norm.sf(z), alternative))


def _exact_wilcoxon(difference: np.ndarray, alternative: Alternative) -> Test:
    """All signs are equally likely: count the ways to each sum of (doubled) ranks."""
    # Tied ranks are halves, so twice a rank is a whole number and an index.
    doubled = np.rint(2 * scipy.stats.rankdata(np.abs(difference))).astype(int)
    ways = np.zeros(doubled.sum() + 1)
    ways[0] = 1.0
    for rank in doubled:
        # Each rank is in the sum with probability 1/2: p(s) = (p(s) + p(s - rank)) / 2.
        ways[rank:] = (ways[rank:] + ways[: len(ways) - rank]) / 2
        ways[:rank] /= 2
    observed = doubled[difference > 0].sum()
    return Test(
        observed / 2, p_value(ways[: observed + 1].sum(), ways[observed:].sum(), alternative)
    )


def sign_test(
    a: np.ndarray,
    b: np.ndarray,
    alternative: Alternative = "two-sided",
    equal: Literal["drop", "split"] = "drop",
) -> Test:
    """Exact sign test of paired values [S]; the statistic is in how many pairs A is greater.

    Equal pairs say nothing and are dropped; NIST's sc_stats splits them instead, an odd one going
    to the rarer sign.
    """
    a, b = _check_lengths(a, b)
    greater, less = int((a > b).sum()), int((a < b).sum())
    if equal == "split":
        half, odd = divmod(len(a) - greater - less, 2)
        greater, less = (
            # Two conditions that exclude each other give the odd pair to the rarer sign.
            greater + half + odd * (greater < less),
            less + half + odd * (less <= greater),
        )
    return _binomial(greater, less, alternative)


def mcnemar(
    wrong_a: np.ndarray, wrong_b: np.ndarray, alternative: Alternative = "two-sided"
) -> Test:
    """Exact McNemar test of which utterances [S] have any error.

    The statistic is the number of utterances that only A has wrong.
    """
    wrong_a, wrong_b = (np.asarray(w, dtype=bool) for w in _check_lengths(wrong_a, wrong_b))
    only_a, only_b = int((wrong_a & ~wrong_b).sum()), int((wrong_b & ~wrong_a).sum())
    return _binomial(only_a, only_b, alternative)


def _binomial(successes: int, failures: int, alternative: Alternative) -> Test:
    fair = scipy.stats.binom(successes + failures, 0.5)
    # sf(more - 1) is P(X >= more): both tails contain the value itself.
    return Test(float(successes), p_value(fair.cdf(successes), fair.sf(successes - 1), alternative))


def holm(p_values: Sequence[float]) -> np.ndarray:
    """p-values adjusted for their number by Holm's step-down procedure, in the given order."""
    p = np.asarray(p_values, dtype=float)
    order = np.argsort(p, kind="stable")
    # Holm: the k-th smallest of m is multiplied by m - k + 1, and none falls below the one before.
    stepped = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(stepped, 1.0)
    return adjusted

"""Paired tests between two sides on the same speech, by segment, utterance or speaker.

A side is one run or several: seeds of one configuration, or a group of configurations as in
section 5.1 of Bittar and Garner (2021). The errors of a unit are those of all its runs.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from bayes_asr.evaluate.score.counts import ErrorCounts
from bayes_asr.evaluate.score.scores import Score
from bayes_asr.evaluate.score.statistics import (
    EXACT_LIMIT,
    Alternative,
    Marks,
    holm,
    mapsswe_segments,
    matched_pairs,
    mcnemar,
    sign_test,
    wilcoxon,
)

ENOUGH_SPEAKERS = 10
FEWEST = 6
"""Units over which an exact two-sided test can have a p below 0.05: its least is 2 / 2 ** n."""


def has_enough_speakers(score: Score) -> bool:
    """Whether speakers are drawn and decide, and not utterances."""
    return len(score.speakers) >= ENOUGH_SPEAKERS


def few_units_warning(number: int, unit: str) -> str | None:
    """The limit of a test that takes differences for normal, over so few units; None of enough.

    Of a single unit there is no test.
    """
    if not 1 < number < FEWEST:
        return None
    return (
        f"{number} {unit}s are few: no exact two-sided test over them has a p below "
        f"{2 / 2**number:.3g}. What is smaller takes for granted that differences are normal."
    )


class PairedErrors(NamedTuple):
    """Errors of A and of B, and reference tokens, of each unit [S].

    All are whole multiples of those of one run, so that what is equal stays equal.
    """

    a: np.ndarray
    b: np.ndarray
    tokens: np.ndarray

    def with_tokens(self) -> "PairedErrors":
        """The units that have reference tokens."""
        return PairedErrors(*(column[self.tokens > 0] for column in self))


def _run_weights(a: Sequence[Score], b: Sequence[Score]) -> tuple[int, int]:
    """Multiples of the errors of a run of A, and of B, that are of as many tokens."""
    # The least common multiple keeps errors whole, where means would round.
    common = math.lcm(len(a), len(b))
    return common // len(a), common // len(b)


def _collect(
    a: Sequence[Sequence[ErrorCounts]], b: Sequence[Sequence[ErrorCounts]], weights: tuple[int, int]
) -> PairedErrors:
    errors_a, errors_b = (
        weight * np.array([[c.errors for c in run] for run in runs]).sum(axis=0)
        for weight, runs in zip(weights, (a, b), strict=True)
    )
    # Tokens are those of one run, times the runs that the weighted errors stand for.
    tokens = weights[0] * len(a) * np.array([c.tokens for c in a[0]])
    return PairedErrors(errors_a, errors_b, tokens)


def collect_utterances(a: Sequence[Score], b: Sequence[Score]) -> PairedErrors:
    """The errors of each utterance, over all runs of each side."""
    of_a, of_b = ([[u.counts for u in score.utterances] for score in runs] for runs in (a, b))
    return _collect(of_a, of_b, _run_weights(a, b))


def collect_speakers(a: Sequence[Score], b: Sequence[Score]) -> PairedErrors:
    """The errors of each speaker, over all runs of each side."""
    of_a, of_b = ([list(score.speakers.values()) for score in runs] for runs in (a, b))
    return _collect(of_a, of_b, _run_weights(a, b))


def collect_segments(a: Sequence[Score], b: Sequence[Score]) -> tuple[np.ndarray, np.ndarray]:
    """Errors of A and of B in the segments of MAPSSWE, which end where all runs are right.

    Where runs took different alternatives of a reference, the utterance is one segment.
    """
    weights = _run_weights(a, b)
    pairs = []
    # The marks of one utterance in all runs stand side by side.
    for marks in zip(*(run.marks for run in (*a, *b)), strict=True):
        if len({len(mark.wrong) for mark in marks}) > 1:
            # One insertion place with all errors makes the utterance a single segment.
            marks = tuple(Marks([sum(m.wrong) + sum(m.inserted)], [0, 0]) for m in marks)
        pairs.append(
            (_add_marks(marks[: len(a)], weights[0]), _add_marks(marks[len(a) :], weights[1]))
        )
    return mapsswe_segments(pairs)


def _add_marks(marks: Sequence[Marks], weight: int) -> Marks:
    wrong, inserted = (
        [weight * sum(column) for column in zip(*rows, strict=True)]
        for rows in zip(*marks, strict=True)
    )
    return Marks(wrong, inserted)


@dataclass(frozen=True)
class PairedTest:
    """One paired test: over `number` units of `unit`; `adjusted` is p by Holm over all tests.

    `p` is of the alternative that was asked for, `two_sided` of any difference. `warning` says why
    p should not be trusted, where the units are too few for it.
    """

    test: str
    unit: str
    number: int
    statistic: float
    p: float
    two_sided: float
    adjusted: float
    warning: str | None

    @property
    def title(self) -> str:
        """The test and what it is over."""
        return f"{self.test}, {self.unit}s"

    @property
    def units(self) -> str:
        """The number of units it is over, and whether these are few for it."""
        counted = f"{self.number} {self.unit}{'s' if self.number != 1 else ''}"
        return f"{counted} (few)" if self.warning else counted

    def as_dict(self) -> dict[str, Any]:
        """Everything as plain data; JSON has no infinity, so that such a statistic is None."""
        finite = math.isfinite(self.statistic)
        return asdict(self) | {"statistic": self.statistic if finite else None}


class _PlannedTest(NamedTuple):
    """A test that waits for its alternative; `run` gives the statistic and p of one.

    exact: p takes nothing for normal.
    """

    test: str
    unit: str
    number: int
    run: Callable[[Alternative], tuple[float, float]]
    exact: bool = False


def run_system_tests(
    a: Sequence[Score], b: Sequence[Score], alternative: Alternative
) -> list[PairedTest]:
    """All tests that the numbers of runs, utterances and speakers allow, MAPSSWE first."""
    segments, cluster = collect_segments(a, b), a[0].cluster
    utterances, speakers = collect_utterances(a, b), collect_speakers(a, b).with_tokens()
    tests = [
        _PlannedTest("MAPSSWE", "segment", len(segments[0]), partial(_match, *segments)),
        _plan_matched_pairs("utterance", utterances),
    ]
    if len(a) == len(b) == 1:  # of several runs, an utterance is seldom right in all
        wrong = partial(mcnemar, utterances.a > 0, utterances.b > 0)
        tests.append(_PlannedTest("McNemar, exact", "utterance", len(utterances.a), wrong, True))
    if len(speakers.tokens) > 1:
        signs = partial(sign_test, *_compare_rates(speakers))
        tests += [
            _plan_matched_pairs(cluster, speakers, student=True),
            _plan_wilcoxon(cluster, speakers, "normal"),
            *_plan_exact_wilcoxon(cluster, speakers),
            _PlannedTest("sign, exact", cluster, len(speakers.tokens), signs, True),
        ]
    return _run_tests(tests, alternative)


def run_group_tests(
    a: Sequence[Score], b: Sequence[Score], alternative: Alternative
) -> list[PairedTest]:
    """The tests of section 5.1 of Bittar and Garner (2021), over speakers and over utterances.

    The first, which decides, is matched pairs by Student's t: over speakers, of whom the paper has
    24, or over utterances where there are too few speakers.
    """
    pairs = [
        (a[0].cluster, collect_speakers(a, b).with_tokens()),
        ("utterance", collect_utterances(a, b).with_tokens()),
    ]
    tests = []
    # The order decides: the first is the test by which systems are judged.
    for unit, of_unit in pairs if has_enough_speakers(a[0]) else reversed(pairs):
        if len(of_unit.tokens) > 1 or unit == "utterance":
            tests += [
                _plan_matched_pairs(unit, of_unit, student=True),
                _plan_matched_pairs(unit, of_unit),
                *_plan_exact_wilcoxon(unit, of_unit),
                _plan_wilcoxon(unit, of_unit, "tied"),
            ]
    return _run_tests(tests, alternative)


def _match(
    a: np.ndarray, b: np.ndarray, alternative: Alternative, student: bool = False
) -> tuple[float, float]:
    """Matched pairs; of a single pair nothing is known."""
    if len(a) < 2:
        return 0.0, 1.0
    result = matched_pairs(a, b, alternative)
    return result.z, result.p_student if student else result.p


def _plan_matched_pairs(unit: str, pairs: PairedErrors, student: bool = False) -> _PlannedTest:
    run = partial(_match, pairs.a, pairs.b, student=student)
    name = "matched pairs, Student's t" if student else "matched pairs"
    return _PlannedTest(name, unit, len(pairs.a), run)


RANKS = {
    "normal": "Wilcoxon, normal as sc_stats",
    "tied": "Wilcoxon, normal",
    "exact": "Wilcoxon, exact",
}


def _plan_wilcoxon(unit: str, pairs: PairedErrors, method: str) -> _PlannedTest:
    rates = _compare_rates(pairs)

    def run(alternative: Alternative) -> tuple[float, float]:
        return wilcoxon(*rates, method=method, alternative=alternative)  # type: ignore[arg-type]

    return _PlannedTest(RANKS[method], unit, len(pairs.tokens), run, method == "exact")


def _plan_exact_wilcoxon(unit: str, pairs: PairedErrors) -> list[_PlannedTest]:
    few = len(pairs.tokens) <= EXACT_LIMIT
    return [_plan_wilcoxon(unit, pairs, "exact")] if few else []


def _compare_rates(pairs: PairedErrors) -> tuple[np.ndarray, np.ndarray]:
    """Differences of rates and zeros; of whole numbers, equal ones are rounded alike: ties stay."""
    # One division of the difference keeps equal errors at exactly 0, as two rates might not.
    return 100 * (pairs.a - pairs.b) / pairs.tokens, np.zeros(len(pairs.tokens))


def _run_tests(tests: Sequence[_PlannedTest], alternative: Alternative) -> list[PairedTest]:
    # Holm's adjustment takes all tests of the table as one family.
    results = [q.run(alternative) for q in tests]
    return [
        PairedTest(
            q.test,
            q.unit,
            q.number,
            statistic,
            p,
            q.run("two-sided")[1],
            float(adjusted),
            warning=None if q.exact else few_units_warning(q.number, q.unit),
        )
        for q, (statistic, p), adjusted in zip(
            tests, results, holm([p for _, p in results]), strict=True
        )
    ]

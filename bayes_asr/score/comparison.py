"""Two systems on the same utterances: rates, intervals, paired tests, and what they say.

A system is one run or several: seeds of one configuration, or a group of configurations as in
section 5.1 of Bittar and Garner (2021). The errors of a unit are then those of all its runs.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from bayes_asr.errors import InputError, printable
from bayes_asr.score.counts import ErrorCounts
from bayes_asr.score.scores import Score, pool
from bayes_asr.score.statistics import (
    EXACT_LIMIT,
    Alternative,
    Bootstrap,
    Interval,
    Marks,
    PairedBootstrap,
    beta_of_runs,
    bootstrap,
    holm,
    mapsswe_segments,
    matched_pairs,
    mcnemar,
    paired_bootstrap,
    sign_test,
    wilcoxon,
)

LEVEL = 0.95


@dataclass(frozen=True)
class PairedTest:
    """One paired test: over `number` units of `unit`; `adjusted` is p by Holm over all tests."""

    test: str
    unit: str
    number: int
    statistic: float
    p: float
    adjusted: float

    @property
    def title(self) -> str:
        """The test and what it is over."""
        return f"{self.test}, {self.unit}s"


class System(NamedTuple):
    """One side of a comparison: the counts are of all its runs.

    The beta interval is that of one run, because runs share their test set; it is None where
    insertions exceed all tokens.
    """

    name: str
    runs: int
    counts: ErrorCounts
    beta: Interval | None
    bootstrap: Bootstrap


@dataclass(frozen=True)
class Comparison:
    """Systems A and B on one set under one convention; `difference` is rate A minus rate B.

    Replicates draw `resampled` (speakers, or utterances where there are fewer than 10 speakers).
    `alternative` is what all tests ask: whether A has other than, less or greater errors than B.
    """

    set: str | None
    metric: str
    convention: str
    alternative: Alternative
    a: System
    b: System
    resampled: str
    difference: PairedBootstrap
    tests: Sequence[PairedTest]

    def sentence(self) -> str:
        """The comparison in plain words, judged by MAPSSWE, which is chosen beforehand."""
        judged = self.tests[0]
        points = self.a.counts.rate - self.b.counts.rate
        low, high = self.difference.difference.interval
        better, worse = (self.b, self.a) if points > 0 else (self.a, self.b)
        on = printable(f"{self.set} {self.metric.upper()} ({self.convention})")
        if points == 0:
            claim = (
                f"{self.a.name} and {self.b.name} have the same {on}, {self.a.counts.rate:.2f} %"
            )
        else:
            claim = (
                f"{better.name} has the lower {on}: {better.counts.rate:.2f} % against "
                f"{worse.counts.rate:.2f} % of {worse.name}, {abs(points):.2f} points less"
            )
        verdict = "" if judged.p < 1 - LEVEL else "not "
        tested = {
            "two-sided": "the difference",
            "less": f"that {self.a.name} has fewer errors",
            "greater": f"that {self.a.name} has more errors",
        }[self.alternative]
        return (
            f"{claim} (95 % interval of {self.a.name} minus {self.b.name} {low:.2f} to {high:.2f}, "
            f"bootstrap over {self.resampled}); by MAPSSWE {tested} is {verdict}significant "
            f"at the 5 % level (p {format_p(judged.p, '= ')})."
        )

    def as_dict(self) -> dict[str, Any]:
        """Everything as plain data."""
        systems = {
            key: {
                "name": system.name,
                "runs": system.runs,
                **system.counts.as_dict(),
                "rate": system.counts.rate,
                "beta_interval": system.beta,
                "bootstrap_interval": system.bootstrap.interval,
                "bootstrap_standard_error": system.bootstrap.standard_error,
            }
            for key, system in (("a", self.a), ("b", self.b))
        }
        return {
            "set": self.set,
            "metric": self.metric,
            "convention": self.convention,
            "alternative": self.alternative,
            **systems,
            "resampled": self.resampled,
            "difference": self.a.counts.rate - self.b.counts.rate,
            "difference_interval": self.difference.difference.interval,
            "probability_of_improvement": self.difference.improvement,
            "tests": [asdict(test) for test in self.tests],
            "sentence": self.sentence(),
        }


def compare(
    a: Score | Sequence[Score],
    b: Score | Sequence[Score],
    names: tuple[str, str],
    replicates: int = 10_000,
    seed: int = 0,
    alternative: Alternative = "two-sided",
) -> Comparison:
    """Compare two systems on one set under one convention, utterance by utterance.

    Each is the score of a run, or those of several. Raises InputError where they are not scores
    of the same references.
    """
    runs_a, runs_b = ([x] if isinstance(x, Score) else list(x) for x in (a, b))
    for runs, name in ((runs_a, names[0]), (runs_b, names[1])):
        for run in runs:
            check_comparable(runs_a[0], run, (names[0], name))
    first = runs_a[0]
    by_speaker = len(first.speakers) >= 10
    units = _collect_speakers(runs_a, runs_b) if by_speaker else _collect_utterances(runs_a, runs_b)
    return Comparison(
        set=first.set,
        metric=first.metric,
        convention=first.convention,
        alternative=alternative,
        a=_summarise_system(names[0], runs_a, units.a, units.tokens, replicates, seed),
        b=_summarise_system(names[1], runs_b, units.b, units.tokens, replicates, seed),
        resampled="speakers" if by_speaker else "utterances",
        difference=paired_bootstrap(units.a, units.b, units.tokens, replicates, seed, LEVEL),
        tests=_run_paired_tests(runs_a, runs_b, alternative),
    )


def adjust_over(comparisons: Sequence[Comparison]) -> list[dict[str, float]]:
    """For each comparison, p of each test by Holm over these comparisons, by the test's title.

    A test that some of them lack is adjusted over those that have it.
    """
    adjusted: list[dict[str, float]] = [{} for _ in comparisons]
    for title in dict.fromkeys(test.title for c in comparisons for test in c.tests):
        found = [
            (i, test.p)
            for i, comparison in enumerate(comparisons)
            for test in comparison.tests
            if test.title == title
        ]
        for (i, _), p in zip(found, holm([p for _, p in found]), strict=True):
            adjusted[i][title] = float(p)
    return adjusted


def _summarise_system(
    name: str,
    runs: Sequence[Score],
    errors: np.ndarray,
    tokens: np.ndarray,
    replicates: int,
    seed: int,
) -> System:
    counts = [run.counts for run in runs]
    drawn = bootstrap(errors, tokens, replicates, seed, LEVEL)
    return System(name, len(runs), pool(counts), beta_of_runs(counts, LEVEL), drawn)


def check_comparable(a: Score, b: Score, names: tuple[str, str]) -> None:
    """Raise InputError where two scores are not of the same references, counted alike."""
    for key in ("set", "metric", "convention", "optional", "costs", "glm", "unknown"):
        if getattr(a, key) != getattr(b, key):
            raise InputError(
                f"{names[0]} and {names[1]} differ in {key}: {getattr(a, key)} and "
                f"{getattr(b, key)}; score both alike"
            )
    said_a, said_b = ({u.utterance: u.reference for u in score.utterances} for score in (a, b))
    different = [u for u in said_a.keys() | said_b.keys() if said_a.get(u) != said_b.get(u)]
    if different or list(said_a) != list(said_b):
        raise InputError(
            f"{names[0]} and {names[1]} do not score the same {a.set} references: "
            f"{len(different)} utterances differ, such as {min(different, default='their order')}"
        )
    by_another = [
        u.utterance
        for u, v in zip(a.utterances, b.utterances, strict=True)
        if u.speaker != v.speaker
    ]
    if by_another:
        raise InputError(
            f"{names[0]} and {names[1]} name other speakers of {len(by_another)} utterances, such "
            f"as {by_another[0]}; score both with the same utt2spk"
        )


class _Units(NamedTuple):
    """Errors of A and of B, and reference tokens, of each unit [S].

    All are whole multiples of those of one run, so that what is equal stays equal.
    """

    a: np.ndarray
    b: np.ndarray
    tokens: np.ndarray


def _weigh(a: Sequence[Score], b: Sequence[Score]) -> tuple[int, int]:
    """How often the errors of a run of A, and of B, count, for both to be of as many tokens."""
    every = math.lcm(len(a), len(b))
    return every // len(a), every // len(b)


def _collect_units(
    a: Sequence[Sequence[ErrorCounts]], b: Sequence[Sequence[ErrorCounts]], weights: tuple[int, int]
) -> _Units:
    errors_a, errors_b = (
        weight * np.array([[c.errors for c in run] for run in runs]).sum(axis=0)
        for weight, runs in zip(weights, (a, b), strict=True)
    )
    return _Units(errors_a, errors_b, weights[0] * len(a) * np.array([c.tokens for c in a[0]]))


def _collect_utterances(a: Sequence[Score], b: Sequence[Score]) -> _Units:
    of_a, of_b = ([[u.counts for u in score.utterances] for score in runs] for runs in (a, b))
    return _collect_units(of_a, of_b, _weigh(a, b))


def _collect_speakers(a: Sequence[Score], b: Sequence[Score]) -> _Units:
    of_a, of_b = ([list(score.speakers.values()) for score in runs] for runs in (a, b))
    return _collect_units(of_a, of_b, _weigh(a, b))


def _collect_segments(a: Sequence[Score], b: Sequence[Score]) -> tuple[np.ndarray, np.ndarray]:
    """Errors of A and of B in the segments of MAPSSWE, which end where all runs are right.

    Where runs took different alternatives of a reference, the utterance is one segment.
    """
    weights = _weigh(a, b)
    pairs = []
    for marks in zip(*(run.marks for run in (*a, *b)), strict=True):
        if len({len(mark.wrong) for mark in marks}) > 1:
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


def _run_paired_tests(
    a: Sequence[Score], b: Sequence[Score], alternative: Alternative
) -> list[PairedTest]:
    """All tests that the numbers of runs, utterances and speakers allow, MAPSSWE first."""
    segments = _collect_segments(a, b)
    utterances, speakers = _collect_utterances(a, b), _collect_speakers(a, b)
    rows: list[tuple[str, str, int, float, float]] = []

    def add_pairs(test: str, unit: str, x: np.ndarray, y: np.ndarray, student: bool) -> None:
        z, p = 0.0, 1.0
        if len(x) > 1:
            result = matched_pairs(x, y, alternative)
            z, p = result.z, result.p_student if student else result.p
        rows.append((test, unit, len(x), z, p))

    add_pairs("MAPSSWE", "segment", *segments, student=False)
    add_pairs("matched pairs", "utterance", utterances.a, utterances.b, student=False)
    if len(a) == len(b) == 1:  # of several runs, an utterance is seldom right in all
        wrong = utterances.a > 0, utterances.b > 0
        n = len(utterances.tokens)
        rows.append(("McNemar, exact", "utterance", n, *mcnemar(*wrong, alternative)))
    spoken = speakers.tokens > 0
    if spoken.sum() > 1:
        x, y, tokens = (column[spoken] for column in speakers)
        add_pairs("matched pairs, Student's t", "speaker", x, y, student=True)
        # Of whole numbers, equal differences of rates are rounded alike, and so stay ties.
        rates = 100 * (x - y) / tokens, np.zeros(len(tokens))
        n = len(tokens)
        normal = wilcoxon(*rates, alternative=alternative)
        rows.append(("Wilcoxon, normal as sc_stats", "speaker", n, *normal))
        if n <= EXACT_LIMIT:
            exact = wilcoxon(*rates, method="exact", alternative=alternative)
            rows.append(("Wilcoxon, exact", "speaker", n, *exact))
        rows.append(("sign, exact", "speaker", n, *sign_test(*rates, alternative)))
    adjusted = holm([p for *_, p in rows])
    return [PairedTest(*row, float(holm_p)) for row, holm_p in zip(rows, adjusted, strict=True)]


def format_p(p: float, equals: str = "") -> str:
    """A p-value with four digits behind the point, `equals` before it."""
    return "< 0.0001" if p < 1e-4 else f"{equals}{p:.4f}"

"""Two sides on the same utterances: rates, intervals, paired tests, and what they say.

A side is a system, which has one run or several (seeds), or a group of systems.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from bayes_asr.base.errors import printable
from bayes_asr.evaluate.score.counts import ErrorCounts
from bayes_asr.evaluate.score.paired_tests import (
    PairedTest,
    collect_speakers,
    collect_utterances,
    few_units_warning,
    has_enough_speakers,
    run_group_tests,
    run_system_tests,
)
from bayes_asr.evaluate.score.power import POWER, Detectable, Precision, detect, measure_precision
from bayes_asr.evaluate.score.scores import Score, check_comparable, pool
from bayes_asr.evaluate.score.seeds import SeedSpread, pooled_deviation, spread_over_seeds
from bayes_asr.evaluate.score.statistics import (
    Alternative,
    Bootstrap,
    Interval,
    PairedBootstrap,
    beta_of_runs,
    bootstrap,
    holm,
    paired_bootstrap,
)

LEVEL = 0.95
SIGNIFICANT = 0.05

Runs = Score | Sequence[Score] | Sequence[Sequence[Score]]
"""A run; the runs of a system; or the runs of each system of a group."""


class System(NamedTuple):
    """One side of a comparison: the counts are of all its runs.

    The beta interval is that of one run, because runs share their test set; it is None where
    insertions exceed all tokens. deviation: that of the rates of runs around their system's mean,
    in points; None where no system has two.
    """

    name: str
    runs: int
    counts: ErrorCounts
    beta: Interval | None
    bootstrap: Bootstrap
    deviation: float | None

    def as_dict(self) -> dict[str, Any]:
        """Everything as plain data."""
        return {
            "name": self.name,
            "runs": self.runs,
            **self.counts.as_dict(),
            "rate": self.counts.rate,
            "beta_interval": self.beta,
            "bootstrap_interval": self.bootstrap.interval,
            "bootstrap_standard_error": self.bootstrap.standard_error,
            "deviation_over_seeds": self.deviation,
        }


@dataclass(frozen=True)
class Comparison:
    """Sides A and B on one set under one convention; `difference` is rate A minus rate B.

    Replicates draw `resampled` (speakers, or the `cluster` that utt2spk has in their place;
    utterances where there are fewer than 10 of these); the networks are taken as they are, and
    `seeds` says how much other trainings would differ.
    `alternative` is what all tests ask: whether A has other than, less or greater errors than B.
    """

    set: str | None
    metric: str
    convention: str
    alternative: Alternative
    cluster: str
    a: System
    b: System
    resampled: str
    difference: PairedBootstrap
    tests: Sequence[PairedTest]
    precisions: Sequence[Precision]
    seeds: SeedSpread | None

    @property
    def points(self) -> float:
        """Rate A minus rate B."""
        return self.a.counts.rate - self.b.counts.rate

    def detectable(self, comparisons: int = 1) -> list[Detectable]:
        """The least differences that would be found, with Holm's correction for several.

        That is strictest for the first of them, which is what is assumed.
        """
        # Holm compares the smallest of m p-values with level / m.
        level = SIGNIFICANT / comparisons
        return [detect(precision, self.b.counts.rate, level) for precision in self.precisions]

    @property
    def warnings(self) -> list[str]:
        """Why the p of some tests should not be trusted."""
        return list(dict.fromkeys(test.warning for test in self.tests if test.warning))

    def sentence(self, adjusted: Mapping[str, float] | None = None) -> str:
        """The comparison in plain words, judged by the first test, which is chosen beforehand.

        adjusted: p of each test by Holm over all that are compared, which then judges.
        """
        # The first test judges by convention, so that nobody picks the one that suits.
        judged = self.tests[0]
        low, high = self.difference.difference.interval
        better, worse = (self.b, self.a) if self.points > 0 else (self.a, self.b)
        on = printable(f"{self.set} {self.metric.upper()} ({self.convention})")
        if self.points == 0:
            claim = (
                f"{self.a.name} and {self.b.name} have the same {on}, {self.a.counts.rate:.2f} %"
            )
        else:
            claim = (
                f"{better.name} has the lower {on}: {better.counts.rate:.2f} % against "
                f"{worse.counts.rate:.2f} % of {worse.name}, {abs(self.points):.2f} points less"
            )
        p, by_holm = judged.p, ""
        if adjusted:
            p = adjusted[judged.title]
            by_holm = f", by Holm over all that are compared {format_p(p)}"
        verdict = "" if p < SIGNIFICANT else "not "
        tested = {
            "two-sided": "the difference",
            "less": f"that {self.a.name} has fewer errors",
            "greater": f"that {self.a.name} has more errors",
        }[self.alternative]
        by = judged.test if judged.unit == "segment" else f"{judged.test}, over {judged.unit}s,"
        return (
            f"{claim} (95 % interval of {self.a.name} minus {self.b.name} {low:.2f} to {high:.2f}, "
            f"bootstrap over {self.resampled}); by {by} {tested} is {verdict}significant "
            f"at the 5 % level (p {format_p(judged.p, '= ')}{by_holm})."
            + (f" {judged.warning}" if judged.warning else "")
        )

    def power_sentence(self, comparisons: int = 1) -> str:
        """The differences that the set would show, at the level of the first of several by Holm."""
        differences = [
            f"{d.points:.2f} points{format_share(d.relative)} over {d.number} {d.unit}s"
            + " (few)" * bool(few_units_warning(d.number, d.unit))
            for d in self.detectable(comparisons)
        ]
        single = all(test.number < 2 for test in self.tests if test.unit == "utterance")
        why = "from one unit" if single else "where all units differ alike"
        what = " or ".join(differences) or f"no difference that could be said {why}"
        return (
            f"At p < {SIGNIFICANT / comparisons:.3g}, two-sided, the set shows with a probability "
            f"of {100 * POWER:.0f} %: {what}."
        )

    def seeds_sentence(self) -> str:
        """The spread over seeds: what is random in the tests, and what chance in training adds."""
        fixed = "In the interval and the tests speech is random, and the networks are fixed."
        spreads = [
            f"{side.deviation:.2f} of {side.name}"
            for side in (self.a, self.b)
            if side.deviation is not None
        ]
        if not spreads:
            return f"{fixed} One run of a system does not tell what another seed would give."
        spread = f"{fixed} Standard deviation over seeds: {', '.join(spreads)}."
        if self.seeds is None:
            return f"{spread} A system with one run has none."
        low, high = self.seeds.interval
        sides = "two-sided" if self.alternative == "two-sided" else "one-sided"
        return (
            f"{spread} Over seeds alone the difference has a standard error of "
            f"{self.seeds.standard_error:.2f} points (Welch's t over {self.a.runs} and "
            f"{self.b.runs} runs, {sides}: p "
            f"{format_p(self.seeds.p, '= ')}); over seeds and {self.resampled} its 95 % interval "
            f"is {low:.2f} to {high:.2f}."
        )

    def as_dict(
        self, comparisons: int = 1, adjusted: Mapping[str, float] | None = None
    ) -> dict[str, Any]:
        """Everything as plain data; what is detectable alone, and as one of several.

        adjusted: as in `sentence`.
        """
        return {
            "set": self.set,
            "metric": self.metric,
            "convention": self.convention,
            "alternative": self.alternative,
            "a": self.a.as_dict(),
            "b": self.b.as_dict(),
            "resampled": self.resampled,
            "difference": self.points,
            "difference_interval": self.difference.difference.interval,
            "probability_of_improvement": self.difference.improvement,
            "tests": [test.as_dict() for test in self.tests],
            "power": POWER,
            "detectable": [
                detectable._asdict()
                for number in sorted({1, comparisons})
                for detectable in self.detectable(number)
            ],
            "over_seeds": self.seeds and self.seeds._asdict(),
            "sentence": self.sentence(adjusted),
        }


def compare(
    a: Runs,
    b: Runs,
    names: tuple[str, str],
    replicates: int = 10_000,
    seed: int = 0,
    alternative: Alternative = "two-sided",
    *,
    as_groups: bool = False,
) -> Comparison:
    """Compare two sides on one set under one convention, utterance by utterance.

    as_groups: by the tests for groups of systems, instead of those for systems. Raises InputError
    where not all are scores of the same references.
    """
    systems_a, systems_b = _list_systems(a), _list_systems(b)
    runs_a, runs_b = ([run for runs in side for run in runs] for side in (systems_a, systems_b))
    # All runs are held against one, which makes them comparable with each other.
    reference_run = runs_a[0]
    for run, name in [(run, names[0]) for run in runs_a] + [(run, names[1]) for run in runs_b]:
        check_comparable(reference_run, run, (names[0], name))
    pairs = {
        "utterance": collect_utterances(runs_a, runs_b),
        reference_run.cluster: collect_speakers(runs_a, runs_b),
    }
    resampled = reference_run.cluster if has_enough_speakers(reference_run) else "utterance"
    units = pairs[resampled]
    drawing = (replicates, seed, LEVEL)
    # Both sides are drawn with the same seed, so a replicate has the same speech for both.
    difference = paired_bootstrap(*units, *drawing)
    over_speech = (difference.difference.standard_error, len(units.tokens))
    run_tests = run_group_tests if as_groups else run_system_tests
    precisions = (measure_precision(unit, x.a - x.b, x.tokens) for unit, x in pairs.items())
    return Comparison(
        set=reference_run.set,
        metric=reference_run.metric,
        convention=reference_run.convention,
        alternative=alternative,
        cluster=reference_run.cluster,
        # Intervals of the sides are over the same units as that of their difference.
        a=_summarise_system(names[0], systems_a, bootstrap(units.a, units.tokens, *drawing)),
        b=_summarise_system(names[1], systems_b, bootstrap(units.b, units.tokens, *drawing)),
        resampled=f"{resampled}s",
        difference=difference,
        tests=run_tests(runs_a, runs_b, alternative),
        precisions=[precision for precision in precisions if precision],
        seeds=spread_over_seeds(
            _list_rates(systems_a), _list_rates(systems_b), over_speech, alternative, LEVEL
        ),
    )


def adjust_over(comparisons: Sequence[Comparison]) -> list[dict[str, float]]:
    """For each comparison, p of each test by Holm over these comparisons, by the test's title.

    A test that some of them lack is adjusted over those that have it.
    """
    adjusted: list[dict[str, float]] = [{} for _ in comparisons]
    for title in dict.fromkeys(test.title for c in comparisons for test in c.tests):
        # Tests of one title form a family: Holm's correction is within each title.
        family = [
            (i, test.p)
            for i, comparison in enumerate(comparisons)
            for test in comparison.tests
            if test.title == title
        ]
        for (i, _), p in zip(family, holm([p for _, p in family]), strict=True):
            adjusted[i][title] = float(p)
    return adjusted


def _list_systems(side: Runs) -> list[list[Score]]:
    """The runs of each system of a side."""
    if isinstance(side, Score):
        return [[side]]
    runs = [run for run in side if isinstance(run, Score)]
    # A side is either runs of one system or lists of runs, one list a system.
    return [runs] if runs else [list(system) for system in side if not isinstance(system, Score)]


def _list_rates(systems: Sequence[Sequence[Score]]) -> list[list[float]]:
    return [[run.counts.rate for run in runs] for runs in systems]


def _summarise_system(
    name: str, systems: Sequence[Sequence[Score]], resampling: Bootstrap
) -> System:
    counts = [run.counts for runs in systems for run in runs]
    deviation = pooled_deviation(_list_rates(systems))
    return System(
        name, len(counts), pool(counts), beta_of_runs(counts, LEVEL), resampling, deviation
    )


def format_p(p: float, equals: str = "") -> str:
    """A p-value with four digits behind the point, `equals` before it."""
    return "< 0.0001" if p < 1e-4 else f"{equals}{p:.4f}"


def format_share(relative: float | None) -> str:
    """A relative difference behind one in points, where there is one."""
    return "" if relative is None else f" ({relative:.1f} %)"

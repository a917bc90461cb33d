"""Each system against the one that is best on dev, as `compare` does it."""

from collections.abc import Sequence
from typing import NamedTuple

import pandas as pd

from bayes_asr.base.errors import InputError
from bayes_asr.evaluate.report.runs import Key, ReportedSystem
from bayes_asr.evaluate.report.table import NONE
from bayes_asr.evaluate.score.comparison import (
    Comparison,
    adjust_over,
    compare,
    format_p,
    format_share,
)
from bayes_asr.evaluate.score.paired_tests import few_units_warning
from bayes_asr.evaluate.score.scores import check_comparable
from bayes_asr.evaluate.score.statistics import Interval

JUDGING = "MAPSSWE, segments"
SHOWN = (  # tests of compare, each with its p; that which judges also adjusted for the systems
    JUDGING,
    "matched pairs, utterances",
    "matched pairs, Student's t, {cluster}s",
    "Wilcoxon, exact, {cluster}s",
)
POWER = "would show over {}s"
FEW = " (few)"
SEEDS = ("sd over seeds", "95 % over seeds too")


class Differences(NamedTuple):
    """Comparisons of systems with the best on dev, as a table and in sentences.

    warnings: why some p should not be trusted; left_out: why other systems are.
    """

    table: pd.DataFrame
    sentences: Sequence[str]
    warnings: Sequence[str]
    left_out: Sequence[str]


def find_best_on_dev(systems: Sequence[ReportedSystem], convention: str) -> ReportedSystem:
    """The system with the lowest mean rate on dev; without dev scores, the first.

    Of systems whose dev is not scored alike, it is among the most that are.
    """
    key = ("dev", convention)
    alike: list[list[ReportedSystem]] = []
    for system in (system for system in systems if key in system.keys):
        group = next((group for group in alike if _are_alike(group[0], system, key)), None)
        if group is None:
            alike.append(group := [])
        group.append(system)
    if not alike:
        return systems[0]
    most = max(alike, key=len)
    return min(most, key=lambda system: float(system.rates(key).mean()))


def _are_alike(a: ReportedSystem, b: ReportedSystem, key: Key) -> bool:
    """Whether two systems are scored on the same references, and counted alike."""
    try:
        check_comparable(a.runs[0].scores[key], b.runs[0].scores[key], (a.name, b.name))
    except InputError:
        return False
    return True


def compare_with_best(systems: Sequence[ReportedSystem], key: Key) -> Differences:
    """Each system against the best on dev: difference, interval, p of each test by its name, power.

    The numbers are those of `bayes-asr compare SYSTEM BEST`. Systems scored on other references
    are left out.
    """
    best = find_best_on_dev(systems, key[1])
    comparisons, left_out = [], []
    for system in systems:
        if system is best or key not in system.keys:
            continue
        # A is the compared system, so a positive difference means more errors than the best has.
        a, b = ([run.scores[key] for run in runs] for runs in (system.runs, best.runs))
        try:
            comparisons.append(compare(a, b, (system.name, best.name)))
        except InputError as error:
            left_out.append(str(error))
    adjusted = adjust_over(comparisons)
    several = len(comparisons) > 1
    scored = best.runs[0].scores[key]
    few = {test.title for c in comparisons for test in c.tests if test.warning}
    columns = ["system", "against", "points more", "95 %"]
    columns += [f"p {title}{FEW * (title in few)}" for title in _name_tests(scored.cluster)]
    # The column stands behind p of MAPSSWE, which is the fifth.
    columns.insert(5, f"p {JUDGING} (Holm over systems)")
    few_speakers = few_units_warning(len(scored.speakers), scored.cluster)
    columns += [
        POWER.format("utterance"),
        POWER.format(scored.cluster) + FEW * bool(few_speakers),
    ]
    rows = [
        [*_tabulate(c, a), *_tabulate_power(c, len(comparisons)), *_tabulate_seeds(c)]
        for c, a in zip(comparisons, adjusted, strict=True)
    ]
    return Differences(
        pd.DataFrame(rows, columns=[*columns, *SEEDS]),
        [c.sentence(a if several else {}) for c, a in zip(comparisons, adjusted, strict=True)],
        list(dict.fromkeys(warning for c in comparisons for warning in c.warnings)),
        left_out,
    )


def _name_tests(cluster: str) -> list[str]:
    return [title.format(cluster=cluster) for title in SHOWN]


def _tabulate(comparison: Comparison, adjusted: dict[str, float]) -> list[str]:
    """A row of the table; a test that the numbers of speakers do not allow is a dash."""
    a, b = comparison.a, comparison.b
    p_values = {test.title: format_p(test.p) for test in comparison.tests}
    judging, *further = (p_values.get(t, NONE) for t in _name_tests(comparison.cluster))
    points = f"{a.counts.rate - b.counts.rate:+.2f}"
    interval = _format_interval(comparison.difference.difference.interval)
    return [a.name, b.name, points, interval, judging, format_p(adjusted[JUDGING]), *further]


def _tabulate_power(comparison: Comparison, comparisons: int) -> list[str]:
    """The least detectable differences by Holm over all, in points and in per cent of the best."""
    detectable = {
        d.unit: f"{d.points:.2f}{format_share(d.relative)}"
        for d in comparison.detectable(comparisons)
    }
    return [detectable.get(unit, NONE) for unit in ("utterance", comparison.cluster)]


def _tabulate_seeds(comparison: Comparison) -> list[str]:
    """The spread of both systems, and the interval of the difference over seeds and speech."""
    deviations = [side.deviation for side in (comparison.a, comparison.b)]
    spread = ", ".join(NONE if d is None else f"{d:.2f}" for d in deviations)
    if comparison.seeds is None:
        return [spread if any(deviations) else NONE, NONE]
    return [spread, _format_interval(comparison.seeds.interval)]


def _format_interval(interval: Interval) -> str:
    return f"[{interval.low:+.2f}, {interval.high:+.2f}]"

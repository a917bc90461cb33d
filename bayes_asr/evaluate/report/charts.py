"""The charts of a report as values: what is drawn, on which scale, and a sentence that says it.

Both pictures of a chart are drawn from its value: the page's by `templates/parts.html`, in HTML and
SVG that follow the reader's screen, and the file's by `figures`, in matplotlib.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from bayes_asr.evaluate.report.runs import NOTHING, Key, ReportedSystem
from bayes_asr.evaluate.report.scales import Axis, make_scale
from bayes_asr.evaluate.score.counts import ErrorCounts
from bayes_asr.evaluate.score.scores import pool
from bayes_asr.evaluate.score.statistics import beta_of_runs


class Row(NamedTuple):
    """A rate in per cent, its 95 % interval, and the rates of its seeds where there are several.

    Without an interval `low` and `high` are the rate.
    """

    name: str
    rate: float
    low: float
    high: float
    seeds: Sequence[float]


class RateChart(NamedTuple):
    """Rates on one axis; label: which rate they are; alt: all of it in words."""

    label: str
    axis: Axis
    rows: Sequence[Row]
    alt: str


class Part(NamedTuple):
    """One kind of error: its share of all reference tokens, and of the axis, in per cent."""

    kind: str
    number: int
    share: float
    width: float


class ConfusionChart(NamedTuple):
    """Counts [N, N] of each reference token (row) as each recognised token (column)."""

    names: Sequence[str]
    counts: np.ndarray

    @property
    def shares(self) -> np.ndarray:
        """The share of each row that is in its columns [N, N]."""
        # The floor of 1 keeps an empty row from a division by 0.
        return np.asarray(self.counts / np.maximum(self.counts.sum(axis=1, keepdims=True), 1))

    @property
    def has_gaps(self) -> bool:
        """Whether the last row and column are insertions and deletions."""
        return self.names[-1:] == [NOTHING]

    def cells(self) -> Iterator[tuple[int, int, float, str]]:
        """Column, row, opacity and meaning of each cell that counts anything.

        The opacity is the square root of the share, so that rare confusions are seen.
        """
        shares = self.shares
        for row, column in np.argwhere(self.counts).tolist():
            meaning = _describe_pair(
                self.names[row], self.names[column], int(self.counts[row, column])
            )
            yield column, row, round(float(shares[row, column]) ** 0.5, 2), meaning

    @property
    def alt(self) -> str:
        """The correct tokens, in words."""
        tokens = np.array([name != NOTHING for name in self.names])
        correct = np.diag(self.counts)[tokens].sum()
        return (
            f"{tokens.sum()} tokens; {correct} of {self.counts[tokens].sum()} were"
            " recognised as said."
        )


def chart_systems(systems: Sequence[ReportedSystem], key: Key) -> RateChart:
    """The rates of systems on one set under one convention."""
    rows = [_make_row(system.name, system.counts(key)) for system in systems]
    return _chart_rates(_name_rate(systems[0], key), rows)


def chart_keys(system: ReportedSystem) -> RateChart:
    """The rates of one system on all its sets, under all conventions."""
    rows = [_make_row(", ".join(key), system.counts(key)) for key in system.keys]
    return _chart_rates("error rate", rows)


def chart_speakers(system: ReportedSystem, key: Key) -> RateChart:
    """The rates of the speakers of one system, the highest first."""
    by_run = [run.scores[key].speakers for run in system.runs]
    rows = [
        _make_row(speaker, [speakers[speaker] for speakers in by_run])
        for speaker, counts in by_run[0].items()
        if counts.tokens and all(speaker in speakers for speakers in by_run)
    ]
    return _chart_rates(
        _name_rate(system, key), sorted(rows, key=lambda row: (-row.rate, row.name))
    )


def _name_rate(system: ReportedSystem, key: Key) -> str:
    metric = system.runs[0].scores[key].metric.upper()
    return f"{key[0]} {metric} ({key[1]})"


def _make_row(name: str, counts: Sequence[ErrorCounts]) -> Row:
    rates = [c.rate for c in counts]
    rate = float(np.mean(rates))
    # The interval is of whole errors, and rounding may put the mean outside of it.
    low, high = beta_of_runs(counts) or (rate, rate)
    return Row(name, rate, min(low, rate), max(high, rate), rates if len(rates) > 1 else ())


def _chart_rates(label: str, rows: Sequence[Row]) -> RateChart:
    values = [x for row in rows for x in (row.low, row.high, *row.seeds)]
    alts = (f"{row.name} {row.rate:.2f} % (95 % {row.low:.2f} to {row.high:.2f})" for row in rows)
    return RateChart(label, make_scale(min(values), max(values)), rows, f"{'; '.join(alts)}.")


def divide_errors(systems: Sequence[ReportedSystem], key: Key) -> list[tuple[str, list[Part]]]:
    """Substitutions, deletions and insertions of each system, over all its seeds."""
    counts = {system.name: pool(system.counts(key)) for system in systems}
    # The widest bar is that of the highest rate; others are relative to it.
    most = max(c.rate for c in counts.values()) or 1
    return [
        (
            name,
            [
                Part(kind, number, 100 * number / c.tokens, 100 * number / c.tokens / most * 100)
                for kind in ("substitutions", "deletions", "insertions")
                for number in [getattr(c, kind)]
            ],
        )
        for name, c in counts.items()
    ]


def chart_confusions(table: pd.DataFrame) -> ConfusionChart:
    """The table of `details.count_confusions` as a chart."""
    return ConfusionChart(list(table.columns), table.to_numpy())


def _describe_pair(ref: str, hyp: str, number: int) -> str:
    if ref == NOTHING:
        return f"{hyp} inserted: {number}"
    if hyp == NOTHING:
        return f"{ref} deleted: {number}"
    return f"{ref} recognised as {hyp}: {number}"

"""What the charts of the page show, as numbers that its templates lay out, and as a sentence."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from bayes_asr.base.errors import InputError
from bayes_asr.evaluate.report.configurations import find_measure
from bayes_asr.evaluate.report.details import NOTHING, Key
from bayes_asr.evaluate.report.runs import ReportedSystem, Run
from bayes_asr.evaluate.score.counts import ErrorCounts
from bayes_asr.evaluate.score.scores import pool
from bayes_asr.evaluate.score.statistics import beta_of_runs
from bayes_asr.kaldi_io.side_files import HISTORY, take
from bayes_asr.tasks.task import Measure

MOST_TICKS = 5

Curves = Mapping[str, np.ndarray]
"""Values by epoch [E] on the `parts` of a measure, `train` and `dev`."""


class Axis(NamedTuple):
    """A scale in per cent, from its first tick to its last."""

    ticks: Sequence[float]

    def place(self, value: float) -> float:
        """Where a value lies, in per cent of the width."""
        low, high = self.ticks[0], self.ticks[-1]
        return round(100 * (value - low) / (high - low), 2)


class Row(NamedTuple):
    """A rate with its 95 % interval, where it has one, and the rates of its seeds, on an axis."""

    name: str
    rate: float
    low: float
    high: float
    seeds: Sequence[float]


class RateChart(NamedTuple):
    """Rates below each other on one axis."""

    axis: Axis
    rows: Sequence[Row]
    alt: str


class Part(NamedTuple):
    """One kind of error: its share of all reference tokens, and of the axis, in per cent."""

    kind: str
    number: int
    share: float
    width: float


class Curve(NamedTuple):
    """A measure by epoch of a system: SVG points in a box of 100 by 100, and a sentence."""

    name: str
    points: Mapping[str, str]
    alt: str


class CurveChart(NamedTuple):
    """Curves on one pair of axes; title: what they show; parts: the data that each has them of."""

    title: str
    parts: Sequence[str]
    epochs: int
    axis: Axis
    curves: Sequence[Curve]


class Matrix(NamedTuple):
    """Cells of a table of confusions: column, row, opacity, and what is counted there."""

    names: Sequence[str]
    cells: Sequence[tuple[int, int, float, str]]
    alt: str


def chart_systems(systems: Sequence[ReportedSystem], key: Key) -> RateChart:
    """The rates of systems on one set under one convention."""
    return _chart([_describe(system.name, system.counts(key)) for system in systems])


def chart_keys(system: ReportedSystem) -> RateChart:
    """The rates of one system on all its sets, under all conventions."""
    return _chart([_describe(", ".join(key), system.counts(key)) for key in system.keys])


def chart_speakers(system: ReportedSystem, key: Key) -> RateChart:
    """The rates of the speakers of one system, the highest first."""
    spoken = [run.scores[key].speakers for run in system.runs]
    rows = [
        _describe(speaker, [counts[speaker] for counts in spoken])
        for speaker, counts in spoken[0].items()
        if counts.tokens and all(speaker in run for run in spoken)
    ]
    return _chart(sorted(rows, key=lambda row: (-row.rate, row.name)))


def _describe(name: str, counts: Sequence[ErrorCounts]) -> Row:
    rates = [c.rate for c in counts]
    rate = float(np.mean(rates))
    # The interval is of whole errors, and rounding may put the mean outside of it.
    low, high = beta_of_runs(counts) or (rate, rate)
    return Row(name, rate, min(low, rate), max(high, rate), rates if len(rates) > 1 else ())


def _chart(rows: Sequence[Row]) -> RateChart:
    seen = [x for row in rows for x in (row.low, row.high, *row.seeds)]
    said = (f"{row.name} {row.rate:.2f} % (95 % {row.low:.2f} to {row.high:.2f})" for row in rows)
    return RateChart(_scale(min(seen), max(seen)), rows, f"{'; '.join(said)}.")


def _scale(low: float, high: float) -> Axis:
    """A few round numbers that hold all values between them."""
    # Four steps make five ticks; the least range keeps equal values from a step of 0.
    rough = max(high - low, 0.1) / (MOST_TICKS - 1)
    power = 10.0 ** math.floor(math.log10(rough))
    # Steps are 1, 2 or 5 times a power of ten.
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= rough)
    first, last = math.floor(low / step), math.ceil(high / step)
    return Axis([round(step * i, 10) for i in range(first, max(last, first + 1) + 1)])


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


def chart_curves(systems: Sequence[ReportedSystem]) -> list[CurveChart]:
    """What trainings were judged by, by epoch on training data and on dev, mean over seeds."""
    return [_chart_measure(measure, found) for measure, found in average_curves(systems).items()]


def _chart_measure(measure: Measure, found: Mapping[str, Curves]) -> CurveChart:
    longest = max(len(parts["dev"]) for parts in found.values())
    seen = np.concatenate([values for parts in found.values() for values in parts.values()])
    axis = _scale(float(seen.min()), float(seen.max()))
    curves = []
    for name, parts in found.items():
        points = {
            part: " ".join(
                # SVG counts y downwards, so a place is taken from 100.
                f"{100 * i / max(longest - 1, 1):.2f},{100 - axis.place(value):.2f}"
                for i, value in enumerate(values)
            )
            for part, values in parts.items()
        }
        curves.append(Curve(name, points, _describe_curve(name, measure, parts["dev"])))
    title = f"{measure.name.capitalize()}{' in per cent' * measure.is_share}"
    return CurveChart(title, measure.parts, longest, axis, curves)


def _describe_curve(name: str, measure: Measure, dev: np.ndarray) -> str:
    best = int(dev.argmin())
    first, last, lowest = (
        f"{value:.1f} %" if measure.is_share else f"{value:.3f}"
        for value in (dev[0], dev[-1], dev[best])
    )
    return (
        f"{name}: dev {measure.name} {first} after epoch 1, {last} after epoch {len(dev)},"
        f" lowest {lowest} after epoch {best + 1}."
    )


def average_curves(systems: Sequence[ReportedSystem]) -> dict[Measure, dict[str, Curves]]:
    """By what trainings were judged by, of each system that has a history: the mean over seeds,
    shares in per cent.
    """
    found: dict[Measure, dict[str, Curves]] = {}
    for system in systems:
        # Seeds may end early, and the mean needs a value of each.
        epochs = min(len(run.history) for run in system.runs)
        if epochs:
            measure = find_measure(system)
            found.setdefault(measure, {})[system.name] = {
                part: (100 if measure.is_share else 1)
                * np.mean(
                    [_list_values(run, f"{part}_{measure.of}")[:epochs] for run in system.runs],
                    axis=0,
                )
                for part in measure.parts
            }
    return found


def _list_values(run: Run, key: str) -> list[float]:
    """What the history of a run says by epoch."""
    try:
        return [take(entry, key, "a number") for entry in run.history]
    except InputError as error:
        raise InputError(f"{run.path / HISTORY}: {error}") from None


def chart_confusions(table: pd.DataFrame) -> Matrix:
    """Share of each row of a table of confusions in its columns; the square root is the opacity."""
    names = list(table.columns)
    counts = table.to_numpy()
    # The floor of 1 keeps an empty row from a division by 0.
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    cells = [
        (int(column), int(row), round(float(shares[row, column]) ** 0.5, 2), said)
        # Cells without a count are left out: most of a table is empty.
        for row, column in np.argwhere(counts)
        for said in [_say_pair(names[row], names[column], int(counts[row, column]))]
    ]
    said = np.array([name != NOTHING for name in names])
    return Matrix(
        names,
        cells,
        f"{said.sum()} tokens; {np.diag(counts)[said].sum()} of {counts[said].sum()} were"
        " recognised as said.",
    )


def _say_pair(ref: str, hyp: str, number: int) -> str:
    if ref == NOTHING:
        return f"{hyp} inserted: {number}"
    if hyp == NOTHING:
        return f"{ref} deleted: {number}"
    return f"{ref} recognised as {hyp}: {number}"

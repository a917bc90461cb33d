"""The curves of trainings by epoch as values: what each was judged by, and how it went.

As `charts`, both pictures are drawn from them.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import is_there
from bayes_asr.base.progress import format_seconds
from bayes_asr.config.merge import load
from bayes_asr.evaluate.report.runs import ReportedSystem, Run
from bayes_asr.evaluate.report.scales import Axis, make_logarithmic_scale, make_scale
from bayes_asr.kaldi_io.side_files import HISTORY, KINDS, take
from bayes_asr.tasks.task import FRAMES, Measure, task_of

PARTS = {"train": "training data", "dev": "dev"}
COURSE = {
    "learning_rate": "learning rate",
    "gradient_norm": "mean gradient norm",
    "seconds": "seconds",
}
"""Keys of the history that tell how a training went, and their names."""

LARGEST_RATIO = 100
"""Values of a course whose ratio is larger are drawn on a logarithmic scale."""

LONE = 3
"""The width of a curve of one epoch, in per cent."""


class Curve(NamedTuple):
    """A system by epoch, the mean over seeds [E] of each key of the history; alt: it in words.

    style: the number of its colour and dashes, which are its own in all charts.
    """

    name: str
    style: int
    values: Mapping[str, np.ndarray]
    alt: str


class Panel(NamedTuple):
    """A pair of axes for the values of one key of the history."""

    key: str
    title: str
    axis: Axis


class CurveChart(NamedTuple):
    """Panels side by side, each with those of the curves that have its key.

    label: of the vertical axes, where the titles of the panels do not say what they are of.
    """

    title: str
    label: str
    panels: Sequence[Panel]
    curves: Sequence[Curve]

    @property
    def epochs(self) -> int:
        """The epochs of the longest curve."""
        return max(len(values) for curve in self.curves for values in curve.values.values())

    def points(self, curve: Curve, panel: Panel) -> str:
        """A curve as points of SVG, in a box of 100 by 100."""
        steps = max(self.epochs - 1, 1)
        # SVG counts y downwards, so a place is taken from 100.
        places = [
            (100 * i / steps, 100 - panel.axis.place(value))
            for i, value in enumerate(curve.values[panel.key])
        ]
        # One point is no line, and would not be seen.
        places += [(LONE, y) for _, y in places if len(places) == 1]
        return " ".join(f"{x:.2f},{y:.2f}" for x, y in places)


def chart_curves(systems: Sequence[ReportedSystem]) -> list[CurveChart]:
    """The measures of trainings, a chart for each measure, of systems with a history."""
    by_measure: dict[Measure, list[Curve]] = {}
    for style, system in enumerate(_list_trained(systems)):
        measure = _find_measure(system)
        values = {
            key: (100 if measure.is_share else 1) * _average(system, key)
            for key in _name_keys(measure)
        }
        alt = _describe_measure(system.name, measure, values[measure.on_dev])
        by_measure.setdefault(measure, []).append(Curve(system.name, style, values, alt))
    return [_chart_measure(measure, curves) for measure, curves in by_measure.items()]


def chart_course(systems: Sequence[ReportedSystem]) -> CurveChart | None:
    """The quantities of `COURSE` by epoch; None where no history has any.

    A quantity that a history lacks, as those of old versions may, is not drawn of that system.
    """
    curves = []
    for style, system in enumerate(_list_trained(systems)):
        values = {key: _average(system, key) for key in COURSE if _has_numbers(system, key)}
        if values:
            alt = _describe_course(system.name, values)
            curves.append(Curve(system.name, style, values, alt))
    panels = [
        _make_course_panel(key, _join(curves, key))
        for key in COURSE
        if any(key in curve.values for curve in curves)
    ]
    return CurveChart("Course of the training", "", panels, curves) if panels else None


def _list_trained(systems: Sequence[ReportedSystem]) -> list[ReportedSystem]:
    """The systems whose runs all have a history."""
    return [system for system in systems if all(run.history for run in system.runs)]


def _name_keys(measure: Measure) -> dict[str, str]:
    """The keys of a measure in the history, and the data that each is of."""
    return {f"{part}_{measure.of}": PARTS[part] for part in measure.parts}


def _join(curves: Sequence[Curve], *keys: str) -> np.ndarray:
    """All values of some keys."""
    return np.concatenate([c.values[key] for c in curves for key in keys if key in c.values])


def _chart_measure(measure: Measure, curves: Sequence[Curve]) -> CurveChart:
    keys = _name_keys(measure)
    values = _join(curves, *keys)
    axis = make_scale(float(values.min()), float(values.max()))
    return CurveChart(
        f"{measure.name.capitalize()}{' in per cent' * measure.is_share}",
        f"{measure.name}{' / %' * measure.is_share}",
        [Panel(key, title, axis) for key, title in keys.items()],
        curves,
    )


def _make_course_panel(key: str, values: np.ndarray) -> Panel:
    """Axes from 0, or logarithmic ones where values are far apart, as rates that are halved."""
    low, high = float(values.min()), float(values.max())
    if low > 0 and high > LARGEST_RATIO * low:
        return Panel(key, f"{COURSE[key]}, logarithmic", make_logarithmic_scale(low, high))
    low = min(low, 0.0)
    return Panel(key, COURSE[key], make_scale(low, high, least=high - low or 1.0))


def _has_numbers(system: ReportedSystem, key: str) -> bool:
    """Whether each line of its histories has a number there."""
    is_number = KINDS["a number"]
    return all(is_number(entry.get(key)) for run in system.runs for entry in run.history)


def _average(system: ReportedSystem, key: str) -> np.ndarray:
    """The mean over seeds [E] of a value of the history."""
    # Seeds may end early, and the mean needs a value of each.
    epochs = min(len(run.history) for run in system.runs)
    values = [_list_values(run, key)[:epochs] for run in system.runs]
    return np.asarray(np.mean(values, axis=0))


def _list_values(run: Run, key: str) -> list[float]:
    """A value of a run by epoch, out of its history."""
    try:
        return [take(entry, key, "a number") for entry in run.history]
    except InputError as error:
        raise InputError(f"{run.path / HISTORY}: {error}") from None


def _describe_measure(name: str, measure: Measure, dev: np.ndarray) -> str:
    best = int(dev.argmin())
    begin, end, lowest = (
        f"{value:.1f} %" if measure.is_share else f"{value:.3f}"
        for value in (dev[0], dev[-1], dev[best])
    )
    return (
        f"{name}: dev {measure.name} {begin} after epoch 1, {end} after epoch {len(dev)},"
        f" lowest {lowest} after epoch {best + 1}."
    )


def _describe_course(name: str, values: Mapping[str, np.ndarray]) -> str:
    quantities = (
        f"{COURSE[key]} {_format(by_epoch[0])} to {_format(by_epoch[-1])}"
        for key, by_epoch in values.items()
    )
    epochs = len(next(iter(values.values())))
    total = f"; {format_seconds(values['seconds'].sum())} in all" if "seconds" in values else ""
    return f"{name}: {', '.join(quantities)} from epoch 1 to {epochs}{total}."


def _format(value: float) -> str:
    """Three digits, without an exponent where the number is large."""
    return f"{float(f'{value:.3g}'):g}"


def _find_measure(system: ReportedSystem) -> Measure:
    """The measure of the trainings of a system: of frames, where no configuration is there."""
    file = system.runs[0].path / "config.yaml"
    try:
        return task_of(load([file])).measure if is_there(file) else FRAMES
    except InputError:  # which the table of configurations says
        return FRAMES

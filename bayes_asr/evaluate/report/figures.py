"""Figures of a report: bars with intervals, learning curves, confusions."""

from collections.abc import Sequence

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure

from bayes_asr.base.errors import printable
from bayes_asr.evaluate.report.charts import average_curves
from bayes_asr.evaluate.report.details import NOTHING, Key
from bayes_asr.evaluate.report.runs import ReportedSystem

BLUE = "#4477aa"
LEAST_WIDTH = 3  # bars that a figure has room for, so that a single one is no block
mpl.rcParams["svg.hashsalt"] = "bayes_asr"  # the same figure is the same file
mpl.rcParams["text.parse_math"] = False  # names and words may hold a dollar


def draw_bars(systems: Sequence[ReportedSystem], key: Key) -> Figure:
    """A bar for each system, its mean over seeds, with the 95 % beta interval; dots are seeds.

    The layout of the papers' figures. Long names turn, and the figure widens with their number.
    """
    scored = [system for system in systems if key in system.keys]
    metric = scored[0].runs[0].scores[key].metric.upper()
    names = [system.name for system in scored]
    means = np.array([system.rates(key).mean() for system in scored])
    figure = Figure(figsize=(max(4.5, 1.0 + 0.75 * len(scored)), 4.2), layout="constrained")
    axes = figure.add_subplot()
    axes.bar(range(len(scored)), means, width=0.6, color=BLUE)
    tops = [_draw_interval(axes, x, system, key) for x, system in enumerate(scored)]
    for x, (mean, top) in enumerate(zip(means, tops, strict=True)):
        axes.annotate(
            f"{mean:.1f}", (x, top), (0, 5), textcoords="offset points", ha="center", fontsize=9
        )
    turned = max(map(len, names)) > 8
    axes.set_xticks(
        range(len(scored)),
        names,
        rotation=40 if turned else 0,
        ha="right" if turned else "center",
        rotation_mode="anchor",
    )
    # Bars stand at 0, 1, ...; the limits leave half a bar on either side.
    middle, half = (len(scored) - 1) / 2, max(len(scored), LEAST_WIDTH) / 2
    axes.set_xlim(middle - half, middle + half)
    # The room above is for the numbers over the bars.
    axes.set_ylim(0, 1.12 * max(tops) or 1)
    axes.set_ylabel(printable(f"{key[0]} {metric} ({key[1]}) / %"))
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def _draw_interval(axes: Axes, x: int, system: ReportedSystem, key: Key) -> float:
    """Draw the interval and the seeds of one bar; return the highest point."""
    rates, interval = system.rates(key), system.interval(key)
    mean = float(rates.mean())
    top = mean
    if interval:
        # matplotlib wants distances from the mean, and none below 0.
        spread = [[max(0, mean - interval.low)], [max(0, interval.high - mean)]]
        axes.errorbar(x, mean, spread, color="black", capsize=4, linewidth=1)
        top = max(top, interval.high)
    if len(rates) > 1:
        # Seeds are spread in width, or equal rates would hide each other.
        at = x + np.linspace(-0.15, 0.15, len(rates))
        axes.scatter(at, rates, s=12, color="white", edgecolor="black", linewidth=0.7, zorder=3)
        top = max(top, float(rates.max()))
    return top


def draw_learning_curves(systems: Sequence[ReportedSystem]) -> Figure | None:
    """What trainings were judged by, by epoch on training data and on dev, mean over seeds; a row
    of panels for each measure, less those that it lacks. None without a history.
    """
    measured = average_curves(systems)
    if not measured:
        return None
    height = sum(3.6 + 0.12 * len(found) for found in measured.values())
    columns = [part for part in ("train", "dev") if any(part in one.parts for one in measured)]
    figure = Figure(figsize=(1 + 4 * len(columns), height), layout="constrained")
    rows = figure.subplots(len(measured), len(columns), sharey="row", squeeze=False)
    numbers = iter(range(len(systems)))
    for panels, (measure, found) in zip(rows, measured.items(), strict=True):
        drawn = dict(zip(columns, panels, strict=True))
        for lacking in drawn.keys() - set(measure.parts):
            drawn.pop(lacking).remove()
        for name, parts in found.items():
            i = next(numbers)
            # Ten colours and three line styles tell thirty systems apart.
            style = {"color": f"C{i % 10}", "linestyle": ("-", "--", ":")[i // 10 % 3]}
            for part, axes in drawn.items():
                label = name if part == "dev" else None
                axes.plot(
                    range(1, len(parts[part]) + 1), parts[part], label=label, linewidth=1.4, **style
                )
        for part, axes in drawn.items():
            axes.set_title("training data" if part == "train" else part, fontsize=10)
            axes.set_xlabel("epoch")
            axes.xaxis.get_major_locator().set_params(integer=True)
            axes.grid(alpha=0.3)
        first = next(iter(drawn.values()))
        first.set_ylabel(f"{measure.name}{' / %' * measure.is_share}")
        first.tick_params(labelleft=True)
    figure.legend(loc="outside right upper", fontsize=8, frameon=False)
    return figure


def draw_confusions(table: pd.DataFrame, title: str) -> Figure:
    """Share of each reference token (row) that was recognised as each token (column).

    Where there are any, the last column is deletions; the last row, insertions, as shares of all.
    """
    counts = table.to_numpy(dtype=float)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    side = 2.2 + 0.19 * len(table)
    figure = Figure(figsize=(side + 0.8, side), layout="constrained")
    axes = figure.add_subplot()
    # The square root of the norm keeps rare confusions visible.
    image = axes.imshow(100 * shares, cmap="Blues", norm=PowerNorm(0.5, vmin=0, vmax=100))
    figure.colorbar(image, ax=axes, shrink=0.7, label="share of the row / %")
    names = [printable(name) for name in table.columns]
    axes.set_xticks(range(len(table)), names, rotation=90, fontsize=7)
    axes.set_yticks(range(len(table)), names, fontsize=7)
    ends = names[-1:] == [NOTHING]
    axes.set_xlabel("recognised" + " (last: deleted)" * ends)
    axes.set_ylabel("said" + " (last: inserted)" * ends)
    axes.set_title(printable(title), fontsize=10)
    return figure

"""Pictures by matplotlib: the charts of a report for papers, and weights and gradients of networks.

Every function returns a figure, which the caller saves; the same figure is the same file.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from bayes_asr.base.errors import printable
from bayes_asr.base.files import replacing
from bayes_asr.evaluate.report.charts import ConfusionChart, RateChart, Row
from bayes_asr.evaluate.report.curves import CurveChart, Panel

BLUE = "#4477aa"
LEAST_WIDTH = 3  # bars that a figure has room for, so that a single one is no block
FRAMES_PER_SECOND = 100
mpl.rcParams["svg.hashsalt"] = "bayes_asr"  # ids in an SVG depend on its content alone
mpl.rcParams["text.parse_math"] = False  # names and words may hold a dollar


def draw_bars(chart: RateChart) -> Figure:
    """A bar for each rate, its mean over seeds, with the 95 % beta interval; dots are seeds.

    The layout of the papers' figures. Long names turn, and the figure widens with their number.
    """
    number = len(chart.rows)
    figure = Figure(figsize=(max(4.5, 1.0 + 0.75 * number), 4.2), layout="constrained")
    axes = figure.add_subplot()
    axes.bar(range(number), [row.rate for row in chart.rows], width=0.6, color=BLUE)
    tops = [_draw_interval(axes, x, row) for x, row in enumerate(chart.rows)]
    for x, (row, top) in enumerate(zip(chart.rows, tops, strict=True)):
        axes.annotate(
            f"{row.rate:.1f}", (x, top), (0, 5), textcoords="offset points", ha="center", fontsize=9
        )
    names = [row.name for row in chart.rows]
    turned = max(map(len, names)) > 8
    axes.set_xticks(
        range(number),
        names,
        rotation=40 if turned else 0,
        ha="right" if turned else "center",
        rotation_mode="anchor",
    )
    # Bars stand at 0, 1, ...; the limits leave half a bar on either side.
    middle, half = (number - 1) / 2, max(number, LEAST_WIDTH) / 2
    axes.set_xlim(middle - half, middle + half)
    # The room above is for the numbers over the bars.
    axes.set_ylim(0, 1.12 * max(tops) or 1)
    axes.set_ylabel(printable(f"{chart.label} / %"))
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def _draw_interval(axes: Axes, x: int, row: Row) -> float:
    """Draw the interval and the seeds of one bar; return the highest point."""
    if row.low < row.high:
        # matplotlib wants distances from the mean.
        distances = [[row.rate - row.low], [row.high - row.rate]]
        axes.errorbar(x, row.rate, distances, color="black", capsize=4, linewidth=1)
    if row.seeds:
        # Seeds are spread in width, or equal rates would hide each other.
        at = x + np.linspace(-0.15, 0.15, len(row.seeds))
        axes.scatter(at, row.seeds, s=12, color="white", edgecolor="black", linewidth=0.7, zorder=3)
    return max(row.high, *row.seeds, row.rate)


def draw_curves(charts: Sequence[CurveChart]) -> Figure:
    """A row of panels for each chart, less those that it lacks; the legend names all systems."""
    height = sum(3.6 + 0.12 * len(chart.curves) for chart in charts)
    fullest = max((chart.panels for chart in charts), key=len)
    columns = [panel.title for panel in fullest]
    figure = Figure(figsize=(1 + 4 * len(columns), height), layout="constrained")
    rows = figure.subplots(len(charts), len(columns), squeeze=False)
    lines: dict[str, Line2D] = {}
    for row, chart in zip(rows, charts, strict=True):
        panels = dict(zip(columns, row, strict=True))
        for lacking in panels.keys() - {panel.title for panel in chart.panels}:
            panels.pop(lacking).remove()
        for panel in chart.panels:
            lines |= _draw_panel(panels[panel.title], chart, panel)
        panels[chart.panels[0].title].set_ylabel(chart.label)
    figure.legend(
        lines.values(), lines.keys(), loc="outside right upper", fontsize=8, frameon=False
    )
    return figure


def _draw_panel(axes: Axes, chart: CurveChart, panel: Panel) -> dict[str, Line2D]:
    """Draw the curves of one panel; returns the lines by system."""
    lines = {}
    for curve in chart.curves:
        if panel.key in curve.values:
            values = curve.values[panel.key]
            # Ten colours and three line styles tell thirty systems apart.
            (lines[curve.name],) = axes.plot(
                range(1, len(values) + 1),
                values,
                linewidth=1.4,
                marker="o" if len(values) == 1 else "",
                color=f"C{curve.style % 10}",
                linestyle=("-", "--", ":")[curve.style // 10 % 3],
            )
    axes.set_yscale("log" if panel.axis.is_logarithmic else "linear")
    axes.set_yticks(panel.axis.ticks, [f"{tick:g}" for tick in panel.axis.ticks])
    axes.set_ylim(panel.axis.ticks[0], panel.axis.ticks[-1])
    axes.set_title(panel.title, fontsize=10)
    axes.set_xlabel("epoch")
    axes.locator_params(axis="x", integer=True)
    axes.grid(alpha=0.3)
    return lines


def draw_confusions(chart: ConfusionChart, title: str) -> Figure:
    """Share of each reference token (row) that was recognised as each token (column).

    Where there are any, the last column is deletions; the last row, insertions, as shares of all.
    """
    number = len(chart.names)
    side = 2.2 + 0.19 * number
    figure = Figure(figsize=(side + 0.8, side), layout="constrained")
    axes = figure.add_subplot()
    # The square root of the norm keeps rare confusions visible.
    image = axes.imshow(100 * chart.shares, cmap="Blues", norm=PowerNorm(0.5, vmin=0, vmax=100))
    figure.colorbar(image, ax=axes, shrink=0.7, label="share of the row / %")
    names = [printable(name) for name in chart.names]
    axes.set_xticks(range(number), names, rotation=90, fontsize=7)
    axes.set_yticks(range(number), names, fontsize=7)
    axes.set_xlabel("recognised" + " (last: deleted)" * chart.has_gaps)
    axes.set_ylabel("said" + " (last: inserted)" * chart.has_gaps)
    axes.set_title(printable(title), fontsize=10)
    return figure


def draw_attention(utt: str, features_TF: np.ndarray, weights_T: np.ndarray) -> Figure:
    """The weights of frames, in multiples of equal ones, above the features as a picture.

    Features of filter banks are a spectrogram. Frames are taken for 10 ms.
    """
    figure = Figure(figsize=(9, 4), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(1, 2))
    T = len(weights_T)
    # Both panels share the axis of time, in seconds.
    time = np.arange(T) / FRAMES_PER_SECOND
    # Weights sum to 1, so T times a weight is 1 where attention is even.
    above.fill_between(time, T * weights_T, step="post", color=BLUE)
    above.axhline(1, color="black", linewidth=0.7, linestyle=":")
    above.set_ylabel("weight / mean")
    above.set_ylim(bottom=0)
    above.set_title(printable(utt), fontsize=10)
    _draw_features(below, features_TF)
    return figure


def draw_alignment(
    utt: str, features_TF: np.ndarray, labels: Sequence[str], weights_LM: np.ndarray
) -> Figure:
    """The weights of the frames for each label and, last, for the end, above the features.

    weights_LM: of the M frames that a decoder looks at, which are T or fewer.
    """
    figure = Figure(figsize=(9, 2.5 + 0.16 * len(weights_LM)), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(0.16 * len(weights_LM), 2.0))
    L, M = weights_LM.shape
    # Division rounded up: the last frame of the decoder may stand for fewer.
    stride = -(-len(features_TF) // M)
    above.imshow(
        weights_LM,
        aspect="auto",
        cmap="Blues",
        vmin=0,
        interpolation="nearest",
        # The figure is placed in seconds, so both panels share the axis of time.
        extent=(0, M * stride / FRAMES_PER_SECOND, L, 0),
    )
    above.set_yticks(np.arange(L) + 0.5, [*map(printable, labels), "end"], fontsize=8)
    above.set_title(printable(utt), fontsize=10)
    _draw_features(below, features_TF)
    return figure


def save_attention(figure: Figure, utt: str, out: Path) -> None:
    """Write `out`/attention_UTTERANCE.svg; a slash in the name of an utterance leads nowhere."""
    name = utt.replace("%", "%25").replace("/", "%2F")
    with replacing(out / f"attention_{name}.svg") as temporary:
        figure.savefig(temporary, format="svg")


def _draw_features(axes: Axes, features_TF: np.ndarray) -> None:
    T, F = features_TF.shape
    axes.imshow(
        features_TF.T,
        origin="lower",
        aspect="auto",
        cmap="magma",
        extent=(0, T / FRAMES_PER_SECOND, 0, F),
    )
    axes.set_xlabel("time / s")
    axes.set_ylabel("feature")


def draw_gradients(log_norms: Mapping[str, Sequence[float]]) -> Figure:
    """Norms [lags] of gradients, as shares of that at lag 0, by what a line is called.

    Right, the derivative of the sigmoid, whose product over many frames vanishes: at most 1/4.
    """
    figure = Figure(figsize=(9, 4), layout="constrained")
    norms, derivative = figure.subplots(1, 2, width_ratios=(3, 1))
    for i, (name, logs) in enumerate(log_norms.items()):
        style = ("-", "--", ":")[i // 10 % 3]  # there are ten colours
        # Differences of logarithms are ratios to the norm at the loss.
        norms.semilogy(np.exp(np.subtract(logs, logs[0])), style, label=printable(name))
    norms.axhline(1, color="grey", linewidth=0.5)
    norms.set_xlabel("frames between the state and the loss")
    norms.set_ylabel("norm of the gradient, relative")
    norms.legend(fontsize=8)
    a = np.linspace(-6, 6, 121)
    sigmoid = 1 / (1 + np.exp(-a))
    derivative.plot(a, sigmoid, color="grey", label="sigmoid")
    derivative.plot(a, sigmoid * (1 - sigmoid), label="its derivative")
    # The derivative of a sigmoid is at most 1/4, at 0.
    derivative.axhline(0.25, color="grey", linewidth=0.5)
    derivative.set_xlabel("pre-activation")
    derivative.legend(fontsize=8)
    for axes in (norms, derivative):
        axes.spines[["top", "right"]].set_visible(False)
    return figure

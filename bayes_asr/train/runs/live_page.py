"""A page of what runs are doing, with curves by epoch, that a browser loads anew by itself."""

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from bayes_asr.base.errors import InputError, printable
from bayes_asr.base.files import replacing
from bayes_asr.kaldi_io.side_files import read_history
from bayes_asr.train.runs.status import RunStatus

COLOURS = {"train": "#8a5a00", "dev": "#2563a8"}
MEASURES = ("error", "loss")
WIDTH, HEIGHT = 640, 200  # of a chart, in units of SVG
STYLE = """:root { color-scheme: light dark }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 50rem; margin: 1rem auto; padding: 0 1rem }
svg { width: 100%; border: 1px solid #8888 } polyline { fill: none; stroke-width: 2 }
h2 { overflow-wrap: anywhere }"""


def write_page(runs: Sequence[RunStatus], path: Path, seconds: float) -> None:
    """Write the page, which a browser loads again after so many seconds while one of them runs."""
    is_running = any(run.state == "running" for run in runs)
    reload = f'<meta http-equiv="refresh" content="{seconds:g}">' if is_running else ""
    sections = "\n".join(map(_describe_run, runs))
    with replacing(path) as temporary:
        temporary.write_text(
            f'<!doctype html><html lang="en"><meta charset="utf-8">{reload}<title>Runs</title>'
            f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style>\n'
            f"{sections}\n</html>\n",
            encoding="utf-8",
        )


def _describe_run(run: RunStatus) -> str:
    best = "" if run.best is None else f", best {run.judged_by} on dev {run.best:.4f}"
    why = f": {run.why}" if run.why else ""
    epochs = f", epoch {run.epoch} of {run.epochs or '?'}" if run.has_epochs else ""
    line = f"{run.state}{why}{epochs}{best}"
    return (
        f"<h2>{escape(printable(run.run))}</h2><p>{escape(printable(line))}</p>\n"
        f"{_draw_curves(Path(run.run), run.epochs or run.epoch)}"
    )


def _draw_curves(run: Path, epochs: int) -> str:
    """A chart of the errors, unless none are counted, and one of the losses."""
    try:
        keys = [f"{part}_{measure}" for measure in MEASURES for part in COLOURS]
        history = read_history(run, ("epoch", *keys))
    except InputError:
        return ""  # the status of the run says why
    return "\n".join(_draw_measure(history, measure, epochs) for measure in MEASURES)


def _draw_measure(history: Sequence[Mapping[str, Any]], measure: str, epochs: int) -> str:
    """A measure by epoch as SVG, 0 and all values in it; empty where there are none but 0."""
    points = {
        part: curve
        for part in COLOURS
        if (
            curve := [
                (entry["epoch"], value)
                for entry in history
                if (value := entry[f"{part}_{measure}"]) is not None
            ]
        )
    }
    values = [value for curve in points.values() for _, value in curve]
    low, high = min(values, default=0.0), max(values, default=0.0)
    low, high = min(low, 0.0), max(high, 0.0)
    if low == high:
        return ""
    lines, names = [], []
    for part, curve in points.items():
        # The first epoch is at the left edge, the last one that is planned at the right.
        places = " ".join(
            f"{WIDTH * (epoch - 1) / max(1, epochs - 1):.1f},"
            f"{HEIGHT * (high - value) / (high - low):.1f}"
            for epoch, value in curve
        )
        lines.append(f'<polyline stroke="{COLOURS[part]}" points="{places}"/>')
        label = f"{part} {measure} {curve[-1][1]:.4f}"
        names.append(f'<span style="color: {COLOURS[part]}">{label}</span>')
    bottom = f", the bottom {low:.4f}" if low else ""
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{measure} by epoch">'
        f"{''.join(lines)}</svg>\n<p>{' '.join(names)}; the top is {high:.4f}{bottom}</p>"
    )

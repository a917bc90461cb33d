"""A page of what runs are doing, with curves by epoch, that a browser loads anew by itself."""

from collections.abc import Sequence
from html import escape
from pathlib import Path

from bayes_asr.base.errors import InputError, printable
from bayes_asr.base.files import replacing
from bayes_asr.kaldi_io.side_files import read_history
from bayes_asr.train.runs.status import RunStatus

CURVES = {"train_error": "#8a5a00", "dev_error": "#2563a8"}
WIDTH, HEIGHT = 640, 200  # of a chart, in units of SVG
STYLE = """:root { color-scheme: light dark }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 50rem; margin: 1rem auto; padding: 0 1rem }
svg { width: 100%; border: 1px solid #8888 } polyline { fill: none; stroke-width: 2 }"""


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
    line = f"{run.state}{why}, epoch {run.epoch} of {run.epochs or '?'}{best}"
    return (
        f"<h2>{escape(printable(run.run))}</h2><p>{escape(printable(line))}</p>\n"
        f"{_draw_curves(Path(run.run), run.epochs or run.epoch)}"
    )


def _draw_curves(run: Path, epochs: int) -> str:
    """Shares of errors by epoch as SVG, from 0 to the largest; empty where there are none."""
    try:
        history = read_history(run, ("epoch", *CURVES))
    except InputError:
        return ""  # the status of the run says why
    points = {
        name: curve
        for name in CURVES
        if (
            curve := [(entry["epoch"], entry[name]) for entry in history if entry[name] is not None]
        )
    }
    largest = max((share for curve in points.values() for _, share in curve), default=0)
    if not largest:
        return ""
    lines, names = [], []
    for name, curve in points.items():
        # The first epoch is at the left edge, the last one that is planned at the right.
        places = " ".join(
            f"{WIDTH * (epoch - 1) / max(1, epochs - 1):.1f},{HEIGHT * (1 - share / largest):.1f}"
            for epoch, share in curve
        )
        lines.append(f'<polyline stroke="{CURVES[name]}" points="{places}"/>')
        label = f"{name.replace('_', ' ')} {curve[-1][1]:.4f}"
        names.append(f'<span style="color: {CURVES[name]}">{label}</span>')
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="errors by epoch">'
        f"{''.join(lines)}</svg>\n<p>{' '.join(names)}; the top is {largest:.4f}</p>"
    )

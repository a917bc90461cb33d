"""All of a report on disk: one self-contained page, and its tables and figures as files."""

import base64
import re
from collections.abc import Iterator, Sequence
from html import escape
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from bayes_asr.files import replacing
from bayes_asr.report.details import (
    Key,
    count_confusions,
    iter_edits,
    list_errors,
    rank_errors,
    tabulate_speakers,
)
from bayes_asr.report.differences import compare_with_best, find_best_on_dev
from bayes_asr.report.runs import System
from bayes_asr.report.table import as_html, as_latex, as_markdown, tabulate_results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LARGEST_MATRIX = 80
"""More tokens than these have no confusion matrix: their names could not be read."""

LISTED = 100
"""Utterances on the page, those with the most errors; the text file has all."""

NOTES = (
    "LM weights are picked on dev. ± is the standard deviation over seeds; [low, high] is the 95 % "
    "beta interval of one run. A phone error rate is strict, or forgives missing silences; compare "
    "only rates of one convention."
)
STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 75em; padding: 0 1em }
table { border-collapse: collapse; margin: 1em 0 } td, th { padding: .2em .8em; text-align: left }
thead { border-bottom: 1px solid #888 } tbody tr:nth-child(even) { background: #f4f4f4 }
img { max-width: 100% } pre { overflow-x: auto; background: #f4f4f4; padding: 1em }
.wide { overflow-x: auto }
"""


def write_report(systems: Sequence[System], out: Path) -> bool:
    """Write report.html, tables and figures below `out`; returns whether there are figures.

    Figures need matplotlib (the extra `report`); everything else is written without it.
    """
    drawn = find_spec("matplotlib") is not None
    table = tabulate_results(systems)
    _write(out / "table.md", as_markdown(table))
    _write(out / "table.tex", as_latex(table))
    sections = [f"<p>{escape(NOTES)}</p>", _wrap_wide(table)]
    if drawn:
        sections += _write_curves(systems, out)
    keys = _list_keys(systems)
    for key in keys:
        sections += _write_section(systems, key, out, drawn)
    sections.append("<h2>Errors</h2>")
    for system in systems:
        if keys[0] in system.keys:
            sections += _write_errors(system, keys[0], out, drawn)
    body = "\n".join(sections)
    _write(
        out / "report.html",
        f'<!DOCTYPE html>\n<html lang="en">\n<head><meta charset="utf-8"><title>Error rates</title>'
        f"<style>{STYLE}</style></head>\n<body>\n<h1>Error rates</h1>\n{body}\n</body>\n</html>\n",
    )
    return drawn


def _list_keys(systems: Sequence[System]) -> list[Key]:
    """What the sections are about: every convention of the test set, or of dev without one."""
    keys = list(dict.fromkeys(key for system in systems for key in system.keys))
    return [key for key in keys if key[0] == "test"] or keys


def _write_section(systems: Sequence[System], key: Key, out: Path, drawn: bool) -> Iterator[str]:
    """One set and convention: bars, differences, speakers."""
    scored = [system for system in systems if key in system.keys]
    name = "_".join(key)
    yield f"<h2>{escape(key[0])}, {escape(key[1])}</h2>"
    if drawn:
        from bayes_asr.report.figures import draw_bars

        yield _embed_figure(draw_bars(scored, key), out / "figures" / f"bars_{name}")
    if len(scored) > 1:
        compared = compare_with_best(scored, key)
        _write(out / f"differences_{name}.md", as_markdown(compared))
        best = find_best_on_dev(scored, key[1]).name
        yield f"<h3>Against {escape(best)}, the best on dev</h3>\n{_wrap_wide(compared)}"
    speakers = tabulate_speakers(scored, key)
    _write(out / f"speakers_{name}.md", as_markdown(speakers))
    yield f"<h3>Error rates by speaker / %</h3>\n{_wrap_wide(speakers)}"


def _write_errors(system: System, key: Key, out: Path, drawn: bool) -> Iterator[str]:
    """Confusions over all seeds of a system, and the listing of its first seed."""
    edits = list(iter_edits(run.scores[key] for run in system.runs))
    file = re.sub(r"[^\w.-]+", "_", "_".join([system.name, *key]))
    utterances = list(list_errors(system.runs[0].scores[key]))
    _write(out / "errors" / f"{file}.txt", "\n".join(utterances))
    yield f"<details><summary>Errors of {escape(system.name)}</summary>"
    yield as_html(rank_errors(edits))
    matrix = count_confusions(edits)
    if drawn and len(matrix) <= LARGEST_MATRIX:
        from bayes_asr.report.figures import draw_confusions

        title = f"{system.name}, {key[0]}, {key[1]}"
        figure = draw_confusions(matrix, title)
        yield _embed_figure(figure, out / "figures" / f"confusions_{file}", "png")
    yield f"<p>The worst {LISTED} utterances of {escape(str(system.runs[0].path))}:</p>"
    lines = "\n".join(utterances[:LISTED])
    yield f"<pre>{escape(lines)}</pre></details>"


def _write_curves(systems: Sequence[System], out: Path) -> Iterator[str]:
    from bayes_asr.report.figures import draw_learning_curves

    figure = draw_learning_curves(systems)
    if figure:
        yield "<h2>Training</h2>"
        yield _embed_figure(figure, out / "figures" / "learning_curves")


def _embed_figure(figure: "Figure", path: Path, embedded: str = "svg") -> str:
    """Save a figure as PNG and SVG, and embed one of them."""
    files = {}
    for kind, options in {"png": {"dpi": 150}, "svg": {"metadata": {"Date": None}}}.items():
        files[kind] = path.with_name(f"{path.name}.{kind}")
        with replacing(files[kind]) as temporary:
            figure.savefig(temporary, **options)  # type: ignore[arg-type]
    kind = {"svg": "image/svg+xml", "png": "image/png"}[embedded]
    data = base64.b64encode(files[embedded].read_bytes()).decode()
    return f'<p><img alt="{escape(path.name)}" src="data:{kind};base64,{data}"></p>'


def _wrap_wide(table: pd.DataFrame) -> str:
    return f'<div class="wide">{as_html(table)}</div>'


def _write(path: Path, text: str) -> None:
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")

"""The table of error rates, as text, Markdown and LaTeX."""

import re
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import pandas as pd

from bayes_asr.base.errors import printable
from bayes_asr.evaluate.report.runs import ReportedSystem

NONE = "–"


def tabulate_results(systems: Sequence[ReportedSystem]) -> pd.DataFrame:
    """One row for each system and convention: mean, spread over seeds, and 95 % beta interval.

    With several seeds a rate is `mean ± standard deviation`, and the LM weights are all those
    that dev picked. Where any features come from the built-in front end, a column says so, and
    whether our mixtures adapted them to the speakers by fMLLR. Classes of utterances have no
    LM weight, and no column of it where there is nothing else. Cells are text.
    """
    rows = [
        _tabulate_row(system, convention)
        for convention in dict.fromkeys(c for s in systems for _, c in s.keys)
        for system in systems
        if any(c == convention for _, c in system.keys)
    ]
    table = pd.DataFrame(rows)
    unused = [name for name in ("features", "LM weight") if (table[name] == NONE).all()]
    return table.drop(columns=unused)


def _tabulate_row(system: ReportedSystem, convention: str) -> dict[str, str]:
    # The metric is that of the convention, the same on each set.
    score = next(s for (_, c), s in system.runs[0].scores.items() if c == convention)
    row = {
        "system": system.name,
        "features": _format_features(system.runs[0].front_ends),
        "parameters": _format_millions(system.runs[0].parameters),
        "seeds": str(len(system.runs)),
        "rate": f"{score.metric.upper()} {convention}",
        "LM weight": _format_weights(system, convention),
    }
    for name in ("dev", "test"):
        scored = (name, convention) in system.keys
        row[f"{name} %"] = _format_rate(system, (name, convention)) if scored else NONE
        row[f"{name} 95 %"] = _format_interval(system, (name, convention)) if scored else NONE
    return row


def _format_millions(parameters: int | None) -> str:
    return NONE if parameters is None else f"{parameters / 1e6:.3g} M"


def _format_features(front_ends: Mapping[str, Mapping[str, Any] | None]) -> str:
    """The built-in front ends and what adapts them, and the names of streams of which nothing here
    made the features.
    """
    analyses = {name: x for name, x in front_ends.items() if x and x.get("kind")}
    if not analyses:
        return NONE
    adapted = {name for name, analysis in analyses.items() if analysis.get("adapted")}
    kinds = {name: analysis["kind"].upper() for name, analysis in analyses.items()}
    names = (kinds.get(name, name) + " with fMLLR" * (name in adapted) for name in front_ends)
    return f"{' + '.join(names)}{'' if adapted else ', no fMLLR'}"


def _format_weights(system: ReportedSystem, convention: str) -> str:
    """The LM weights and penalties of the seeds; a penalty is shown where it is not 0."""
    picked = {
        (score.lm_weight, score.insertion_penalty)
        for run in system.runs
        for (_, c), score in run.scores.items()
        if c == convention and score.lm_weight is not None
    }
    return ", ".join(f"{w:g}" + (f" (wip {p:g})" if p else "") for w, p in sorted(picked)) or NONE


def _format_rate(system: ReportedSystem, key: tuple[str, str]) -> str:
    rates = system.rates(key)
    spread = f" ± {rates.std(ddof=1):.2f}" if len(rates) > 1 else ""
    return f"{rates.mean():.2f}{spread}"


def _format_interval(system: ReportedSystem, key: tuple[str, str]) -> str:
    interval = system.interval(key)
    return f"[{interval.low:.2f}, {interval.high:.2f}]" if interval else NONE


def list_rows(table: pd.DataFrame) -> list[list[str]]:
    """The names of the columns, then the rows; control characters of files are escapes."""
    rows = [list(table.columns), *table.to_numpy().tolist()]
    return [[printable(cell) for cell in row] for row in rows]


def as_text(table: pd.DataFrame) -> str:
    """Columns padded to one width each."""
    cells = list_rows(table)
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ("  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)) for row in cells)
    return "\n".join(line.rstrip() for line in lines)


def as_markdown(table: pd.DataFrame) -> str:
    """A GitHub table, in whose cells nothing is markup: no column, no HTML, no link."""
    header, *rows = [[escape_markdown(cell) for cell in row] for row in list_rows(table)]
    lines = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(row)} |\n" for row in lines)


def escape_markdown(cell: str) -> str:
    """Text in which nothing is markup: no column, no HTML, no link."""
    # Brackets are escaped only where a link could follow them.
    marked = re.sub(r"[\\|]|](?=[(\[])", lambda match: "\\" + match[0], cell)
    return re.sub(r"&(?=#?\w+;)|<(?=[a-zA-Z/!?])", lambda match: escape(match[0]), marked)


_LATEX = str.maketrans(
    {
        **{c: "\\" + c for c in "&%$#_{}"},
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "±": r"$\pm$",
        "–": "--",
    }
)


def as_latex(table: pd.DataFrame) -> str:
    """A tabular of the booktabs package."""
    header, *body = (
        " & ".join(cell.translate(_LATEX) for cell in row) + r" \\" for row in list_rows(table)
    )
    columns = "l" * len(table.columns)
    top = [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", header, r"\midrule"]
    return "\n".join([*top, *body, r"\bottomrule", r"\end{tabular}"]) + "\n"

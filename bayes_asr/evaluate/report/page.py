"""All of a report on disk: one self-contained page, and its tables and figures as files."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from bayes_asr.base.errors import printable
from bayes_asr.base.files import discard, is_there, read_text, replacing
from bayes_asr.base.log import LOGGER
from bayes_asr.evaluate.report.charts import (
    chart_confusions,
    chart_keys,
    chart_speakers,
    chart_systems,
    divide_errors,
)
from bayes_asr.evaluate.report.configurations import tabulate_configurations
from bayes_asr.evaluate.report.curves import CurveChart, chart_course, chart_curves
from bayes_asr.evaluate.report.details import (
    count_confusions,
    find_wrong,
    iter_edits,
    list_errors,
    rank_errors,
    tabulate_speakers,
)
from bayes_asr.evaluate.report.differences import compare_with_best, find_best_on_dev
from bayes_asr.evaluate.report.hypotheses import Answers
from bayes_asr.evaluate.report.rendering import name_files, render, write_file
from bayes_asr.evaluate.report.runs import Key, ReportedSystem
from bayes_asr.evaluate.report.sounds import write_sounds
from bayes_asr.evaluate.report.table import (
    NONE,
    as_latex,
    as_markdown,
    escape_markdown,
    list_rows,
    tabulate_results,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAGE = "report.html"
BESIDE = re.compile(r"<!-- beside:([\w./ -]*);([\w./ -]*);([\w./ -]*) -->")
"""The names, at the end of a page, that the files beside it are called by: of sections, of lists of
errors, and files of sound. By them another report removes these files."""

LARGEST_MATRIX = 80
"""More tokens than these have no confusion matrix: their names could not be read."""

LISTED = 100
"""Utterances on the page, those with the most errors, of all systems together; files have all."""

LEAST_LISTED = 10
"""Utterances of each system, however many systems there are."""

CHARTED_SPEAKERS = 40
"""More speakers than these have no chart, but a table."""

FEW = 6
"""More systems than these are compared in a table alone, without a sentence for each."""

HUES = (212, 25, 140, 350, 275, 180, 45, 95, 310, 235)
NOTES = "± is the standard deviation over seeds; [low, high] is the 95 % beta interval of one run."
OF_WEIGHTS = "LM weights are picked on dev. "
CONVENTIONS = (
    " Strict and plain rates count all errors. Forgiving forgives missing silences, known leaves "
    "out words that the lexicon lacks, others fold phones: compare only rates of one convention."
)
TESTS = (
    "The column 95 % is a bootstrap, as in bayes-asr compare, and each p is of the test that its "
    "heading names, two-sided. MAPSSWE judges, by Holm's correction for the number of systems. "
    "These take the networks as they are. The set would show a difference of so many points (and "
    "per cent of the best) with a probability of 80 %, after that correction."
)
OVER_SEEDS = (
    " The last columns are the standard deviations over seeds of both systems, and the interval "
    "over seeds and speech."
)
MADE_BY = (
    *("bayes_asr", "python", "torch", "numpy", "blas", "device", "threads", "kernels"),
    "resumed_with",
)
"""What the page says of each run, out of its env.json."""


def write_report(
    systems: Sequence[ReportedSystem],
    out: Path,
    command: str,
    version: str,
    answers: Mapping[Key, Answers] | None = None,
    sound: Path | None = None,
) -> bool:
    """Write report.html, tables and figures below `out`; returns whether there are figure files.

    command, version: what made the report, and of which version; answers: to hypotheses, by the
    section that they stand in; sound: a data directory, whose sound is written beside the
    utterances of the page. Figure files need matplotlib (the extra `report`); everything else
    is written without it.
    """
    _discard_former(out)
    results = tabulate_results(systems)
    write_file(out / "table.md", as_markdown(results))
    write_file(out / "table.tex", as_latex(results))
    keys, alike = list_keys(systems), group_conventions(systems)
    sections = _write_sections(systems, keys, answers or {}, out)
    errors = _list_errors(systems, keys[0], out / "errors")
    curves, course = chart_curves(systems), chart_course(systems)
    several = any(len(system.runs) > 1 for system in systems)
    has_figures = find_spec("matplotlib") is not None
    if has_figures:
        _write_figures(sections, curves, course, errors, out / "figures")
    sounds = _write_sounds(sound, errors.values(), out) if sound else {}
    page = render(
        PAGE,
        **_describe_systems(systems, [key for key in keys if key[1] in alike]),
        date=f"{datetime.now(UTC):%Y-%m-%d}",
        command=command,
        version=version,
        hues=HUES,
        few=FEW,
        several=several,
        tests=TESTS + OVER_SEEDS * several,
        alike=[conventions for conventions in alike.values() if len(conventions) > 1],
        results=list_rows(results[results["rate"].str.split(n=1).str[1].isin(alike)]),
        sections=[s for key, s in zip(keys, sections.values(), strict=True) if key[1] in alike],
        curves=curves,
        course=course,
        errors=list(errors.values()),
        sounds=sounds,
        beside=[*map(list, (sections, errors, sounds.values()))],
    )
    write_file(out / PAGE, page)
    return has_figures


def _discard_former(out: Path) -> None:
    """Discard the files beside the page of an earlier report, as far as that names them."""
    page = read_text(out / PAGE) if is_there(out / PAGE) else ""
    for names in BESIDE.findall(page)[-1:]:
        for file in _name_files_beside(*(part.split() for part in names)):
            if ".." not in Path(file).parts:
                discard(out / file)


def _name_files_beside(
    sections: Collection[str], errors: Collection[str], sounds: Iterable[str]
) -> list[str]:
    """The names of all files beside a page that differ between reports, below its folder."""
    figures = [*(f"bars_{name}" for name in sections), "learning_curves", "training"]
    figures += [f"confusions_{name}" for name in errors]
    kinds = ("hypotheses", "speakers", "differences")
    return [
        *(f"{kind}_{name}.md" for kind in kinds for name in sections),
        *(f"errors/{name}.txt" for name in errors),
        *(f"figures/{name}.{kind}" for name in figures for kind in ("png", "svg")),
        *sounds,
    ]


def _describe_systems(systems: Sequence[ReportedSystem], keys: Sequence[Key]) -> dict[str, Any]:
    """Values of the page on the systems as a whole."""
    configurations = tabulate_configurations(systems)
    return {
        "title": ", ".join(system.name for system in systems[:4]) + " …" * (len(systems) > 4),
        "notes": explain(systems),
        "cards": [_make_card(systems, key) for key in keys],
        "single": chart_keys(systems[0]) if len(systems) == 1 else None,
        "configurations": len(systems) > 1
        and {"rows": list_rows(configurations.table), "missing": configurations.missing},
        "runs": list_rows(_tabulate_runs(systems)),
    }


def explain(systems: Sequence[ReportedSystem]) -> str:
    """Notes on the table of results; conventions are told apart where there are several."""
    several = len({convention for system in systems for _, convention in system.keys}) > 1
    scores = [score for system in systems for score in system.runs[0].scores.values()]
    weighted = any(score.lm_weight is not None for score in scores)
    unknown = {
        f" {score.unknown_share:.2f} % of the words of {printable(score.set or '')} are unknown.": 0
        for score in scores
        if score.unknown
    }
    return OF_WEIGHTS * weighted + NOTES + CONVENTIONS * several + "".join(unknown)


def list_keys(systems: Sequence[ReportedSystem]) -> list[Key]:
    """The subjects of the sections: every convention of the test set, or of dev without one."""
    keys = list(dict.fromkeys(key for system in systems for key in system.keys))
    # dev chooses the weights, so its rates are shown only where there is nothing else.
    return [key for key in keys if key[0] == "test"] or keys


def group_conventions(systems: Sequence[ReportedSystem]) -> dict[str, list[str]]:
    """The conventions by the first of those that count every utterance of all runs alike."""

    def count(convention: str) -> list[Any]:
        scores = (item for system in systems for run in system.runs for item in run.scores.items())
        return [
            (key[0], score.metric, [utterance.counts for utterance in score.utterances])
            for key, score in scores
            if key[1] == convention
        ]

    groups: dict[str, list[str]] = {}
    for convention in dict.fromkeys(c for system in systems for _, c in system.keys):
        twin = next((name for name in groups if count(name) == count(convention)), convention)
        groups.setdefault(twin, []).append(convention)
    return groups


def _make_card(systems: Sequence[ReportedSystem], key: Key) -> dict[str, Any]:
    """The rate to see first: that of the system that is best on dev."""
    scored = [system for system in systems if key in system.keys]
    best = find_best_on_dev(scored, key[1])
    metric = best.runs[0].scores[key].metric.upper()
    return {
        "rate_of": f"{key[0]} {metric}, {key[1]}",
        "rate": best.rates(key).mean(),
        "interval": best.interval(key),
        "system": best.name,
        "best": len(scored) > 1,
    }


def _write_sections(
    systems: Sequence[ReportedSystem],
    keys: Sequence[Key],
    answers: Mapping[Key, Answers],
    out: Path,
) -> dict[str, dict[str, Any]]:
    """The sections by the names of their files. What they do not compare is said, once."""
    sections = {
        name: _write_section(systems, key, name, out)
        | _write_answers(answers.get(key), out / f"hypotheses_{name}.md")
        for key, name in zip(keys, name_files(keys), strict=True)
    }
    for remark in dict.fromkeys(r for section in sections.values() for r in section["left_out"]):
        LOGGER.warning("%s", remark)
    return sections


def _write_section(
    systems: Sequence[ReportedSystem], key: Key, name: str, out: Path
) -> dict[str, Any]:
    """One set and convention: rates, kinds of errors, differences, speakers."""
    scored = [system for system in systems if key in system.keys]
    speakers = tabulate_speakers(scored, key)
    write_file(out / f"speakers_{name}.md", as_markdown(speakers))
    section: dict[str, Any] = {
        "title": f"{key[0]}, {key[1]}",
        "parts": divide_errors(scored, key),
        "cluster": speakers.columns[0],
        "speakers": list_rows(speakers),
        "rates": chart_systems(scored, key),
        "by_speaker": None,
        "differences": None,
        "left_out": [],
    }
    # Of one system the speakers are drawn; several are compared in the table alone.
    if len(scored) == 1 and 1 < len(speakers) <= CHARTED_SPEAKERS:
        section["by_speaker"] = chart_speakers(scored[0], key)
    if len(scored) > 1:
        differences = compare_with_best(scored, key)
        left_out = [f"Not compared: {reason}." for reason in differences.left_out]
        remarks = map(escape_markdown, (*differences.warnings, *left_out))
        lines = [as_markdown(differences.table), *(f"\n{remark}\n" for remark in remarks)]
        write_file(out / f"differences_{name}.md", "".join(lines))
        section |= {
            "best": find_best_on_dev(scored, key[1]).name,
            # Columns over seeds are empty where each system has one.
            "differences": list_rows(differences.table.loc[:, (differences.table != NONE).any()]),
            "sentences": differences.sentences,
            "warnings": differences.warnings,
            "left_out": left_out,
        }
    return section


def _write_answers(answers: Answers | None, path: Path) -> dict[str, Any]:
    """The part of a section on hypotheses, also as a file where there are any."""
    if answers is None:
        return {"hypotheses": [], "not_tested": []}
    not_tested = [f"Not tested: {reason}." for reason in answers.left_out]
    parts = [answer.as_markdown() for answer in answers.tested]
    write_file(path, "\n".join([*parts, *map(escape_markdown, not_tested), ""]))
    hypotheses = [
        {
            "statement": answer.statement,
            "sentences": answer.sentences,
            "rows": list_rows(answer.table),
        }
        for answer in answers.tested
    ]
    return {"hypotheses": hypotheses, "not_tested": not_tested}


def _list_errors(
    systems: Sequence[ReportedSystem], key: Key, out: Path
) -> dict[str, dict[str, Any]]:
    """Texts of the errors of each system, by the name of its file in `out`."""
    scored = [system for system in systems if key in system.keys]
    # Many systems share the room for utterances on the page.
    listed = max(LEAST_LISTED, LISTED // len(scored))
    return {
        name: _write_errors(system, key, out / f"{name}.txt", listed)
        for system, name in zip(
            scored, name_files((system.name, *key) for system in scored), strict=True
        )
    }


def _write_errors(system: ReportedSystem, key: Key, listing: Path, listed: int) -> dict[str, Any]:
    """Confusions over all seeds of a system, and the errors of its first seed, also as a file.

    listed: the most utterances of these that the page shows.
    """
    edits = list(iter_edits(run.scores[key] for run in system.runs))
    score = system.runs[0].scores[key]
    write_file(listing, "\n".join(list_errors(score)))
    matrix = count_confusions(edits)
    wrong = list(find_wrong(score))
    return {
        "title": f"{system.name}, {key[0]}, {key[1]}",
        "frequent": list_rows(rank_errors(edits)),
        "matrix": chart_confusions(matrix) if len(matrix) <= LARGEST_MATRIX else None,
        "utterances": wrong[:listed],
        "number": len(wrong),
        "run": str(system.runs[0].path),
        "file": f"errors/{listing.name}",
    }


def _write_sounds(data: Path, errors: Iterable[Mapping[str, Any]], out: Path) -> dict[str, str]:
    """Files of the sound of all utterances that the page lists."""
    listed = sorted({wrong.name for system in errors for wrong in system["utterances"]})
    stems = name_files((name,) for name in listed)
    return write_sounds(data, dict(zip(listed, stems, strict=True)), out)


def _tabulate_runs(systems: Sequence[ReportedSystem]) -> pd.DataFrame:
    rows = [
        [system.name, str(run.path), *(str(run.environment.get(key, NONE)) for key in MADE_BY)]
        for system in systems
        for run in system.runs
    ]
    return pd.DataFrame(rows, columns=["system", "folder", *MADE_BY])


def _write_figures(
    sections: Mapping[str, dict[str, Any]],
    curves: Sequence[CurveChart],
    course: CurveChart | None,
    errors: Mapping[str, dict[str, Any]],
    out: Path,
) -> None:
    """Draw the charts of the page once more, as files for papers."""
    from bayes_asr.evaluate.report.figures import draw_bars, draw_confusions, draw_curves

    for name, section in sections.items():
        _save_figure(draw_bars(section["rates"]), out / f"bars_{name}")
    if curves:
        _save_figure(draw_curves(curves), out / "learning_curves")
    if course:
        _save_figure(draw_curves([course]), out / "training")
    for name, system in errors.items():
        if system["matrix"]:
            figure = draw_confusions(system["matrix"], system["title"])
            _save_figure(figure, out / f"confusions_{name}")


def _save_figure(figure: "Figure", path: Path) -> None:
    """Save a figure as PNG and SVG."""
    # Without a date in the SVG the same figure gives the same file.
    for kind, options in {"png": {"dpi": 150}, "svg": {"metadata": {"Date": None}}}.items():
        with replacing(path.with_name(f"{path.name}.{kind}")) as temporary:
            figure.savefig(temporary, **options)  # type: ignore[arg-type]

"""Comparisons of a report: with the best system, and of hypotheses between groups."""

import json
import re
import shlex
from collections.abc import Sequence
from html import unescape
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from bayes_asr.base.errors import InputError
from bayes_asr.cli import main
from bayes_asr.evaluate.report.differences import compare_with_best, find_best_on_dev
from bayes_asr.evaluate.report.hypotheses import Group, GroupHypothesis, answer
from bayes_asr.evaluate.report.runs import ReportedSystem, find_systems
from bayes_asr.evaluate.score.comparison import compare
from tests.support.report_runs import KEY, make_run, read_page, run_report


def make_unlike_run(run: Path, error_rate: float, scored: str) -> None:
    """A run of which a set is scored on another utterance."""
    make_run(run, error_rate)
    path = run / f"score_{scored}.json"
    path.write_text(path.read_text().replace("spk0-000", "spk0-999"))


@pytest.mark.slow
def test_differences_are_those_of_the_scores(systems: list[ReportedSystem]) -> None:
    best = find_best_on_dev(systems, "strict")
    assert best.name == "li & <bru>"
    table = compare_with_best(systems, KEY).table
    assert table["system"].tolist() == ["gru", "lstm"]
    gru = next(s for s in systems if s.name == "gru")
    points = gru.rates(KEY).mean() - best.rates(KEY).mean()
    assert float(table["points more"][0]) == pytest.approx(points, abs=0.005)
    means = [
        np.mean([[u.counts.errors for u in r.scores[KEY].utterances] for r in s.runs], axis=0)
        for s in (gru, best)
    ]
    d = means[0] - means[1]
    z = d.mean() / (d.std(ddof=1) / np.sqrt(len(d)))
    expected = 2 * stats.norm.sf(abs(z))
    shown = table["p matched pairs, utterances"][0]
    assert shown == ("< 0.0001" if expected < 1e-4 else f"{expected:.4f}")


@pytest.mark.slow
@pytest.mark.usefixtures("no_figures")
def test_systems_on_other_utterances_are_not_compared(
    out: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    make_unlike_run(tmp_path / "other", 0.5, "test")
    differences = compare_with_best(find_systems([out, tmp_path]), KEY)
    assert differences.table["system"].tolist() == ["gru", "lstm"]
    (reason,) = differences.left_out
    assert reason.startswith("other and li & <bru> do not score the same test references")
    run_report(out, tmp_path, "--out", tmp_path / "report")
    page = (tmp_path / "report" / "report.html").read_text()
    assert "Not compared: other and li &amp; &lt;bru&gt; do not score the same" in page
    tables = (tmp_path / "report").glob("differences_*.md")
    assert all("Not compared: other and" in table.read_text() for table in tables)
    said = [record.getMessage() for record in caplog.records]
    assert len([line for line in said if line.startswith("Not compared: other and li")]) == 1


def test_best_on_dev_is_among_the_most_that_are_scored_alike(
    systems: list[ReportedSystem], tmp_path: Path
) -> None:
    """A low rate on another dev set says nothing of the others."""
    make_unlike_run(tmp_path / "easy", 0.01, "dev")
    (easy,) = find_systems([tmp_path])
    rates = {s.name: s.rates(("dev", "strict")).mean() for s in (easy, *systems)}
    assert min(rates, key=lambda name: rates[name]) == "easy"
    for some in (systems, [easy, *systems], [*systems, easy]):
        assert find_best_on_dev(some, "strict").name == "li & <bru>"
        assert {*compare_with_best(some, KEY).table["against"]} == {"li & <bru>"}
    assert find_best_on_dev([easy, systems[0]], "strict") is easy, "of equally many, the first"


GROUPS = ("--group", "bayesian=li & <bru>", "--against", "gated=gru", "lstm")


def locate(out: Path, words: Sequence[str]) -> list[str]:
    """The folders of systems below `out`."""
    return [re.sub(r"(?<!-)\b(li.*|gru|lstm)$", rf"{out}/\1", word) for word in words]


@pytest.mark.slow
@pytest.mark.usefixtures("no_figures")
def test_hypotheses_are_tested_as_compare_does_it(
    out: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = locate(out, GROUPS)
    assert main(["compare", *words, "--alternative", "less", "--json"]) == 0
    expected = json.loads(capsys.readouterr().out)
    run_report(out, "--out", tmp_path, *words)
    printed = capsys.readouterr().out
    page = (tmp_path / "report.html").read_text()
    for entry in expected:
        name = f"hypotheses_test_{entry['convention']}.md"
        written = (tmp_path / name).read_text()
        assert "<bru>" not in written
        said = "Hypothesis: bayesian (li & <bru>) have fewer errors than gated (gru, lstm)"
        assert said in unescape(written)
        assert all(entry["sentence"] in text for text in (written, printed, unescape(page)))
        for test in entry["tests"]:
            row = (f"{test['statistic']:.3f}", f"{test['p']:.3g}", f"{test['two_sided']:.3g}")
            assert f"{test['number']} {test['unit']}s | {' | '.join(row)} |" in written
    assert "Hypothesis: bayesian (li &amp; &lt;bru&gt;) have fewer errors" in page
    assert shlex.join(words) in "".join(read_page(tmp_path).texts["code"])
    assert printed.splitlines()[-7].startswith("system"), "the table is last"


@pytest.mark.slow
@pytest.mark.usefixtures("no_figures")
def test_hypotheses_are_adjusted_for_their_number(
    out: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = ("--group", str(out / "gru"), "--against", str(out / "lstm"))
    run_report(out, "--out", tmp_path, *locate(out, GROUPS), *other)
    printed = capsys.readouterr().out
    assert printed.count("Hypothesis: ") == 4
    assert "At p < 0.025, two-sided" in printed
    rows = [line for line in printed.splitlines() if line.startswith("matched pairs  ")]
    found = [[float(cell) for cell in row.split()[-3:]] for row in rows]
    for one, another in (found[0:3:2], found[1:4:2]):  # by utterances, by speakers
        first, last = sorted((one, another))
        assert first[2] == pytest.approx(2 * first[0], rel=0.01)
        assert last[2] == pytest.approx(max(last[0], 2 * first[0]), rel=0.01)


@pytest.mark.slow
@pytest.mark.usefixtures("no_figures")
def test_hypotheses_that_cannot_be_tested_are_named(
    out: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_unlike_run(tmp_path / "other", 0.5, "test")
    words = ["--group", str(out / "gru"), "--against", str(tmp_path / "other")]
    run_report(out, tmp_path / "other", "--out", tmp_path / "report", *words)
    said = "Not tested: gru (gru) have fewer errors than other (other) (gru and other do not score"
    assert said in capsys.readouterr().out
    assert said in (tmp_path / "report" / "report.html").read_text()
    assert said in (tmp_path / "report" / "hypotheses_test_strict.md").read_text()
    (tmp_path / "other" / "score_test.json").unlink()
    run_report(out, tmp_path / "other", "--out", tmp_path / "report", *words)
    assert "(other: not scored on test, strict)" in capsys.readouterr().out
    with pytest.raises(InputError, match="absent: no system of this report is there"):
        run_report(out, "--out", tmp_path, "--group", str(out / "gru"), "--against", "absent")


def test_the_system_of_a_group_that_cannot_be_tested_is_named(
    systems: list[ReportedSystem], tmp_path: Path
) -> None:
    make_unlike_run(tmp_path / "other", 0.5, "test")
    (other,) = find_systems([tmp_path / "other"])
    gru, lstm = (next(s for s in systems if s.name == name) for name in ("gru", "lstm"))
    hypothesis = GroupHypothesis(Group("one", [gru]), Group("two", [lstm, other]))
    (reason,) = answer([hypothesis], KEY).left_out
    assert "(gru and other do not score the same" in reason


@pytest.mark.usefixtures("no_figures")
def test_a_system_counts_once_in_folders_that_lie_in_one_another(
    out: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gru, lstm = str(out / "gru"), str(out / "lstm")
    groups = ["--group", f"one={gru}", f"{gru}/seed1", "--against", lstm]
    run_report(out, "--out", tmp_path, *groups)
    assert "Hypothesis: one (gru) have fewer" in capsys.readouterr().out


def test_differences_have_power_and_the_spread_over_seeds(systems: list[ReportedSystem]) -> None:
    best = next(s for s in systems if s.name == "li & <bru>")
    rows = compare_with_best(systems, KEY).table.to_dict("records")
    for row, system in zip(rows, (s for s in systems if s is not best), strict=True):
        a, b = ([run.scores[KEY] for run in s.runs] for s in (system, best))
        comparison = compare(a, b, ("a", "b"))
        shown = [row["would show over utterances"], row["would show over speakers"]]
        assert shown == [
            f"{d.points:.2f} ({d.relative:.1f} %)" for d in comparison.detectable(len(rows))
        ]
        assert row["sd over seeds"] == f"–, {np.std(best.rates(KEY), ddof=1):.2f}"
        assert row["95 % over seeds too"] == "–", "one of them has a single seed"


@pytest.mark.slow
def test_report_and_compare_agree(
    out: Path, systems: list[ReportedSystem], capsys: pytest.CaptureFixture[str]
) -> None:
    """The same pair gets the same numbers, each with the name of its test, seeds and all."""
    table = compare_with_best(systems, KEY).table
    for name in ("gru", "lstm"):
        row = table[table.system == name].iloc[0]
        capsys.readouterr()
        assert main(["compare", str(out / name), str(out / "li & <bru>"), "--json"]) == 0
        strict = next(c for c in json.loads(capsys.readouterr().out) if c["convention"] == "strict")
        assert f"{strict['difference']:+.2f}" == row["points more"]
        low, high = strict["difference_interval"]
        assert f"[{low:+.2f}, {high:+.2f}]" == row["95 %"]
        found = {f"p {t['test']}, {t['unit']}s": t["p"] for t in strict["tests"]}
        named = [column for column in table.columns if column.startswith("p ")]
        shown = {c: row[c] for c in named if "Holm" not in c}
        assert shown.keys() <= found.keys()
        assert shown == {c: "< 0.0001" if found[c] < 1e-4 else f"{found[c]:.4f}" for c in shown}

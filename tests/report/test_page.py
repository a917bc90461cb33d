"""The report as a whole, its details, and its comparisons with the best system."""

import argparse
import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from bayes_asr.cli import report
from bayes_asr.report.details import (
    count_confusions,
    format_alignment,
    iter_edits,
    list_errors,
    rank_errors,
    tabulate_speakers,
)
from bayes_asr.report.differences import compare_with_best, find_best_on_dev
from bayes_asr.report.runs import System, find_systems
from bayes_asr.score.counts import align
from bayes_asr.score.scores import read_scores
from tests.support.report_runs import make_run, make_score

KEY = ("test", "strict")


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three systems: a <b>bold</b> name with two seeds, and two others."""
    out = tmp_path_factory.mktemp("runs")
    for seed in (1, 2):
        make_run(out / "li & <bru>" / f"seed{seed}", 0.25, seed)
    make_run(out / "gru" / "seed1", 0.45)
    make_run(out / "lstm" / "seed1", 0.3, 2)
    return out


@pytest.fixture
def systems(out: Path) -> list[System]:
    return find_systems([out])


def run_report(*argv: str | Path) -> None:
    parser = argparse.ArgumentParser()
    report.add_arguments(parser)
    report.run(parser.parse_args([str(arg) for arg in argv]))


def test_page_stands_alone(out: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_report(out, "--out", tmp_path)
    page = (tmp_path / "report.html").read_text()
    assert set(re.findall(r"""(?:src|href)=["'](\w+:?\w*)""", page)) == {"data:image"}
    assert page.count("<img") == 1 + 2 + 3  # learning curves, bars, confusions
    assert "li &amp; &lt;bru&gt;" in page
    assert "<bru>" not in page
    files = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.*")}
    assert {
        "table.md",
        "table.tex",
        "speakers_test_strict.md",
        "errors/gru_test_strict.txt",
    } < files
    assert {"figures/bars_test_strict.png", "figures/learning_curves.svg"} < files
    last = capsys.readouterr().out.splitlines()[-6:]
    assert [line.split()[0] for line in last[:2]] == ["gru", "li"]


def test_page_without_matplotlib(
    out: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setattr("bayes_asr.report.page.find_spec", lambda name: None)
    run_report(out, "--out", tmp_path)
    assert "no figures: matplotlib is not installed" in capsys.readouterr().out
    assert "<img" not in (tmp_path / "report.html").read_text()
    assert not (tmp_path / "figures").exists()


def test_json_is_the_table(out: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_report(out, "--out", tmp_path, "--json")
    rows = json.loads(capsys.readouterr().out)
    assert [row["system"] for row in rows] == ["gru", "li & <bru>", "lstm"] * 2
    assert rows[0].keys() == rows[5].keys() > {"rate", "LM weight", "dev %", "test 95 %"}


def test_report_lies_beside_the_runs_and_may_be_repeated(out: Path) -> None:
    run_report(out / "gru")
    first = (out / "gru" / "report" / "report.html").read_bytes()
    run_report(out / "gru")
    assert (out / "gru" / "report" / "report.html").read_bytes() == first


def test_speakers_are_means_over_seeds(out: Path, systems: list[System]) -> None:
    table = tabulate_speakers(systems, KEY)
    assert list(table.columns) == ["speaker", "tokens", "gru", "li & <bru>", "lstm"]
    scores = [
        read_scores(out / "li & <bru>" / f"seed{seed}" / "score_test.json")[0] for seed in (1, 2)
    ]
    rates = [score.speakers["spk0"].rate for score in scores]
    assert table.iloc[0]["li & <bru>"] == f"{np.mean(rates):.1f}"
    assert table.iloc[0]["tokens"] == str(scores[0].speakers["spk0"].tokens)


def test_confusions_add_up_to_the_counts() -> None:
    score = make_score(1, 0.3, "test", "strict")
    table = count_confusions(iter_edits([score, score]))
    counts = score.counts
    assert table.loc["–"].sum() == 2 * counts.insertions
    assert table["–"].sum() == 2 * counts.deletions
    assert table.drop(index="–").to_numpy().sum() == 2 * counts.tokens
    correct = np.trace(table.to_numpy())
    assert correct == 2 * (counts.tokens - counts.substitutions - counts.deletions)


def test_frequent_errors_are_counted_and_sorted() -> None:
    edits = align(str.split("a b c a"), str.split("x b d")) + align(["a"], ["x"])
    table = rank_errors(edits, most=2)
    assert table.to_numpy().tolist() == [["a", "x", "2"], ["a", "d", "1"]]


def test_alignment_has_equal_columns() -> None:
    text = format_alignment(align(str.split("sil dh ah"), str.split("sil d iy ah")))
    assert text == "REF: sil * dh ah\nHYP: sil d iy ah\n         I S\n"


def test_listing_has_every_utterance_with_errors_once() -> None:
    score = make_score(1, 0.1, "test", "strict")
    entries = list(list_errors(score))
    wrong = [u for u in score.utterances if u.counts.errors]
    assert sorted(e.split(":")[0] for e in entries) == sorted(u.utterance for u in wrong)
    errors = [int(re.findall(r": (\d+) errors", entry)[0]) for entry in entries]
    assert errors == sorted(errors, reverse=True)
    assert sum(errors) == score.counts.errors


def test_differences_are_those_of_the_scores(systems: list[System]) -> None:
    best = find_best_on_dev(systems, "strict")
    assert best.name == "li & <bru>"
    table = compare_with_best(systems, KEY)
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
    shown = table["p"][0]
    assert shown == ("< 0.0001" if expected < 1e-4 else f"{expected:.4f}")


def test_systems_on_other_utterances_are_not_compared(out: Path, tmp_path: Path) -> None:
    make_run(tmp_path / "other", 0.5)
    path = tmp_path / "other" / "score_test.json"
    path.write_text(path.read_text().replace("spk0-000", "spk0-999"))
    table = compare_with_best(find_systems([out, tmp_path]), KEY)
    assert table["system"].tolist() == ["gru", "lstm"]

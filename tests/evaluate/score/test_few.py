"""What few speakers cannot say; and what utt2spk has in place of speakers, by its name."""

import itertools
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from bayes_asr.cli import main
from bayes_asr.evaluate.report.differences import compare_with_best
from bayes_asr.evaluate.report.runs import find_systems
from bayes_asr.evaluate.score.comparison import compare
from bayes_asr.evaluate.score.paired_tests import FEWEST, few_units_warning
from bayes_asr.evaluate.score.scores import Score, read_scores, write_scores
from tests.support.report_runs import make_score

NAMES = ("A", "B")
NORMAL = {  # over speakers; the others over them are exact
    "matched pairs, Student's t",
    "Wilcoxon, normal as sc_stats",
}


def made(seed: int, rate: float, speakers: int, cluster: str = "speaker") -> Score:
    score = make_score(seed, rate, "test", "strict", utterances=48, speakers=speakers)
    return replace(score, cluster=cluster)


def write_systems(folder: Path, speakers: int, cluster: str = "speaker") -> list[str]:
    """Two systems far apart, and a third; returns their folders."""
    for name, rate in (("a", 0.1), ("b", 0.5), ("c", 0.3)):
        write_scores([made(1, rate, speakers, cluster)], folder / name / "score_test.json")
    return [str(folder / name) for name in "abc"]


@pytest.mark.parametrize("number", range(2, 9))
def test_warning_names_the_least_p_that_exact_tests_have(number: int) -> None:
    """Over all signs: that of the sign test, of Wilcoxon's, and of means permuted."""
    d = np.arange(1.0, number + 1)
    least = [
        stats.binomtest(number, number).pvalue,
        stats.wilcoxon(d, method="exact").pvalue,
        np.mean([abs(np.dot(s, d)) >= d.sum() for s in itertools.product((-1, 1), repeat=number)]),
    ]
    assert least == pytest.approx([least[0]] * 3)
    warning = few_units_warning(number, "speaker")
    assert (warning is not None) == (least[0] > 0.05) == (number < FEWEST)
    if warning:
        assert f"{number} speakers are few" in warning
        assert f"a p below {least[0]:.3g}." in warning


def test_only_tests_that_take_differences_for_normal_are_warned_of() -> None:
    comparison = compare(made(1, 0.1, 4), made(1, 0.5, 4), NAMES, 100)
    assert {test.test for test in comparison.tests if test.warning} == NORMAL
    assert {test.unit for test in comparison.tests if test.warning} == {"speaker"}
    student = next(test for test in comparison.tests if "Student" in test.test)
    assert student.p < 0.05 < 2 / 2**4, "what the warning is for"
    as_groups = compare(made(1, 0.1, 4), made(1, 0.5, 4), NAMES, 100, as_groups=True)
    assert {test.title for test in as_groups.tests if test.warning} == {
        "matched pairs, Student's t, speakers",
        "matched pairs, speakers",
        "Wilcoxon, normal, speakers",
    }
    enough = compare(made(1, 0.1, FEWEST), made(1, 0.5, FEWEST), NAMES, 100)
    assert not enough.warnings


def test_test_that_judges_by_few_utterances_is_warned_of() -> None:
    a, b = made(1, 0.1, 4), made(1, 0.5, 4)
    a, b = (replace(s, utterances=s.utterances[:3]) for s in (a, b))
    comparison = compare(a, b, NAMES, 100, as_groups=True)
    assert comparison.sentence().endswith("that differences are normal.")
    assert "3 utterances are few" in comparison.sentence()


@pytest.mark.slow
def test_no_p_of_few_speakers_stands_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not in the text and the JSON of compare, nor in the table and the page of a report."""
    a, b, c = write_systems(tmp_path, 4)
    assert main(["compare", a, b]) == 0
    printed = capsys.readouterr().out
    lines = [line for line in printed.splitlines() if "4 speakers" in line]
    marked = {re.split("  +", line)[0] for line in lines if "4 speakers (few)" in line}
    assert marked >= NORMAL
    warning = few_units_warning(4, "speaker")
    assert printed.splitlines()[-1] == warning
    assert "points" in next(line for line in lines if "the set shows" in line)
    assert main(["compare", "--json", "--group", a, "--against", b]) == 0
    (entry,) = json.loads(capsys.readouterr().out)
    small = [test for test in entry["tests"] if test["unit"] == "speaker" and test["p"] < 2 / 2**4]
    assert small
    assert {test["warning"] for test in small} == {warning}
    assert main(["report", a, b, c, f"--out={tmp_path}/out", "--group", a, "--against", b]) == 0
    assert warning in capsys.readouterr().out
    for name in ("report.html", "differences_test_strict.md", "hypotheses_test_strict.md"):
        text = (tmp_path / "out" / name).read_text().replace("&#39;", "'")
        assert warning in text
        assert "Student's t, speakers (few)" in text or "4 speakers (few)" in text


@pytest.mark.slow
def test_sessions_are_called_sessions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = write_systems(tmp_path, 12, "session")
    assert read_scores(tmp_path / "a" / "score_test.json")[0].cluster == "session"
    assert main(["compare", *paths[:2]]) == 0
    printed = capsys.readouterr().out
    assert "12 sessions" in printed
    assert "bootstrap over sessions" in printed
    assert main(["report", *paths, f"--out={tmp_path}/out"]) == 0
    printed += capsys.readouterr().out
    for file in (tmp_path / "out").glob("*.*"):
        printed += file.read_text()
    assert "speaker" not in printed
    table = compare_with_best(find_systems([tmp_path]), ("test", "strict")).table
    assert set(table["p matched pairs, Student's t, sessions"]) <= {"< 0.0001"}


def test_statistics_of_sessions_are_those_of_speakers() -> None:
    systems = [
        compare(made(1, 0.25, 12, cluster), made(2, 0.3, 12, cluster), NAMES, 100)
        for cluster in ("speaker", "session")
    ]
    speakers, sessions = (json.dumps(system.as_dict()) for system in systems)
    assert speakers.replace("speaker", "session") == sessions


@pytest.mark.slow
def test_what_judges_several_pairs_is_adjusted_for_their_number(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """p of 0.03 is significant alone, and by Holm over two not where the other is no smaller."""
    for name, seed in (("a", 1), ("b", 7)):
        write_scores([made(seed, 0.3, 12)], tmp_path / name / "score_test.json")
    pair = [str(tmp_path / name) for name in "ab"]
    assert main(["compare", *pair, "--pair", *pair, "--json"]) == 0
    first, *_ = json.loads(capsys.readouterr().out)
    judged = first["tests"][0]
    assert judged["adjusted_over_pairs"] == pytest.approx(min(1, 2 * judged["p"]))
    assert judged["p"] < 0.05 < judged["adjusted_over_pairs"]
    assert "is not significant at the 5 % level" in first["sentence"]
    adjusted = f"by Holm over all that are compared {judged['adjusted_over_pairs']:.4f})"
    assert first["sentence"].endswith(f"(p = {judged['p']:.4f}, {adjusted}.")
    assert main(["compare", *pair, "--json"]) == 0
    (alone,) = json.loads(capsys.readouterr().out)
    assert "is significant at the 5 % level" in alone["sentence"]

"""Groups of systems, as section 5.1 of Bittar and Garner (2021) tests them, against scipy."""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from bayes_asr.base.errors import InputError
from bayes_asr.cli import compare as verb
from bayes_asr.cli.groups import read_groups
from bayes_asr.evaluate.score.comparison import Comparison, compare
from bayes_asr.evaluate.score.scores import Score, write_scores
from bayes_asr.evaluate.score.statistics import Alternative
from tests.support.report_runs import make_score

RATES = {"bru": 0.25, "bru-log": 0.26, "rnn": 0.28, "rnn-sigmoid": 0.3}
SEEDS = (1, 2)
NAMES = ("log", "plain")
SIDES: tuple[Alternative, ...] = ("less", "greater", "two-sided")


def make(system: str, seed: int, speakers: int = 12) -> Score:
    drawn = 10 * list(RATES).index(system) + seed
    return make_score(drawn, RATES[system], "test", "strict", utterances=48, speakers=speakers)


def make_groups(speakers: int = 12) -> list[list[list[Score]]]:
    """Two groups of two systems with two seeds."""
    systems = [[make(system, seed, speakers) for seed in SEEDS] for system in RATES]
    return [systems[:2], systems[2:]]


def sum_errors(group: list[list[Score]], unit: str) -> tuple[np.ndarray, np.ndarray]:
    """Errors, and tokens of one run, of each unit [S]."""
    runs = [
        list(run.speakers.values()) if unit == "speaker" else [u.counts for u in run.utterances]
        for system in group
        for run in system
    ]
    errors = np.sum([[counts.errors for counts in run] for run in runs], axis=0)
    return errors, np.array([counts.tokens for counts in runs[0]])


def find(comparison: Comparison, title: str) -> tuple[float, float]:
    test = next(test for test in comparison.tests if test.title == title)
    return test.p, test.two_sided


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["speaker", "utterance"])
@pytest.mark.parametrize("alternative", SIDES)
def test_tests_of_groups_equal_scipy_on_one_side_and_on_two(
    unit: str, alternative: Alternative
) -> None:
    groups = make_groups()
    comparison = compare(*groups, NAMES, 100, alternative=alternative, as_groups=True)
    (a, tokens), (b, _) = (sum_errors(group, unit) for group in groups)
    z = stats.ttest_rel(a, b).statistic
    normal = {"less": stats.norm.cdf(z), "greater": stats.norm.sf(z)}
    normal["two-sided"] = 2 * min(normal.values())
    sides = (alternative, "two-sided")
    student = [stats.ttest_rel(a, b, alternative=side).pvalue for side in sides]
    signed = [
        stats.wilcoxon((a - b) / tokens, method="asymptotic", alternative=side).pvalue
        for side in sides
    ]
    assert find(comparison, f"matched pairs, Student's t, {unit}s") == pytest.approx(student)
    assert find(comparison, f"matched pairs, {unit}s") == pytest.approx([normal[s] for s in sides])
    assert find(comparison, f"Wilcoxon, normal, {unit}s") == pytest.approx(signed)
    exact = find(comparison, f"Wilcoxon, exact, {unit}s")
    if unit == "speaker":
        permuted = stats.PermutationMethod(n_resamples=100_000)  # all of 2 ** 12
        expected = [
            stats.wilcoxon((a - b) / tokens, method=permuted, alternative=side).pvalue
            for side in sides
        ]
        assert exact == pytest.approx(expected)
    else:
        assert exact == pytest.approx(signed, rel=0.3)


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(drawn=st.integers(0, 99), speakers=st.integers(1, 12))
def test_two_sides_are_twice_the_smaller_of_both(drawn: int, speakers: int) -> None:
    a, b = (make_score(drawn + i, 0.3, "test", "strict", 24, speakers) for i in (0, 100))
    less, greater, both = (
        compare(a, b, NAMES, 100, alternative=side, as_groups=True).tests for side in SIDES
    )
    for x, y, z in zip(less, greater, both, strict=True):
        assert x.two_sided == y.two_sided == z.two_sided == z.p
        assert z.p == pytest.approx(min(1, 2 * min(x.p, y.p)))
        assert x.p + y.p >= 1 - 1e-9


@pytest.mark.parametrize(("speakers", "unit"), [(12, "speaker"), (8, "utterance")])
def test_first_test_decides_over_what_is_drawn(speakers: int, unit: str) -> None:
    comparison = compare(*make_groups(speakers), NAMES, 100, alternative="less", as_groups=True)
    assert comparison.tests[0].title == f"matched pairs, Student's t, {unit}s"
    assert comparison.resampled == f"{unit}s"
    said = f"by matched pairs, Student's t, over {unit}s, that log has fewer errors is"
    assert said in comparison.sentence()


def test_one_speaker_leaves_utterances() -> None:
    comparison = compare(*make_groups(1), NAMES, 100, as_groups=True)
    assert {test.unit for test in comparison.tests} == {"utterance"}


def test_spread_over_seeds_is_that_inside_of_systems() -> None:
    groups = make_groups()
    comparison = compare(*groups, NAMES, 100, as_groups=True)
    variances = [
        np.var([run.counts.rate for run in system], ddof=1) for group in groups for system in group
    ]
    assert comparison.a.deviation == pytest.approx(np.sqrt(np.mean(variances[:2])))
    assert comparison.seeds
    assert comparison.seeds.standard_error == pytest.approx(np.sqrt(sum(variances) * 2 / 16))


@pytest.fixture
def out(tmp_path: Path) -> Path:
    for system in RATES:
        for seed in SEEDS:
            write_scores([make(system, seed)], tmp_path / system / f"seed{seed}/score_test.json")
    return tmp_path


def run_compare(*argv: object) -> None:
    parser = argparse.ArgumentParser()
    verb.add_arguments(parser)
    verb.run(parser.parse_args([str(word) for word in argv]))


def group(out: Path, *systems: str, name: str = "") -> list[str]:
    first, *others = (str(out / system) for system in systems)
    return [f"{name}={first}" if name else first, *others]


@pytest.mark.slow
def test_command_tests_groups(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--group", *group(out, "bru", "bru-log", name="log")]
    words += ["--against", *group(out, "rnn", "rnn-sigmoid", name="plain"), "--replicates=100"]
    run_compare(*words, "--alternative", "less", "--json")
    (entry,) = json.loads(capsys.readouterr().out)
    expected = compare(*make_groups(), NAMES, 100, alternative="less", as_groups=True)
    assert entry["sentence"] == expected.sentence()
    assert [test["p"] for test in entry["tests"]] == [test.p for test in expected.tests]
    assert entry["a"]["systems"] == [str(out / "bru"), str(out / "bru-log")]
    assert (entry["a"]["runs"], entry["power"]) == (4, 0.8)
    assert [d["unit"] for d in entry["detectable"]] == ["utterance", "speaker"]
    assert set(entry["over_seeds"]) == {"standard_error", "p", "interval"}
    run_compare(*words, "--alternative", "less")
    printed = capsys.readouterr().out
    assert f"A log (4 runs of {out / 'bru'}, {out / 'bru-log'}): %PER" in printed
    assert expected.power_sentence() in printed
    assert expected.seeds_sentence() in printed
    heading = next(line for line in printed.splitlines() if line.startswith("test "))
    assert heading.split()[3:5] == ["p", "two-sided"]
    run_compare(*words)
    assert "two-sided  p (Holm)" not in capsys.readouterr().out, "p is that already"


@pytest.mark.slow
def test_several_hypotheses_are_adjusted(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words: list[str] = []
    for a, b in (("bru", "rnn"), ("bru-log", "rnn-sigmoid")):
        words += ["--group", *group(out, a), "--against", *group(out, b)]
    run_compare(*words, "--json", "--replicates=100")
    entries: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    assert [entry["a"]["name"] for entry in entries] == ["bru", "bru-log"]
    p = sorted(entry["tests"][0]["p"] for entry in entries)
    adjusted = sorted(entry["tests"][0]["adjusted_over_pairs"] for entry in entries)
    assert adjusted == pytest.approx([2 * p[0], max(2 * p[0], p[1])])
    levels = [detectable["level"] for detectable in entries[0]["detectable"]]
    assert levels == [0.05, 0.05, 0.025, 0.025]
    run_compare(*words, "--replicates=100")
    assert "At p < 0.025, two-sided" in capsys.readouterr().out


@pytest.mark.slow
def test_group_without_a_name_is_called_by_its_systems(
    out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (out / "x=y").mkdir()
    write_scores([make("rnn", 1)], out / "x=y/score_test.json")
    words = ["--group", *group(out, "bru", "bru-log"), "--against", *group(out, "x=y")]
    run_compare(*words, "--json", "--replicates=100")
    (entry,) = json.loads(capsys.readouterr().out)
    assert (entry["a"]["name"], entry["b"]["name"]) == ("bru + bru-log", "x=y")
    assert entry["over_seeds"] is None
    words = ["--group", "a name=", *group(out, "bru"), *words[3:]]
    run_compare(*words, "--json", "--replicates=100")
    (entry,) = json.loads(capsys.readouterr().out)
    assert entry["a"]["name"] == "a name"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--group", "x"], "1 --group and 0 --against: each hypothesis has both"),
        ([], "give RUN_A and RUN_B, or --group and --against"),
        (["run"], "give RUN_A and RUN_B, or --group and --against"),
        (["a", "b", "--group", "c", "--against", "d"], "--against, not both"),
        (["--group", "c", "--against", "d", "--pair", "a", "b"], "--against, not both"),
        (
            ["--group", "absent", "--against", "d"],
            "absent: there is no such folder; ",
        ),
        (["--group", "n=", "--against", "d"], "n=: name the runs of this group"),
    ],
)
def test_incomplete_hypotheses_are_refused(words: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        run_compare(*words)


@pytest.mark.slow
def test_system_that_is_scored_on_other_speech_is_named(out: Path) -> None:
    other = make_score(1, 0.3, "test", "strict", utterances=40, speakers=12)
    write_scores([other], out / "rnn/seed1/score_test.json")
    write_scores([other], out / "rnn/seed2/score_test.json")
    words = ["--group", *group(out, "bru"), "--against", *group(out, "bru-log", "rnn")]
    with pytest.raises(InputError, match=r"bru/seed1 and \S+/rnn/seed1 do not score the same"):
        run_compare(*words)


def test_a_run_that_a_group_has_twice_is_refused(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "a")
    for again in ("a", "b/../a", "link"):
        named = [[str(tmp_path / "a"), str(tmp_path / again)]]
        args = argparse.Namespace(group=named, against=[[str(tmp_path / "b")]])
        with pytest.raises(InputError, match="twice"):
            read_groups(args)

"""The command `compare` on the golden systems of NIST, and what it refuses."""

import argparse
import itertools
import json
import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from scipy import stats

from bayes_asr.base.errors import InputError
from bayes_asr.cli import compare as verb
from bayes_asr.evaluate.report.runs import find_systems
from bayes_asr.evaluate.score.comparison import compare
from bayes_asr.evaluate.score.counts import ErrorCounts, tally
from bayes_asr.evaluate.score.scores import Score, UtteranceScore, write_scores
from bayes_asr.evaluate.score.sweeps import Reference, score_utterances
from bayes_asr.train.runs import state
from tests.support.nist_oracles import read_trn
from tests.support.report_runs import make_run, make_score

Text = dict[str, list[str]]
NAMES = ("sysA", "sysB")


def score(ref: Text, hyp: Text, convention: str = "plain") -> Score:
    speakers = {utterance: utterance.split("-")[0] for utterance in ref}
    utterances = score_utterances(Reference(ref, speakers), hyp, "hyp", "sclite")
    return Score("test", "wer", convention, frozenset(), "sclite", 9.0, 0.0, utterances)


@pytest.fixture
def systems(golden: Path) -> tuple[Score, Score]:
    ref, a, b = (read_trn(golden / f"{name}.trn") for name in ("ref", *NAMES))
    return score(ref, a), score(ref, b)


@pytest.fixture
def runs(systems: tuple[Score, Score], tmp_path: Path) -> list[str]:
    for name, system in zip(NAMES, systems, strict=True):
        write_scores([system], tmp_path / name / "score_test.json")
    return [str(tmp_path / name) for name in NAMES]


def run_compare(*argv: str) -> None:
    parser = argparse.ArgumentParser()
    verb.add_arguments(parser)
    verb.run(parser.parse_args(argv))


def test_tests_equal_sc_stats(systems: tuple[Score, Score]) -> None:
    comparison = compare(*systems, NAMES)
    tests = {test.test: test for test in comparison.tests}
    assert comparison.tests[0].test == "MAPSSWE"
    assert tests["MAPSSWE"].number == 109
    assert tests["MAPSSWE"].statistic == pytest.approx(3.155, abs=5e-4)
    assert tests["Wilcoxon, normal as sc_stats"].p == pytest.approx(0.012, abs=5e-4)
    assert tests["Wilcoxon, exact"].p == pytest.approx(0.015625)
    assert tests["McNemar, exact"].p == 1
    assert all(test.p <= test.adjusted <= 1 for test in comparison.tests)


def test_group_of_equal_systems_is_one_of_them(systems: tuple[Score, Score]) -> None:
    a, b = systems
    comparison = compare([[a], [a]], [[b]], NAMES, as_groups=True)
    tests = {test.title: test for test in comparison.tests}
    assert tests["Wilcoxon, exact, speakers"].p == pytest.approx(0.015625)
    pair = {test.title: test for test in compare(a, b, NAMES).tests}
    for title in tests.keys() & pair.keys():
        assert tests[title].p == pytest.approx(pair[title].p)
    points = [[d.points for d in c.detectable()] for c in (comparison, compare(a, b, NAMES))]
    assert points[0] == pytest.approx(points[1])


def test_rates_and_difference(systems: tuple[Score, Score]) -> None:
    comparison = compare(*systems, NAMES)
    assert (comparison.a.counts.errors, comparison.b.counts.errors) == (147, 104)
    low, high = comparison.difference.difference.interval
    assert 0 < low < 100 * (147 - 104) / 565 < high
    assert comparison.resampled == "utterances"
    assert comparison.sentence().startswith(
        "sysB has the lower test WER (plain): 18.41 % against 26.02 % of sysA, 7.61 points less"
    )
    assert "significant at the 5 % level (p = 0.0016)" in comparison.sentence()


def test_system_against_itself(systems: tuple[Score, Score]) -> None:
    comparison = compare(systems[0], systems[0], ("x", "y"))
    assert {test.p for test in comparison.tests} == {1.0}
    assert "x and y have the same test WER (plain), 26.02 %" in comparison.sentence()
    assert "not significant" in comparison.sentence()


def test_one_speaker_has_no_tests_over_speakers() -> None:
    ref = {"s-1": ["a", "b", "c"], "s-2": ["a"]}
    comparison = compare(score(ref, ref), score(ref, {"s-1": ["a"], "s-2": ["b"]}), NAMES)
    assert {test.unit for test in comparison.tests} == {"segment", "utterance"}


def test_more_errors_than_words_have_no_beta_interval() -> None:
    ref = {"s-1": ["a"], "s-2": ["b"]}
    comparison = compare(score(ref, ref), score(ref, {"s-1": list("xyz"), "s-2": []}), NAMES)
    assert comparison.b.beta is None
    assert comparison.a.beta is not None


def test_command_prints_everything(runs: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    run_compare(*runs)
    printed = capsys.readouterr().out
    assert "26.02 [ 147 / 565" in printed
    for name in ("MAPSSWE", "McNemar", "matched pairs, Student's t", "sign", "improves on A"):
        assert name in printed


def test_json(runs: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    run_compare(*runs, "--json", "--replicates", "100")
    (comparison,) = json.loads(capsys.readouterr().out)
    assert comparison["a"]["errors"] == 147
    assert comparison["difference"] == pytest.approx(100 * 43 / 565)
    keys = {"test", "unit", "number", "statistic", "p", "two_sided", "adjusted", "warning"}
    assert keys == set(comparison["tests"][0])


@pytest.mark.parametrize(
    ("reference", "convention", "message"),
    [
        ({"s-1": ["a"], "s-2": ["b"]}, "strict", "differ in convention: plain and strict"),
        ({"s-1": ["a"], "s-2": ["c"]}, "plain", "1 utterance differs, such as s-2"),
        ({"s-1": ["a"], "s-3": ["b"]}, "plain", "2 utterances differ, such as s-2"),
        ({"s-2": ["b"], "s-1": ["a"]}, "plain", "0 utterances differ, such as their order"),
    ],
)
def test_only_like_is_compared(reference: Text, convention: str, message: str) -> None:
    ref = {"s-1": ["a"], "s-2": ["b"]}
    with pytest.raises(InputError, match=message):
        compare(score(ref, ref), score(reference, reference, convention), NAMES)


def test_runs_scored_differently(tmp_path: Path) -> None:
    ref = {"s-1": ["a"]}
    for name, convention in zip(NAMES, ("plain", "strict"), strict=True):
        write_scores([score(ref, ref, convention)], tmp_path / name / "score_test.json")
    with pytest.raises(InputError, match=r"is scored plain and .* strict; score both alike"):
        run_compare(*(str(tmp_path / name) for name in NAMES))


def test_run_that_is_not_scored(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"no scored run here \(score_test\.json\); run bayes-asr score first"
    ):
        run_compare(str(tmp_path), str(tmp_path))


def made(seed: int, rate: float) -> Score:
    """Twelve speakers with four utterances each, wrong with about this probability."""
    return make_score(seed, rate, "test", "strict", utterances=48, speakers=12)


def differences_of(a: list[Score], b: list[Score]) -> np.ndarray:
    """Differences of the rates of speakers [S], means over runs, as whole numbers of one unit."""
    found = []
    for speaker, counts in a[0].speakers.items():
        mean_a, mean_b = (
            Fraction(sum(s.speakers[speaker].errors for s in side), len(side) * counts.tokens)
            for side in (a, b)
        )
        found.append(mean_a - mean_b)
    unit = math.lcm(*(d.denominator for d in found))
    return np.array([int(d * unit) for d in found])


@pytest.mark.slow
@pytest.mark.parametrize("alternative", ["two-sided", "less", "greater"])
@pytest.mark.parametrize("runs", [(1, 1), (2, 3)])
def test_tests_of_groups_equal_scipy(
    runs: tuple[int, int], alternative: Literal["two-sided", "less", "greater"]
) -> None:
    a, b = [made(i, 0.26) for i in range(runs[0])], [made(9 + i, 0.3) for i in range(runs[1])]
    comparison = compare(a, b, NAMES, 100, alternative=alternative)
    tests = {test.title: test for test in comparison.tests}
    d = differences_of(a, b)
    assert len(d) == 12
    permuted = stats.PermutationMethod(n_resamples=100_000)  # more than 2 ** 12: all of them
    exact = stats.wilcoxon(d, alternative=alternative, method=permuted)
    assert tests["Wilcoxon, exact, speakers"].p == pytest.approx(exact.pvalue)
    errors = [
        np.mean([[c.errors for c in s.speakers.values()] for s in side], axis=0) for side in (a, b)
    ]
    student = stats.ttest_rel(*errors, alternative=alternative)
    assert tests["matched pairs, Student's t, speakers"].p == pytest.approx(student.pvalue)
    assert tests["matched pairs, Student's t, speakers"].statistic == pytest.approx(
        student.statistic
    )
    greater, n = int((d > 0).sum()), int((d != 0).sum())
    sign = stats.binomtest(greater, n, alternative=alternative)
    assert tests["sign, exact, speakers"].p == pytest.approx(sign.pvalue)
    assert (comparison.a.runs, comparison.b.runs) == runs
    assert ("McNemar, exact, utterances" in tests) == (runs == (1, 1))


def test_directional_wilcoxon_equals_all_permutations() -> None:
    """Every way to give the signs, counted."""
    a, b = [made(1, 0.26), made(2, 0.26)], [made(3, 0.3)]
    d = differences_of(a, b)
    d = d[d != 0]
    ranks = stats.rankdata(np.abs(d))
    seen = ranks[d > 0].sum()
    signs = np.array(list(itertools.product((0, 1), repeat=len(d))))
    sums = signs @ ranks
    for alternative, p in (
        ("less", (sums <= seen + 1e-9).mean()),
        ("greater", (sums >= seen - 1e-9).mean()),
    ):
        comparison = compare(a, b, NAMES, 100, alternative=alternative)
        found = next(test for test in comparison.tests if test.test == "Wilcoxon, exact")
        assert found.p == pytest.approx(p)


def test_mapsswe_of_a_group_of_equal_runs_is_that_of_one() -> None:
    a, b = made(1, 0.26), made(2, 0.3)
    once, often = (compare(x, y, NAMES, 100) for x, y in ((a, b), ([a, a], [b, b, b])))
    assert once.tests[0].test == often.tests[0].test == "MAPSSWE"
    assert often.tests[0].number == once.tests[0].number
    assert often.tests[0].statistic == pytest.approx(once.tests[0].statistic)
    assert often.a.counts.rate == pytest.approx(once.a.counts.rate)
    assert often.a.beta == once.a.beta
    assert often.difference.difference.interval == pytest.approx(
        once.difference.difference.interval
    )


@pytest.mark.slow
def test_pairs_are_pooled_and_adjusted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pairs = [(made(i, 0.26), made(10 + i, 0.3)) for i in range(3)]
    names = []
    for i, pair in enumerate(pairs):
        for letter, system in zip("ab", pair, strict=True):
            names.append(str(tmp_path / f"{letter}{i}"))
            write_scores([system], tmp_path / f"{letter}{i}" / "score_test.json")
    options = ["--alternative", "less", "--json", "--replicates", "100"]
    run_compare(*names[:2], "--pair", *names[2:4], "--pair", *names[4:], *options)
    *single, pooled = json.loads(capsys.readouterr().out)
    assert [entry["a"]["name"] for entry in [*single, pooled]] == [*names[::2], "group A"]
    assert {entry["alternative"] for entry in single} == {"less"}
    p = [entry["tests"][0]["p"] for entry in single]
    adjusted = [entry["tests"][0]["adjusted_over_pairs"] for entry in single]
    order = sorted(range(3), key=lambda i: p[i])
    expected = [max(p[order[j]] * (3 - j) for j in range(k + 1)) for k in range(3)]
    assert [adjusted[i] for i in order] == pytest.approx([min(1, x) for x in expected])
    d = differences_of(*([pair[side] for pair in pairs] for side in (0, 1)))
    wilcoxon = next(t for t in pooled["tests"] if t["test"] == "Wilcoxon, exact")
    assert wilcoxon["p"] == pytest.approx(
        stats.wilcoxon(
            d, alternative="less", method=stats.PermutationMethod(n_resamples=100_000)
        ).pvalue
    )
    assert pooled["a"]["runs"] == 3
    assert "group A has fewer errors is " in pooled["sentence"]


@pytest.mark.slow
def test_a_baseline_of_several_pairs_is_not_pooled_with_itself(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base, link, *candidates = (tmp_path / name for name in ("base", "link", "n1", "n2"))
    for i, folder in enumerate((base, *candidates)):
        for seed in range(2):
            write_scores([made(2 * i + seed, 0.3)], folder / f"seed{seed}" / "score_test.json")
    link.symlink_to(base)
    expected = []
    for candidate in candidates:
        run_compare(str(base), str(candidate), "--json", "--replicates", "100")
        expected += json.loads(capsys.readouterr().out)
    for first, second in itertools.product((base, link), repeat=2):
        a, b, c, d = map(str, (first, candidates[0], second, candidates[1]))
        for words in ((a, b, "--pair", c, d), (b, a, "--pair", d, c)):
            run_compare(*words, "--json", "--replicates", "100")
            found = json.loads(capsys.readouterr().out)
            assert [entry["a"]["runs"] for entry in found] == [2, 2]
            spread = [entry["over_seeds"]["standard_error"] for entry in found]
            assert spread == pytest.approx([e["over_seeds"]["standard_error"] for e in expected])


def refuse_constant(name: str) -> None:
    raise AssertionError(f"{name} is no JSON")


def test_two_errors_against_none_are_not_significant(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ref = {f"{speaker}-1": ["a", "b", "c", "d"] for speaker in ("x", "y")}
    wrong = {utterance: ["e", *words[1:]] for utterance, words in ref.items()}
    for name, hyp in (("a", wrong), ("b", ref)):
        for run in ("seed0", "seed1"):
            write_scores([score(ref, hyp)], tmp_path / name / run / "score_test.json")
    sides = [str(tmp_path / name) for name in "ab"]
    run_compare(*sides, "--json")
    (entry,) = json.loads(capsys.readouterr().out, parse_constant=refuse_constant)
    matched = [t for t in entry["tests"] if t["test"].startswith(("MAPSSWE", "matched pairs"))]
    assert [(t["statistic"], t["p"]) for t in matched] == [(None, 0.5)] * 3
    assert entry["over_seeds"]["p"] == pytest.approx(2 / math.comb(4, 2))
    run_compare(*sides)
    assert "not significant" in capsys.readouterr().out


def test_folder_of_runs_is_one_system(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scores = [made(i, 0.3) for i in range(3)]
    for i, score_of_run in enumerate(scores):
        write_scores([score_of_run], tmp_path / "a" / f"seed{i}" / "score_test.json")
    write_scores([made(7, 0.3)], tmp_path / "b" / "score_test.json")
    run_compare(str(tmp_path / "a"), str(tmp_path / "b"), "--json", "--replicates", "100")
    (entry,) = json.loads(capsys.readouterr().out)
    assert entry["a"]["runs"] == 3
    assert entry["a"]["rate"] == pytest.approx(np.mean([s.counts.rate for s in scores]))


@pytest.mark.parametrize("copy", ["seed2_biglm", "seed2.bak", "seed1/other", "old/seed1"])
def test_a_run_beside_seeds_is_no_other_training(
    copy: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Runs of a folder are those that a report takes; what they leave out is named."""
    for i, run in enumerate(("seed1", "seed2", copy)):
        write_scores([made(i, 0.3)], tmp_path / "a" / run / "score_test.json")
    write_scores([made(7, 0.3)], tmp_path / "b" / "score_test.json")
    run_compare(str(tmp_path / "a"), str(tmp_path / "b"), "--json", "--replicates", "100")
    (entry,) = json.loads(capsys.readouterr().out)
    (reported,) = [s for s in find_systems([tmp_path / "a"]) if s.name == "a"]
    assert entry["a"]["runs"] == len(reported.runs) == 2
    assert entry["a"]["rate"] == pytest.approx(np.mean([made(i, 0.3).counts.rate for i in (0, 1)]))
    (warning,) = caplog.messages
    assert str(tmp_path / "a" / copy) in warning


def test_seeds_behind_links_are_runs_of_their_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], messages: Callable[[], str]
) -> None:
    """As where they lie on another disk; a link beside what it leads to is no other run."""
    for seed, run in enumerate(("a/seed1", "elsewhere/seed2", "b")):
        write_scores([made(seed, 0.3)], tmp_path / run / "score_test.json")
    (tmp_path / "a/seed2").symlink_to(tmp_path / "elsewhere/seed2")
    (tmp_path / "a/best").symlink_to("seed1")
    run_compare(str(tmp_path / "a"), str(tmp_path / "b"), "--json", "--replicates", "100")
    (entry,) = json.loads(capsys.readouterr().out)
    assert entry["a"]["runs"] == 2
    assert not messages()
    run_compare(str(tmp_path / "a"), str(tmp_path / "elsewhere"), "--replicates", "100")
    assert f"{tmp_path}/a/seed2: is a run of both sides" in messages()


def test_seeds_without_scores_are_named_with_their_states(tmp_path: Path, messages: Any) -> None:
    sides = [tmp_path / side for side in "ab"]
    for side, seed in itertools.product(sides, (1, 2)):
        make_run(side / f"seed{seed}", 0.3, seed)
    sides_alike = [*map(str, sides), "--replicates", "100"]
    run_compare(*sides_alike)
    assert not messages()
    (sides[0] / "seed2" / "score_test.json").unlink()
    state.write(sides[0] / "seed2", "stopped")
    run_compare(*sides_alike)
    assert f"1 run without score_test.json, left out: {sides[0]}/seed2 (stopped, epoch 24" in (
        messages()
    )


def test_other_speakers_are_refused() -> None:
    a = made(1, 0.3)
    first = replace(a.utterances[0], speaker="someone")
    b = replace(a, utterances=[first, *a.utterances[1:]])
    with pytest.raises(InputError, match="name other speakers of 1 utterance, such as spk0-000"):
        compare(a, b, NAMES)


def test_alternatives_of_a_reference_make_an_utterance_one_segment() -> None:
    """Where two systems took alternatives of other lengths, words cannot be matched."""
    reference = ("{", "it's", "/", "it", "is", "}", "so")
    scores = []
    for hypothesis in (("it's", "no"), ("it", "is", "so")):
        made_of = UtteranceScore("s-1", "s", ErrorCounts(), reference, hypothesis)
        draft = Score("test", "wer", "plain", frozenset(), "sclite", 1, 0, [made_of], "rules")
        counts = tally(draft.alignment(made_of))
        scores.append(replace(draft, utterances=[replace(made_of, counts=counts)]))
    assert len({len(score.marks[0].wrong) for score in scores}) == 2
    comparison = compare(*scores, NAMES, 100)
    assert comparison.tests[0].number == 1


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--seed", "-1"),
        ("--seed", "1" * 5000),
        ("--replicates", "0"),
        ("--replicates", "99"),
        ("--replicates", "10000000000000"),
        ("--replicates", "nan"),
        ("--replicates", "٣"),
    ],
)
def test_extreme_options_are_refused(
    option: str, value: str, runs: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        run_compare(*runs, f"{option}={value}")
    assert stopped.value.code == 2
    assert f"argument {option}: {value[:40]!r} is not " in capsys.readouterr().err


def test_least_options_work(runs: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    run_compare(*runs, "--seed", "0", "--replicates", "100")
    assert "MAPSSWE" in capsys.readouterr().out

"""The command `compare` on the golden systems of NIST, and what it refuses."""

import argparse
import json
from pathlib import Path

import pytest

from bayes_asr.cli import compare as verb
from bayes_asr.errors import InputError
from bayes_asr.score.comparison import compare
from bayes_asr.score.scores import Score, write_scores
from bayes_asr.score.sweeps import score_utterances
from tests.support.nist_oracles import read_trn

Text = dict[str, list[str]]
NAMES = ("sysA", "sysB")


def score(ref: Text, hyp: Text, convention: str = "plain") -> Score:
    speakers = {utterance: utterance.split("-")[0] for utterance in ref}
    utterances = score_utterances(ref, hyp, "hyp", "sclite", frozenset(), speakers)
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
    assert {"test", "unit", "number", "statistic", "p", "adjusted"} == set(comparison["tests"][0])


@pytest.mark.parametrize(
    ("reference", "convention", "message"),
    [
        ({"s-1": ["a"], "s-2": ["b"]}, "strict", "differ in convention: plain and strict"),
        ({"s-1": ["a"], "s-2": ["c"]}, "plain", "1 utterances differ, such as s-2"),
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
    with pytest.raises(InputError, match=r"score_test\.json: not there; run bayes-asr score first"):
        run_compare(str(tmp_path), str(tmp_path))

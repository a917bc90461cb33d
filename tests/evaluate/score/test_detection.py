"""Detection costs and confusions against sums by hand, and durations by brute force."""

import json
from pathlib import Path

import numpy as np
import pytest

from bayes_asr.base.errors import InputError
from bayes_asr.evaluate.score.comparison import compare
from bayes_asr.evaluate.score.detection import average_cost, detection_ratios, primary_cost_lre17
from bayes_asr.evaluate.score.identification import ClassifiedUtterances
from bayes_asr.evaluate.score.scores import read_scores, write_scores

NAMES = ("de", "en", "fr", "pl")


def made_up(seed: int = 1) -> ClassifiedUtterances:
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, 40)  # nobody speaks pl
    scores = rng.standard_normal((40, 4)) + 1.5 * np.eye(4)[labels]
    utterances = [f"u{number:02d}" for number in range(40)]
    return ClassifiedUtterances(NAMES, utterances, scores, scores.argmax(1), labels)


def test_ratios_are_those_of_likelihoods() -> None:
    scores = made_up().log_likelihoods_UL
    for row, found in zip(np.exp(scores), detection_ratios(scores), strict=True):
        wanted = [p / np.delete(row, k).mean() for k, p in enumerate(row)]
        np.testing.assert_allclose(np.exp(found), wanted, rtol=1e-12)
    np.testing.assert_allclose(detection_ratios(scores + 1000), detection_ratios(scores))


@pytest.mark.parametrize("p_target", [0.5, 0.1, 0.9])
@pytest.mark.parametrize(("c_miss", "c_false_alarm"), [(1, 1), (2, 3)])
def test_average_cost_is_the_sum_of_the_plan(
    p_target: float, c_miss: float, c_false_alarm: float
) -> None:
    """C_avg as the plans up to 2011 print it, loop by loop, over the languages that are there."""
    found = made_up()
    ratios, labels = detection_ratios(found.log_likelihoods_UL), found.labels_U
    threshold = np.log(c_false_alarm * (1 - p_target) / (c_miss * p_target))
    total = 0.0
    for target in range(3):
        missed = [r[target] < threshold for r, k in zip(ratios, labels, strict=True) if k == target]
        total += c_miss * p_target * np.mean(missed)
        for other in {0, 1, 2} - {target}:
            alarms = [
                r[target] >= threshold for r, k in zip(ratios, labels, strict=True) if k == other
            ]
            total += c_false_alarm * (1 - p_target) / 2 * np.mean(alarms)
    costs = {"c_miss": float(c_miss), "c_false_alarm": float(c_false_alarm)}
    cost = average_cost(ratios, labels, p_target=p_target, **costs)
    assert cost * c_miss * p_target == pytest.approx(total / 3, abs=1e-12)


def test_who_knows_all_costs_nothing_and_who_says_nothing_costs_one() -> None:
    labels = np.array([0, 1, 2, 1])
    sure = np.where(np.eye(3)[labels] > 0, 50.0, -50.0)
    assert average_cost(sure, labels, p_target=0.1) == 0
    assert average_cost(np.full((4, 3), -50.0), labels, p_target=0.1) == 1
    assert average_cost(-sure, labels, p_target=0.5) == 2
    points = [average_cost(-sure / 25, labels, p_target=p) for p in (0.5, 0.1)]
    assert primary_cost_lre17(-sure / 25, labels) == pytest.approx(np.mean(points))


def test_costs_that_mean_nothing_are_refused() -> None:
    ratios = np.zeros((2, 3))
    with pytest.raises(InputError, match="p_target is 1"):
        average_cost(ratios, np.array([0, 1]), p_target=1.0)
    with pytest.raises(InputError, match="at least 2 classes"):
        average_cost(ratios, np.array([1, 1]), p_target=0.5)
    with pytest.raises(InputError, match="1 class leaves nothing"):
        detection_ratios(np.zeros((2, 1)))
    assert made_up().take(np.array([0])).costs() == {"c_avg": None, "c_primary_lre17": None}


def test_confusions_and_durations_count_every_utterance_once() -> None:
    found = made_up()
    assert found.confusions.sum() == 40
    assert found.confusions.trace() == 40 - found.errors
    assert found.confusions[3].sum() == 0
    seconds = {utt: 3.0 + 0.75 * number for number, utt in enumerate(found.utterances)}
    parts = found.by_duration(seconds, (3, 10, 30, 900))
    nearest = {
        utt: min((3, 10, 30, 900), key=lambda n: abs(np.log(s / n))) for utt, s in seconds.items()
    }
    assert {n: list(part.utterances) for n, part in parts.items()} == {
        n: [utt for utt in found.utterances if nearest[utt] == n] for n in (3, 10, 30)
    }
    assert sum(part.errors for part in parts.values()) == found.errors


def test_compare_reads_classified_utterances(tmp_path: Path) -> None:
    a, b = made_up(), made_up(2)
    b = ClassifiedUtterances(NAMES, b.utterances, b.log_likelihoods_UL, b.decided_U, a.labels_U)
    speakers = {utt: utt[:2] for utt in a.utterances}
    scores = [one.score("test", speakers) for one in (a, b)]
    write_scores(scores[:1], tmp_path / "score_test.json")
    assert read_scores(tmp_path / "score_test.json") == scores[:1]
    (entry,) = json.loads((tmp_path / "score_test.json").read_text())
    assert (entry["metric"], entry["errors"], entry["tokens"]) == ("error", a.errors, 40)
    found = compare(*scores, names=("a", "b"), replicates=100)
    tests = {test.title: test for test in found.tests}
    only_a = int(((a.decided_U != a.labels_U) & (b.decided_U == b.labels_U)).sum())
    assert tests["McNemar, exact, utterances"].statistic == only_a

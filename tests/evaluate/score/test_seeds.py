"""The spread over seeds against Welch's test, analysis of variance, and simulated trainings."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from bayes_asr.evaluate.score.comparison import compare
from bayes_asr.evaluate.score.seeds import pooled_deviation, spread_over_seeds
from bayes_asr.evaluate.score.statistics import Alternative
from tests.support.report_runs import make_score

RATES = st.lists(st.floats(10, 40), min_size=2, max_size=6)
SPEECH = (0.0, 24)


@pytest.mark.slow
@given(a=RATES, b=RATES)
def test_two_systems_are_welchs_test(a: list[float], b: list[float]) -> None:
    a, b = [*a, 20.0, 21.0], [*b, 30.0, 31.5]
    for alternative in ("two-sided", "less", "greater"):
        expected = stats.ttest_ind(a, b, equal_var=False, alternative=alternative)
        found = spread_over_seeds([a], [b], SPEECH, alternative)
        assert found
        assert found.p == pytest.approx(expected.pvalue)
    assert found.standard_error == pytest.approx(expected._standard_error)
    # Without chance in speech, the interval is that of the test.
    interval = stats.ttest_ind(a, b, equal_var=False).confidence_interval()
    assert found.interval == pytest.approx((interval.low, interval.high))


@given(systems=st.lists(RATES, min_size=1, max_size=4))
def test_deviation_is_that_within_groups_of_an_analysis_of_variance(
    systems: list[list[float]],
) -> None:
    within = sum(len(s) * np.var(s) for s in systems) / sum(len(s) - 1 for s in systems)
    assert pooled_deviation(systems) == pytest.approx(np.sqrt(within), abs=1e-9)
    assert pooled_deviation([*systems, [99.0]]) == pytest.approx(pooled_deviation(systems)), (
        "one run has no spread"
    )


def test_differences_between_systems_of_a_group_are_no_spread_over_seeds() -> None:
    a, b = [[20.0, 20.2], [30.0, 30.2]], [[25.0, 25.2]]
    found = spread_over_seeds(a, b, SPEECH)
    assert found
    # Means of 4 and 2 runs of the same deviation.
    assert found.standard_error == pytest.approx(np.sqrt(0.02 / 4 + 0.02 / 2))


def test_runs_without_seeds_have_no_spread() -> None:
    assert pooled_deviation([[20.0], [30.0]]) is None
    assert spread_over_seeds([[20.0]], [[30.0, 31.0]], SPEECH) is None
    same = spread_over_seeds([[20.0, 20.0]], [[20.0, 20.0]], SPEECH)
    assert same == (0, 1, (0, 0))
    many = spread_over_seeds([[8.1] * 3], [[8.1] * 7], SPEECH)
    assert many == (0, 1, (0, 0))


@pytest.mark.parametrize("alternative", ["two-sided", "less", "greater"])
@pytest.mark.parametrize("runs", [(2, 2), (3, 3), (3, 5)])
def test_equal_runs_say_what_their_permutations_do(
    runs: tuple[int, int], alternative: Alternative
) -> None:
    a, b = [20.1] * runs[0], [21.3] * runs[1]
    expected = stats.permutation_test(
        (a, b), lambda x, y: np.mean(x) - np.mean(y), n_resamples=100, alternative=alternative
    )
    found = spread_over_seeds([a], [b], SPEECH, alternative)
    assert found
    assert found.standard_error == 0
    assert found.p == pytest.approx(expected.pvalue)


@pytest.mark.slow
def test_interval_over_seeds_and_speech_holds_the_truth() -> None:
    """Trainings and speakers drawn anew: 95 % of the intervals, rather more, hold 0."""
    rng = np.random.default_rng(4)
    sets, runs, speakers = 2000, 3, 24
    held = []
    for _ in range(sets):
        of_speakers = rng.normal(0, 2, size=(2, 1, speakers))
        of_runs = rng.normal(0, 0.5, size=(2, runs, 1))
        rates = 25 + of_speakers + of_runs + rng.normal(0, 1, size=(2, runs, speakers))
        paired = rates[0].mean(axis=0) - rates[1].mean(axis=0)
        error = paired.std(ddof=1) / np.sqrt(speakers)
        a, b = (side.mean(axis=1).tolist() for side in rates)
        found = spread_over_seeds([a], [b], (error, speakers))
        assert found
        held.append(found.interval.low < 0 < found.interval.high)
    assert 0.94 < np.mean(held) < 0.98


def test_comparison_says_what_is_random() -> None:
    scores = [make_score(i, 0.3, "test", "strict", utterances=48, speakers=12) for i in range(4)]
    comparison = compare(scores[:2], scores[2:], ("a", "b"), 100)
    rates = [score.counts.rate for score in scores]
    assert comparison.a.deviation == pytest.approx(np.std(rates[:2], ddof=1))
    assert comparison.seeds
    assert comparison.seeds.p == pytest.approx(
        stats.ttest_ind(rates[:2], rates[2:], equal_var=False).pvalue
    )
    said = comparison.seeds_sentence()
    assert "speech is random, and the networks are fixed" in said
    assert f"Standard deviation over seeds: {comparison.a.deviation:.2f} of a" in said
    assert "over seeds and speakers its 95 % interval is" in said
    assert "another seed" in compare(scores[0], scores[1], ("a", "b"), 100).seeds_sentence()
    half = compare(scores[:2], scores[2], ("a", "b"), 100)
    assert half.seeds is None
    assert half.seeds_sentence().endswith("of a. A system with one run has none.")

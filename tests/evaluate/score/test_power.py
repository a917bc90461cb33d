"""Power against closed forms, scipy's noncentral t, and simulated sets of known variance."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from bayes_asr.evaluate.score.comparison import compare
from bayes_asr.evaluate.score.paired_tests import PairedErrors
from bayes_asr.evaluate.score.power import Precision, detect, find_shift, measure_precision
from bayes_asr.evaluate.score.statistics import matched_pairs, paired_bootstrap
from tests.support.report_runs import make_score


def test_normal_shift_is_the_closed_form() -> None:
    assert find_shift(0.05, 0.8) == pytest.approx(1.959964 + 0.841621, abs=1e-6)
    assert find_shift(0.05 / 4, 0.9) == pytest.approx(2.497705 + 1.281552, abs=1e-6)


@pytest.mark.parametrize("freedom", [2, 3, 7, 23, 200])
@pytest.mark.parametrize("level", [0.05, 0.0125])
def test_student_shift_has_its_power_by_the_noncentral_t(freedom: int, level: float) -> None:
    shift = find_shift(level, 0.8, freedom)
    found = stats.nct.sf(stats.t.isf(level / 2, freedom), freedom, shift)
    assert found == pytest.approx(0.8, abs=1e-4)


def test_student_shift_is_larger_and_tends_to_the_normal() -> None:
    shifts = [find_shift(0.05, 0.8, freedom) for freedom in (1, 3, 23, 1000)]
    assert shifts == sorted(shifts, reverse=True)
    assert find_shift(0.05, 0.8) < shifts[-1] < 1.002 * find_shift(0.05, 0.8)


@pytest.mark.slow
@pytest.mark.parametrize(("unit", "number"), [("utterance", 200), ("speaker", 6)])
def test_simulated_sets_show_the_difference_as_often_as_said(unit: str, number: int) -> None:
    """Sets of a known spread, whose true difference is what a set is said to show."""
    rng = np.random.default_rng(3)
    tokens, deviation = 40, 2.5
    error = 100 * deviation / (tokens * np.sqrt(number))
    detectable = detect(Precision(unit, number, error), 20.0)
    shift = detectable.points / 100 * tokens
    samples = rng.normal(shift, deviation, size=(4000, number))
    found = [matched_pairs(sample, np.zeros(number)) for sample in samples]
    p = [result.p if unit == "utterance" else result.p_student for result in found]
    assert np.mean(np.less(p, 0.05)) == pytest.approx(0.8, abs=0.02)
    assert detectable.relative == pytest.approx(5 * detectable.points)


def test_precision_is_the_error_of_the_paired_bootstrap() -> None:
    rng = np.random.default_rng(5)
    tokens = np.full(200, 30)
    pairs = PairedErrors(rng.binomial(tokens, 0.3), rng.binomial(tokens, 0.25), tokens)
    precision = measure_precision("utterance", pairs.a - pairs.b, pairs.tokens)
    assert precision
    drawn = paired_bootstrap(*pairs).difference.standard_error
    assert precision.standard_error == pytest.approx(drawn, rel=0.03)


@given(st.lists(st.integers(0, 9), min_size=2, max_size=20), st.integers(2, 5))
def test_precision_does_not_depend_on_how_often_runs_count(errors: list[int], times: int) -> None:
    a = np.array([*errors, 3, 4])
    once = PairedErrors(a, np.zeros_like(a), np.full(len(a), 10))
    often = PairedErrors(*(times * column for column in once))
    first, second = (
        measure_precision("speaker", pairs.a - pairs.b, pairs.tokens) for pairs in (once, often)
    )
    assert first
    assert second
    assert second.standard_error == pytest.approx(first.standard_error)


def test_nothing_is_said_without_a_spread() -> None:
    assert measure_precision("speaker", np.zeros(1, int), np.ones(1, int)) is None
    assert measure_precision("utterance", np.zeros(5, int), np.ones(5, int)) is None
    assert detect(Precision("speaker", 5, 1.0), 0.0).relative is None


def test_holm_asks_for_more_and_the_sentence_says_so() -> None:
    a, b = (make_score(seed, 0.3, "test", "strict", utterances=48, speakers=12) for seed in (1, 2))
    comparison = compare(a, b, ("a", "b"), 100)
    alone, among = comparison.detectable(), comparison.detectable(4)
    assert [d.unit for d in alone] == ["utterance", "speaker"]
    assert [d.level for d in among] == [0.0125, 0.0125]
    assert all(x.points < y.points for x, y in zip(alone, among, strict=True))
    said = comparison.power_sentence(4)
    assert "At p < 0.0125, two-sided" in said
    assert f"{among[0].points:.2f} points ({among[0].relative:.1f} %) over 48 utterances" in said
    itself = compare(a, a, ("a", "a"), 100)
    assert itself.detectable() == []
    assert "no difference" in itself.power_sentence()


@pytest.mark.parametrize("as_groups", [False, True])
@pytest.mark.parametrize(("utterances", "why"), [(60, "all units differ alike"), (1, "one unit")])
def test_units_that_tell_no_spread_are_said_to_be_one_or_alike(
    utterances: int, why: str, as_groups: bool
) -> None:
    score = make_score(1, 0.3, "test", "strict", utterances=utterances, speakers=12)
    comparison = compare(score, score, ("A", "B"), 100, as_groups=as_groups)
    assert not comparison.detectable()
    assert why in comparison.power_sentence()

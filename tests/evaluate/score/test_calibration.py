"""Calibration against its definition case by case, and on labels drawn by known posteriors."""

import numpy as np
import pytest

from bayes_asr.evaluate.score.calibration import (
    Predictions,
    calibration_error,
    decide,
    fit_temperature,
)

RNG = np.random.default_rng(3)


def draw_labels(posteriors: np.ndarray) -> np.ndarray:
    """A label of each row by its probabilities."""
    return (posteriors.cumsum(1) < RNG.random(len(posteriors))[:, None]).sum(1)


def draw_posteriors(cases: int, labels: int) -> np.ndarray:
    """Log posteriors [cases, labels] of many degrees of certainty."""
    x = RNG.normal(size=(cases, labels)) * RNG.uniform(0.5, 4, (cases, 1))
    return x - np.log(np.exp(x).sum(1, keepdims=True))


@pytest.mark.parametrize("bins", [1, 2, 15])
def test_error_is_the_mean_gap_of_bins(bins: int) -> None:
    confidences = np.r_[RNG.random(200), 1.0, 0.0]
    right = RNG.random(202) < 0.4
    expected = 0.0
    for b in range(bins):
        inside = [
            (c, r)
            for c, r in zip(confidences, right, strict=True)
            if b / bins <= c < (b + 1) / bins or (c == 1 and b == bins - 1)
        ]
        if inside:
            c, r = zip(*inside, strict=True)
            expected += len(inside) / 202 * abs(sum(r) / len(r) - sum(c) / len(c))
    error = calibration_error(Predictions(confidences, right), bins)
    assert error == pytest.approx(expected, abs=1e-12)


def test_decisions_are_those_of_cooled_posteriors() -> None:
    log_posteriors, labels = draw_posteriors(50, 5), RNG.integers(0, 5, 50)
    powers = np.exp(log_posteriors) ** (1 / 2.5)
    decisions = decide(log_posteriors, labels, 2.5)
    assert decisions.confidences == pytest.approx((powers / powers.sum(1)[:, None]).max(1))
    assert (decisions.right == (powers.argmax(1) == labels)).all()


@pytest.mark.parametrize("sharpened", [0.5, 1.0, 2.0])
def test_temperature_undoes_what_posteriors_were_sharpened_by(sharpened: float) -> None:
    true = draw_posteriors(40_000, 6)
    labels = draw_labels(np.exp(true))
    fitted = fit_temperature(true * sharpened, labels)
    assert fitted == pytest.approx(sharpened, rel=0.03)
    assert calibration_error(decide(true * sharpened, labels, fitted)) < 0.01
    if sharpened != 1:
        assert calibration_error(decide(true * sharpened, labels)) > 0.05

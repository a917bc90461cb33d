"""Learning rates: pytorch-kaldi's rule, and the cosine's closed form."""

import numpy as np
import pytest

from bayes_asr.config import load
from bayes_asr.train.schedules import cosine, newbob


@pytest.mark.parametrize(
    ("errors", "rate"),
    [
        ([], 1.0),
        ([0.5], 1.0),
        ([0.5, 0.4], 1.0),
        ([0.5, 0.4999], 0.5),  # fell by 0.0002 of itself: less than 0.001
        ([0.5, 0.4994], 1.0),  # by 0.0012
        ([0.5, 0.5], 0.5),
        ([0.5, 0.6], 0.5),
        ([0.5, 0.6, 0.4], 1.0),  # only the last two epochs count
    ],
)
def test_newbob_is_pytorch_kaldis_rule(errors: list[float], rate: float) -> None:
    """run_exp.py: halve unless (previous - current) / current >= improvement_threshold."""
    config = load([], ["train.schedule=newbob", "train.halving_factor=0.5"]).train
    assert newbob(config, 1.0, errors) == rate
    if len(errors) > 1:
        before, now = errors[-2:]
        fell = (before - now) / now
        assert rate == (1 if fell >= 0.001 else 0.5)


def test_cosine_starts_at_the_rate_and_ends_above_0() -> None:
    config = load([], ["train.epochs=4", "train.learning_rate=2"]).train
    rates = [cosine(config, 0.0, [0.5] * done) for done in range(5)]
    np.testing.assert_allclose(rates, [2, 1 + 2**-0.5, 1, 1 - 2**-0.5, 0], atol=1e-12)

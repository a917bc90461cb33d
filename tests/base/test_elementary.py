"""The exponential, logarithm and cosine against mpmath's, whose digits do not end."""

import math
from collections.abc import Callable

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayes_asr.base import elementary

NUMBERS = {
    "exp": st.floats(-708, 709),
    "log": st.floats(0, exclude_min=True, allow_infinity=False),
    "cos": st.floats(-8, 8) | st.sampled_from([math.pi / 2, -math.pi / 2, 2.5 * math.pi]),
}
LEAST_UNIT = {"exp": 1e-300, "log": 1e-300, "cos": 2.0**-53}


@pytest.mark.parametrize("name", NUMBERS)
def test_values_are_within_two_units_of_the_last_place(name: str) -> None:
    ours: Callable[[float], np.ndarray] = getattr(elementary, name)
    exact = getattr(mpmath, name)

    @given(NUMBERS[name])
    def check(x: float) -> None:
        found = float(ours(x))
        with mpmath.workprec(200):
            true = exact(mpmath.mpf(x))
            assert abs(mpmath.mpf(found) - true) <= 2 * max(math.ulp(float(true)), LEAST_UNIT[name])

    check()


@given(NUMBERS["exp"], NUMBERS["log"])
def test_numbers_have_the_bits_of_arrays(x: float, y: float) -> None:
    assert elementary.exp_scalar(x) == elementary.exp(x)
    assert elementary.log_scalar(y) == elementary.log(y)


@given(st.floats(0, 1e12), st.sampled_from([0.2, 0.25, 0.5, 1.0]))
def test_powers(x: float, exponent: float) -> None:
    assert float(elementary.power(x, exponent)) == pytest.approx(x**exponent, rel=1e-13)


def test_ends_of_the_range() -> None:
    exp, log = elementary.exp, elementary.log
    np.testing.assert_array_equal(exp([-np.inf, -709, 0, 710, np.inf]), [0, 0, 1, np.inf, np.inf])
    np.testing.assert_array_equal(log([0, 1, np.inf, -1]), [-np.inf, 0, np.inf, np.nan])
    assert np.isnan(exp(np.nan))
    assert np.isnan(log(np.nan))


@pytest.mark.parametrize("x", [-np.inf, -709.0, -1.0, 0.0, 710.0, np.inf, np.nan])
def test_ends_of_the_range_of_numbers(x: float) -> None:
    np.testing.assert_array_equal(elementary.exp_scalar(x), elementary.exp(x))
    np.testing.assert_array_equal(elementary.log_scalar(x), elementary.log(x))


def test_floats32_are_taken_as_they_are() -> None:
    x = np.random.default_rng(0).normal(size=(3, 5)).astype(np.float32)
    np.testing.assert_array_equal(elementary.exp(x), elementary.exp(x.astype(np.float64)))

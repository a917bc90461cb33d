"""Products, likelihoods, transforms in C++: the bits of NumPy, whatever the processor has."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayes_asr.base import elementary
from bayes_asr.gmm import compiled
from bayes_asr.gmm.clusterable import refine, refine_in_numpy
from bayes_asr.gmm.likelihood import divide, divide_in_numpy, score, score_in_numpy
from bayes_asr.gmm.linear_algebra import invert, log, multiply, multiply_in_numpy
from bayes_asr.gmm.row_updates import update_rows, update_rows_in_numpy

SIZES = st.integers(0, 40)
SEEDS = st.integers(0, 2**32 - 1)
needs_library = pytest.mark.skipif(not compiled.LIBRARY.usable, reason="_gmm.so is not built")


def assert_same_bits(a: np.ndarray, b: np.ndarray) -> None:
    """NaN is NaN, whatever its sign."""
    assert a.dtype == b.dtype
    np.testing.assert_array_equal(a, b)
    known = ~np.isnan(a)
    assert np.ascontiguousarray(a)[known].tobytes() == np.ascontiguousarray(b)[known].tobytes()


@given(SIZES, st.integers(0, 600), SIZES, SEEDS)
def test_products_are_those_of_blas(rows: int, depth: int, columns: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(rows, depth)), rng.normal(size=(depth, columns))
    np.testing.assert_allclose(multiply(a, b), a @ b, rtol=1e-9, atol=1e-9)


@needs_library
@given(SIZES, st.integers(0, 600), SIZES, SEEDS, st.sampled_from(["f4", "f8"]))
def test_products_are_the_same_bits(
    rows: int, depth: int, columns: int, seed: int, kind: str
) -> None:
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(depth, rows)).astype(kind), rng.normal(size=(2 * depth, columns))
    assert_same_bits(multiply(a.T, b[::2]), multiply_in_numpy(a.T, b[::2]))


@needs_library
@given(st.lists(st.floats(2.0**-1022, allow_infinity=False), max_size=20))
def test_logarithms_are_the_same_bits(x: list[float]) -> None:
    assert_same_bits(log(np.array(x)), elementary.log(np.array(x)))


def test_what_has_no_product_is_refused() -> None:
    with pytest.raises(ValueError, match=r"no product of \[2, 3\] and \[2, 3\]"):
        multiply(np.ones((2, 3)), np.ones((2, 3)))


def example(seed: int, frames: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Frames, first Gaussians, slopes; one frame is infinite and one Gaussian weighs nothing."""
    rng = np.random.default_rng(seed)
    first = np.concatenate(([0], np.cumsum(rng.integers(1, 20, 9))))
    x = rng.normal(size=(frames, 13)).astype(np.float32)
    slopes = rng.normal(scale=4, size=(first[-1], 13))
    slopes[1, -1] = -np.inf
    x[frames // 2, 0] = np.inf
    x[:, -1] = 1
    return x, first, slopes


@needs_library
@given(SEEDS, st.integers(1, 100))
def test_likelihoods_are_the_same_bits(seed: int, frames: int) -> None:
    x, first, slopes = example(seed, frames)
    with np.errstate(invalid="ignore"):
        assert_same_bits(score(x, first, slopes), score_in_numpy(x, first, slopes))
        for ours, theirs in zip(divide(x, slopes), divide_in_numpy(x, slopes), strict=True):
            assert_same_bits(ours, theirs)


@needs_library
def test_every_path_gives_the_same_bits() -> None:
    x, first, slopes = example(3, 77)
    a = np.random.default_rng(4).normal(size=(21, 700))
    inverses = invert(multiply(a, a.T) + np.eye(21) * np.arange(1, 22)[:, None, None])
    expected = update_rows_in_numpy(900, inverses, None, None, 3)
    points = np.abs(a[:, :79])
    halves = [points[:10].sum(0), points[10:].sum(0)]
    paths = compiled.LIBRARY.call("take_path", 0)
    for path in range(paths):
        compiled.LIBRARY.call("take_path", path)
        with np.errstate(invalid="ignore"):
            assert_same_bits(score(x, first, slopes), score_in_numpy(x, first, slopes))
            assert_same_bits(divide(x, slopes)[1], divide_in_numpy(x, slopes)[1])
        assert_same_bits(multiply(a, a.T), multiply_in_numpy(a, a.T))
        assert_same_bits(log(np.abs(a)), elementary.log(np.abs(a)))
        assert_same_bits(update_rows(900, inverses, None, 3), expected)
        moved, defined = np.stack(halves), np.stack(halves)
        refine(points, moved, np.repeat([0, 1], [10, 11]))
        refine_in_numpy(points, defined, np.repeat([0, 1], [10, 11]))
        assert_same_bits(moved, defined)

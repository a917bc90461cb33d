"""Inverses, determinants and eigenvectors against LAPACK's."""

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given
from hypothesis import strategies as st

from bayes_asr.gmm.linear_algebra import (
    cholesky,
    dot,
    eigh,
    invert,
    log_determinant,
    replace_row,
    solve_lower,
)

SIZES = st.integers(1, 24)
SEEDS = st.integers(0, 2**32 - 1)


def positive(size: int, seed: int) -> np.ndarray:
    """A matrix [size, size] whose eigenvalues are 0.5 and more."""
    x = np.random.default_rng(seed).normal(size=(size, size + 3))
    return np.asarray(x @ x.T / size + 0.5 * np.eye(size))


@given(SIZES, SEEDS)
def test_inverses_are_those_of_lapack(size: int, seed: int) -> None:
    some = np.stack([positive(size, seed), positive(size, seed + 1)])
    turned = some[:, ::-1]  # its pivots are not on the diagonal
    np.testing.assert_allclose(invert(some), np.linalg.inv(some), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(invert(turned), np.linalg.inv(turned), rtol=1e-9, atol=1e-9)


@given(SIZES, SEEDS)
def test_determinants_are_those_of_lapack(size: int, seed: int) -> None:
    matrix = positive(size, seed)[::-1]
    assert log_determinant(matrix) == pytest.approx(np.linalg.slogdet(matrix)[1], abs=1e-9)


@pytest.mark.parametrize("matrix", [np.zeros((2, 2)), np.ones((3, 3)), np.diag([1.0, 0, 2])])
def test_singular_matrices_are_refused(matrix: np.ndarray) -> None:
    with pytest.raises(np.linalg.LinAlgError):
        invert(matrix)
    with pytest.raises(np.linalg.LinAlgError):
        invert(np.stack([np.eye(len(matrix)), matrix]))


@given(SIZES, SEEDS)
def test_rows_are_replaced(size: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    matrix, row = positive(size, seed), int(rng.integers(size))
    inverse = invert(matrix)
    change = 0.1 * rng.normal(size=size)
    changed = matrix.copy()
    changed[row] += change
    replace_row(inverse, row, change)
    np.testing.assert_allclose(inverse @ changed, np.eye(size), atol=1e-6)


@given(SIZES, SEEDS)
def test_triangles_are_those_of_lapack(size: int, seed: int) -> None:
    matrix = positive(size, seed)
    lower = cholesky(matrix)
    np.testing.assert_allclose(lower, np.linalg.cholesky(matrix), rtol=1e-9, atol=1e-12)
    b = np.random.default_rng(seed).normal(size=(size, 2))
    expected = scipy.linalg.solve_triangular(lower, b, lower=True)
    np.testing.assert_allclose(solve_lower(lower, b), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("matrix", [-np.eye(2), np.ones((2, 2)), np.array([[np.nan]])])
def test_triangles_of_what_is_not_positive_are_refused(matrix: np.ndarray) -> None:
    with pytest.raises(np.linalg.LinAlgError):
        cholesky(matrix)


@pytest.mark.slow
@given(SIZES, SEEDS, st.integers(0, 24))
def test_eigenvectors_are_those_of_lapack(size: int, seed: int, rank: int) -> None:
    """Of matrices that lack ranks, too, as the covariance between few classes does."""
    x = np.random.default_rng(seed).normal(size=(size, rank))
    matrix = np.asarray(x @ x.T)
    values, vectors = eigh(matrix)
    largest = max(1.0, np.abs(matrix).max())
    np.testing.assert_allclose(values, np.linalg.eigvalsh(matrix), atol=1e-12 * largest)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(size), atol=1e-12)
    np.testing.assert_allclose(vectors * values @ vectors.T, matrix, atol=1e-12 * largest)


def test_rotations_without_an_end_are_refused() -> None:
    with pytest.raises(np.linalg.LinAlgError):
        eigh(np.array([[1.0, np.nan], [np.nan, 1.0]]))


def test_products_of_rows() -> None:
    a, b = np.random.default_rng(0).normal(size=(2, 4, 7))
    np.testing.assert_allclose(dot(a, b), np.einsum("ij,ij->i", a, b))

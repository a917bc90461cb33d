"""Linear and affine transforms: one after the other is their composition."""

import numpy as np
import pytest

from bayes_asr.base.errors import InputError
from bayes_asr.gmm.affine import apply_transform, compose, identity

RNG = np.random.default_rng(1)
X = RNG.normal(size=(7, 4)).astype(np.float32)


def matrix(rows: int, columns: int) -> np.ndarray:
    return RNG.normal(size=(rows, columns)).astype(np.float32)


def test_last_column_is_an_offset() -> None:
    linear, offset = matrix(3, 4), matrix(3, 1)
    expected = np.stack([linear @ frame for frame in X])
    np.testing.assert_allclose(apply_transform(linear, X), expected, rtol=1e-5)
    affine = np.hstack((linear, offset))
    np.testing.assert_allclose(apply_transform(affine, X), expected + offset.T, rtol=1e-4)
    assert apply_transform(affine, X).dtype == np.float32


def test_identity_changes_nothing() -> None:
    np.testing.assert_array_equal(apply_transform(identity(4), X), X)


@pytest.mark.parametrize(
    ("second", "first", "affine"),
    [
        (matrix(3, 3), matrix(3, 4), False),  # MLLT after LDA
        (matrix(3, 4), matrix(3, 4), False),  # fMLLR after LDA
        (matrix(4, 5), matrix(4, 5), True),  # fMLLR after fMLLR
        (matrix(3, 4), matrix(4, 5), True),  # LDA after fMLLR
    ],
    ids=["linear", "affine-linear", "affine-affine", "linear-affine"],
)
def test_composition_is_one_after_the_other(
    second: np.ndarray, first: np.ndarray, affine: bool
) -> None:
    expected = apply_transform(second, apply_transform(first, X))
    found = apply_transform(compose(second, first, affine=affine), X)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(InputError, match=r"\[3, 7\] cannot follow one of \[4, 5\]"):
        compose(matrix(3, 7), matrix(4, 5))
    with pytest.raises(ValueError, match=r"\[3, 7\] does not fit features of 4 values"):
        apply_transform(matrix(3, 7), X)

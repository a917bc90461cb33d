"""Transforms row by row: C++ gives the bits of NumPy, each row is the best."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from bayes_asr.gmm import compiled
from bayes_asr.gmm.linear_algebra import dot, eliminate, eliminate_in_numpy, invert
from bayes_asr.gmm.row_updates import best_step, update_rows, update_rows_in_numpy

SEEDS = st.integers(0, 2**32 - 1)
needs_library = pytest.mark.skipif(not compiled.LIBRARY.usable, reason="_gmm.so is not built")


def example(dim: int, width: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Inverses of scatters [D, W, W] and a linear term [D, W]."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(dim, width, width + 3))
    scatters = x @ x.swapaxes(1, 2) + 0.5 * np.eye(width)
    return invert(scatters), 100 * rng.normal(size=(dim, width))


@needs_library
@given(st.integers(1, 20), st.booleans(), SEEDS)
def test_transforms_are_the_same_bits(dim: int, linear: bool, seed: int) -> None:
    inverses, terms = example(dim, dim + linear, seed)
    chosen = terms if linear else None
    offsets = dot(inverses, terms[:, None]) if linear else None
    first = np.ascontiguousarray(inverses[:, :, :dim])
    expected = update_rows_in_numpy(1000, first, offsets, chosen, 5)
    assert update_rows(1000, inverses, chosen, 5).tobytes() == expected.tobytes()


@needs_library
def test_long_rows_are_the_same_bits() -> None:
    """NumPy halves sums of more than 128 terms."""
    for dim in (129, 150, 270):
        inverses, _ = example(3, dim, dim)
        whole = np.concatenate((inverses, np.broadcast_to(np.eye(dim), (dim - 3, dim, dim))))
        expected = update_rows_in_numpy(1000, whole, None, None, 1)
        assert update_rows(1000, whole, None, 1).tobytes() == expected.tobytes()


@needs_library
@given(st.integers(1, 30), st.integers(0, 9), st.integers(1, 3), SEEDS)
def test_eliminations_are_the_same_bits(size: int, more: int, count: int, seed: int) -> None:
    work = np.random.default_rng(seed).normal(size=(count, size, size + more))
    twin = work.copy()
    assert eliminate(work).tobytes() == eliminate_in_numpy(twin).tobytes()
    assert work.tobytes() == twin.tobytes()


@given(st.floats(0.01, 100), st.floats(-100, 100), st.floats(1, 1000))
def test_steps_are_the_best(e1: float, e2: float, count: float) -> None:
    def loss(alpha: float) -> float:
        return alpha * alpha * e1 / 2 - count * np.log(max(abs(alpha * e1 + e2), 1e-300))

    step = best_step(e1, e2, count)
    for edge in (-e2 / e1 - 1e3, -e2 / e1 + 1e3):  # on both sides of where the logarithm ends
        bounds = sorted((-e2 / e1, edge))
        assert loss(step) <= minimize_scalar(loss, bounds=bounds, method="bounded").fun + 1e-6


@pytest.mark.parametrize("built", [True, False])
def test_singular_scatters_are_refused(
    built: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not built:
        absent = replace(compiled.LIBRARY, file=tmp_path / "none.so")
        monkeypatch.setattr(compiled, "LIBRARY", absent)
    for inverses in (np.zeros((3, 3, 3)), -np.ones((2, 2, 2)), np.full((2, 2, 2), np.nan)):
        with pytest.raises(np.linalg.LinAlgError):
            update_rows(1000, inverses, None, 2)

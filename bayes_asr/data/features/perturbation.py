"""Training utterances made a little different in every epoch, which little speech needs."""

from collections.abc import Sequence

import numpy as np


def perturb(
    matrices: Sequence[np.ndarray], key: int, *, noise: float, tempo: float
) -> tuple[list[np.ndarray], np.ndarray]:
    """Change the tempo of an utterance and add noise to it; depends on `key` only.

    matrices: its features [T, F] in each stream, whose frames stay together.
    tempo: the utterance becomes faster or slower by a factor drawn from 1 - tempo to 1 + tempo
    (as speed perturbation, Ko et al. 2015, but of features: values between frames are linear).
    noise: standard deviation of Gaussian noise on every value.
    Returns features [T', F] and, for each of their frames, the nearest frame before [T'].
    """
    rng = np.random.default_rng(key % 2**64)
    frames = len(matrices[0])
    source = np.arange(0, frames - 0.5, 1 + rng.uniform(-tempo, tempo)).clip(0, frames - 1)
    changed = [_resample(matrix, source) if tempo else matrix for matrix in matrices]
    if noise:
        changed = [x + noise * rng.standard_normal(x.shape, dtype=np.float32) for x in changed]
    return changed, np.rint(source).astype(np.intp)


def _resample(matrix: np.ndarray, source: np.ndarray) -> np.ndarray:
    """The values [T', F] of features [T, F] at places between frames [T']."""
    lower = source.astype(np.intp)
    share = (source - lower)[:, None].astype(np.float32)
    upper = np.minimum(lower + 1, len(matrix) - 1)
    return (1 - share) * matrix[lower] + share * matrix[upper]

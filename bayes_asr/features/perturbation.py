"""Training utterances made a little different in every epoch, which little speech needs."""

import numpy as np


def perturbed(
    matrix: np.ndarray, key: int, *, noise: float, tempo: float
) -> tuple[np.ndarray, np.ndarray]:
    """Change the tempo of features [T, F] and add noise; depends on `key` only.

    tempo: the utterance becomes faster or slower by a factor drawn from 1 - tempo to 1 + tempo
    (as speed perturbation, Ko et al. 2015, but of features: values between frames are linear).
    noise: standard deviation of Gaussian noise on every value.
    Returns features [T', F] and, for each of their frames, the nearest frame of `matrix` [T'].
    """
    rng = np.random.default_rng(key % 2**64)
    frames = len(matrix)
    source = np.arange(0, frames - 0.5, 1 + rng.uniform(-tempo, tempo)).clip(0, frames - 1)
    if tempo:
        before = source.astype(np.intp)
        share = (source - before)[:, None].astype(np.float32)
        after = np.minimum(before + 1, frames - 1)
        matrix = (1 - share) * matrix[before] + share * matrix[after]
    if noise:
        matrix = matrix + noise * rng.standard_normal(matrix.shape, dtype=np.float32)
    return matrix, np.rint(source).astype(np.intp)

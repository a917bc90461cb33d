"""From stored features to what the network reads: speaker normalisation, deltas, context.

Each step maps one utterance [T, F] to [T, F'] and never sees another one. Only `Normalisation` and
the speaker statistics carry numbers from elsewhere: from the training data and from the speaker.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

Cmvn = Literal["none", "mean", "mean-variance"]
DELTA_WINDOW = 2  # frames on either side of a derivative
VARIANCE_FLOOR = 1e-20  # as Kaldi's apply-cmvn
LEAST_DEVIATION = 1e-5  # what varies less over all training data counts as constant


def statistics(matrices: Iterable[np.ndarray]) -> np.ndarray:
    """Kaldi's CMVN statistics [2, F+1] of some utterances: sums and count, sums of squares and 0.

    As compute-cmvn-stats.
    """
    total: np.ndarray | float = 0.0
    for matrix in matrices:
        x = matrix.astype(np.float64)
        sums = np.append(x.sum(0), len(x))
        total = total + np.stack((sums, np.append((x * x).sum(0), 0.0)))
    return np.asarray(total)


def mean_and_deviation(stats: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean [F] and standard deviation [F] from CMVN statistics [2, F+1]."""
    mean = stats[0, :-1] / stats[0, -1]
    variance = np.maximum(stats[1, :-1] / stats[0, -1] - mean**2, VARIANCE_FLOOR)
    return mean, np.sqrt(variance)


@dataclass(frozen=True)
class Normalisation:
    """One mean and deviation [F] for all utterances, from training data; kept in the checkpoint."""

    mean: np.ndarray
    deviation: np.ndarray

    @classmethod
    def of(cls, matrices: Iterable[np.ndarray]) -> "Normalisation":
        """Measure it on training features.

        A column that is constant there gets deviation 1: elsewhere it must not grow beyond measure.
        """
        mean, deviation = mean_and_deviation(statistics(matrices))
        deviation = np.where(deviation > LEAST_DEVIATION, deviation, 1.0)
        return cls(mean.astype(np.float32), deviation.astype(np.float32))

    def __call__(self, matrix: np.ndarray) -> np.ndarray:
        """Normalise features [T, F]."""
        return (matrix - self.mean) / self.deviation


def deltas(matrix: np.ndarray, order: int) -> np.ndarray:
    """Append `order` derivatives over +-2 frames [T, F * (order + 1)], as add-deltas.

    Frames beyond an end repeat the frame at the end. Derivative i+1 applies the regression weights
    to those of derivative i (Kaldi's feature-functions.cc, DeltaFeatures).
    """
    offsets = np.arange(-DELTA_WINDOW, DELTA_WINDOW + 1)
    step = offsets / np.square(offsets).sum()
    weights, parts = np.ones(1), [matrix]
    for _ in range(order):
        weights = np.convolve(weights, step)
        reach = len(weights) // 2
        padded = np.pad(matrix, ((reach, reach), (0, 0)), mode="edge")
        parts.append(sliding_window_view(padded, len(weights), axis=0) @ weights)
    return np.concatenate(parts, axis=1).astype(np.float32)


def splice(matrix: np.ndarray, left: int, right: int) -> np.ndarray:
    """Each frame with its neighbours [T, F * (left + 1 + right)], as Kaldi's splice-feats.

    Frames beyond an end repeat the frame at the end.
    """
    positions = np.arange(len(matrix))[:, None] + np.arange(-left, right + 1)
    return matrix[positions.clip(0, len(matrix) - 1)].reshape(len(matrix), -1)


def prepare(matrix: np.ndarray, *, order: int, left: int, right: int) -> np.ndarray:
    """Append deltas of `order`, then context: [T, F] -> [T, F * (order + 1) * (left+1+right)]."""
    if order:
        matrix = deltas(matrix, order)
    return splice(matrix, left, right) if left or right else matrix


def speaker_normalised(matrix: np.ndarray, cmvn: Cmvn, stats: np.ndarray) -> np.ndarray:
    """Features [T, F] less the speaker's mean, by his deviation if asked, as Kaldi's apply-cmvn."""
    mean, deviation = mean_and_deviation(stats)
    centred = matrix - mean
    return (centred / deviation if cmvn == "mean-variance" else centred).astype(np.float32)

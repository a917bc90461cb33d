"""Linear discriminant analysis of spliced frames, by the pdfs of an alignment.

As Kaldi's acc-lda and est-lda (transform/lda-estimate.cc).
"""

from dataclasses import dataclass

import numpy as np
import scipy  # which imports its parts as they are used

from bayes_asr.base.errors import InputError
from bayes_asr.base.safe_pickle import loadable
from bayes_asr.gmm.linear_algebra import cholesky, eigh, multiply, solve_lower
from bayes_asr.gmm.occupation import PdfWeights

SMOOTHING = 1e-3  # of the mean variance within classes, where these are singular


@loadable
@dataclass
class LdaStatistics:
    """Sums over frames: counts [C] and sums [C, F] of each class, squares [F, F] of all."""

    counts: np.ndarray
    sums: np.ndarray
    squares: np.ndarray

    @classmethod
    def zeros(cls, classes: int, dim: int) -> "LdaStatistics":
        """The statistics of no frames."""
        return cls(np.zeros(classes), np.zeros((classes, dim)), np.zeros((dim, dim)))

    def add(self, x: np.ndarray, pdfs: PdfWeights) -> None:
        """Add frames of x [T, F] with the weights of their pdfs, which are the classes."""
        y, w = x[pdfs.frames].astype(np.float64), pdfs.weights.astype(np.float64)
        shape = len(self.counts), len(w)
        by_class = scipy.sparse.csr_array((w, (pdfs.pdfs, np.arange(len(w)))), shape)
        self.counts += by_class.sum(1)
        self.sums += by_class @ y
        self.squares += multiply(y.T, w[:, None] * y)

    def __add__(self, other: "LdaStatistics") -> "LdaStatistics":
        return LdaStatistics(
            self.counts + other.counts, self.sums + other.sums, self.squares + other.squares
        )

    def covariances(self) -> tuple[np.ndarray, np.ndarray]:
        """The covariances [F, F] within classes and between them."""
        total = self.counts.sum()
        seen = self.counts > 0
        means = self.sums[seen] / self.counts[seen, None]
        mean = self.sums.sum(0) / total
        between = multiply(means.T * (self.counts[seen] / total), means) - np.outer(mean, mean)
        return self.squares / total - np.outer(mean, mean) - between, between


def estimate_lda(statistics: LdaStatistics, dim: int) -> tuple[np.ndarray, np.ndarray]:
    """The matrix float32 [D, F] that separates the classes best, and the full one [F, F].

    In its rows the covariance within classes is 1, and that between them is diagonal and falls.
    Kaldi leaves the sign of a row to its SVD; here the largest value of each is positive.
    InputError where there are too few classes or values for `dim`.
    """
    classes, size = statistics.sums.shape
    if not 0 < dim <= size or dim >= classes:
        raise InputError(
            f"LDA to {dim} dimensions needs more than {dim} pdfs and at least {dim} values a"
            f" frame, but there are {classes} pdfs and {size} values; choose fewer dimensions"
        )
    if not statistics.counts.any():
        raise InputError("no frame of speech is left for LDA; align more of the data")
    within, between = statistics.covariances()
    try:
        whitening = _whiten(within)
        _, vectors = eigh(multiply(multiply(whitening, between), whitening.T))
    except np.linalg.LinAlgError:
        raise InputError(
            f"the {size} values of frames are constant, or not finite, so that LDA has no answer;"
            " look at the features"
        ) from None
    full = multiply(vectors.T[::-1], whitening)
    largest = np.take_along_axis(full, np.abs(full).argmax(1, keepdims=True), axis=1)
    full = np.asarray(full * np.sign(largest), np.float32)
    return full[:dim], full


def _whiten(covariance: np.ndarray) -> np.ndarray:
    """The triangle T [F, F] with T C T' = 1, of a singular covariance C with a little more."""
    size = len(covariance)
    try:
        lower = cholesky(covariance)
    except np.linalg.LinAlgError:
        lower = cholesky(covariance + SMOOTHING * np.trace(covariance) / size * np.eye(size))
    return solve_lower(lower, np.eye(size))

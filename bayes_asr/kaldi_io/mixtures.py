"""Mixtures of Gaussians with diagonal covariances, as Kaldi's models hold them."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bayes_asr.base import elementary

LOG_2PI = 1.8378770664093454835606594728112


@dataclass(frozen=True, eq=False)
class Mixtures:
    """Gaussians with diagonal covariances: M in all, of dimension D, for P pdfs.

    Pdf p has the Gaussians first[p] to first[p + 1]: `offsets` is int64 [P + 1]. `weights` [M],
    `inverse_variances` [M, D] and `means_inverse_variances` [M, D] are float32, as in Kaldi
    (gmm/diag-gmm.h). The weights of a pdf sum to one.
    """

    offsets: np.ndarray
    weights: np.ndarray
    inverse_variances: np.ndarray
    means_inverse_variances: np.ndarray

    @staticmethod
    def from_moments(
        offsets: np.ndarray, weights: np.ndarray, means: np.ndarray, variances: np.ndarray
    ) -> "Mixtures":
        """Make them of weights [M], means [M, D] and variances [M, D], rounded as Kaldi rounds."""
        inverse = 1 / np.asarray(variances, np.float32)
        return Mixtures(
            offsets=np.asarray(offsets, np.int64),
            weights=np.asarray(weights, np.float32),
            inverse_variances=inverse,
            means_inverse_variances=np.asarray(means, np.float32) * inverse,
        )

    @property
    def num_pdfs(self) -> int:
        """P."""
        return len(self.offsets) - 1

    @property
    def num_gaussians(self) -> int:
        """M, of all pdfs together."""
        return len(self.weights)

    @property
    def dim(self) -> int:
        """D."""
        return self.inverse_variances.shape[1]

    @property
    def sizes(self) -> np.ndarray:
        """The number of Gaussians of each pdf, int64 [P]."""
        return np.diff(self.offsets)

    @property
    def pdfs(self) -> np.ndarray:
        """The pdf of each Gaussian, int64 [M]."""
        return np.repeat(np.arange(self.num_pdfs), self.sizes)

    @property
    def variances(self) -> np.ndarray:
        """Variances, float64 [M, D]."""
        return 1 / self.inverse_variances.astype(np.float64)

    @property
    def means(self) -> np.ndarray:
        """Means, float64 [M, D]."""
        return self.means_inverse_variances * self.variances

    @cached_property
    def gconsts(self) -> np.ndarray:
        """Log of weight times density at zero, float32 [M] (gmm/diag-gmm.cc, ComputeGconsts).

        The sum is rounded after each dimension, as Kaldi's is. Weight zero gives minus infinity.
        """
        total = _log(self.weights) + np.float32(-0.5 * LOG_2PI * self.dim)
        # log w - 1/2 (D log 2 pi + sum log var + sum mean^2 / var), dimension by dimension.
        columns = zip(self.inverse_variances.T, self.means_inverse_variances.T, strict=True)
        for inverse, scaled in columns:
            at_zero = 0.5 * scaled.astype(np.float64) * scaled / inverse
            total = (total + (0.5 * _log(inverse).astype(np.float64) - at_zero)).astype("f4")
        return total


def _log(values: np.ndarray) -> np.ndarray:
    """Logarithms in float32, rounded correctly, as those of the C library nearly always are."""
    return elementary.log(values).astype(np.float32)

"""Maximum likelihood linear transforms (MLLT, semi-tied covariances) of all features.

M. J. F. Gales, "Semi-tied covariance matrices for hidden Markov models", IEEE Transactions on
Speech and Audio Processing 7(3), 1999. As Kaldi's gmm-acc-mllt, est-mllt and gmm-transform-means.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from bayes_asr.base.errors import InputError
from bayes_asr.base.safe_pickle import loadable
from bayes_asr.gmm.linear_algebra import (
    dot,
    invert,
    log_determinant,
    multiply,
    pack_size,
    sum_scatters,
    unpack,
)
from bayes_asr.gmm.occupation import PRUNING, Occupation, PdfWeights, iter_blocks
from bayes_asr.gmm.randomness import Random
from bayes_asr.gmm.row_updates import update_rows
from bayes_asr.kaldi_io.mixtures import Mixtures

ITERATIONS = 200


@loadable
@dataclass
class MlltStatistics:
    """Sufficient statistics: the count of frames, and for each dimension the scatter around means.

    scatters: the upper triangles [D, D (D + 1) / 2] of the sums of posterior / variance times
    (x - mean) (x - mean)'.
    """

    count: float
    scatters: np.ndarray

    @classmethod
    def zeros(cls, dim: int) -> "MlltStatistics":
        """The statistics of no frames."""
        return cls(0.0, np.zeros((dim, pack_size(dim))))

    @property
    def dim(self) -> int:
        """The dimension D of the features."""
        return len(self.scatters)

    def add(self, mixtures: Mixtures, x: np.ndarray, occupation: Occupation) -> None:
        """Add frames of x [T, D] with the posteriors of their Gaussians."""
        gaussians, posteriors = occupation.gaussians, occupation.posteriors
        inverse = mixtures.inverse_variances[gaussians]
        offsets = x[occupation.frames] - mixtures.means_inverse_variances[gaussians] / inverse
        # G_i of dimension i weighs a frame by its posterior over the variance of that dimension.
        self.scatters += sum_scatters(posteriors[:, None] * inverse, offsets)
        self.count += posteriors.sum(dtype=np.float64)

    def __add__(self, other: "MlltStatistics") -> "MlltStatistics":
        return MlltStatistics(self.count + other.count, self.scatters + other.scatters)


def accumulate_mllt(
    mixtures: Mixtures,
    utterances: Iterable[tuple[np.ndarray, PdfWeights]],
    random: Random,
    pruning: float = PRUNING,
) -> MlltStatistics:
    """Statistics of utterances, each features [T, D] and their pdfs, in bounded memory.

    Most posteriors below `pruning` are left out, at random; with 0 none is.
    """
    statistics = MlltStatistics.zeros(mixtures.dim)
    for x, pdfs in iter_blocks(utterances):
        occupation = Occupation.from_pdfs(mixtures, x, pdfs)
        statistics.add(mixtures, x, occupation.prune(pruning, random))
    return statistics


def evaluate_mllt(statistics: MlltStatistics, matrix: np.ndarray) -> float:
    """The auxiliary function of a transform [D, D]: beta log |det A| - 1/2 sum_i a_i G_i a_i'.

    Terms that are constant for all transforms are left out.
    """
    scatters = unpack(statistics.scatters, statistics.dim)
    quadratic = dot(dot(scatters, matrix[:, None]), matrix).sum()
    return float(statistics.count * log_determinant(matrix) - quadratic / 2)


def estimate_mllt(statistics: MlltStatistics) -> np.ndarray:
    """The transform float32 [D, D] that makes diagonal covariances fit best.

    Row by row, each the best for the others, as (22) of the article says. InputError where there
    are too few frames to tell.
    """
    dim, count = statistics.dim, statistics.count
    few = f"MLLT of {dim} dimensions has only {count:g} frames of speech; align more of the data"
    if count <= 2 * dim:
        raise InputError(few)
    try:
        inverses = invert(unpack(statistics.scatters, dim))
        return update_rows(count, inverses, None, ITERATIONS).astype(np.float32)
    except np.linalg.LinAlgError:
        raise InputError(few) from None


def transform_means(mixtures: Mixtures, matrix: np.ndarray) -> Mixtures:
    """The mixtures with their means mapped by `matrix` [D, D], as gmm-transform-means."""
    # Variances stay: they are those of the transformed features from the next estimation on.
    means = multiply(mixtures.means, matrix.T).astype(np.float32)
    return replace(mixtures, means_inverse_variances=means * mixtures.inverse_variances)

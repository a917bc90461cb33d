"""Affine transforms of the features of each speaker (fMLLR, constrained MLLR).

M. J. F. Gales, "Maximum likelihood linear transformations for HMM-based speech recognition",
Computer Speech and Language 12(2), 1998. As Kaldi's gmm-est-fmllr and gmm-est-fmllr-gpost.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import scipy.sparse

from bayes_asr.errors import InputError
from bayes_asr.gmm.affine import identity
from bayes_asr.gmm.occupation import Occupation, PdfWeights
from bayes_asr.gmm.scatter import pack_size, sum_scatters, unpack
from bayes_asr.tables.gmm import Mixtures

MIN_COUNT = 500.0  # frames
ITERATIONS = 40


@dataclass
class FmllrStatistics:
    """What the frames of a speaker say of his transform; x+ is a frame with a 1 behind it.

    count: the sum of posteriors; linear: [D, D+1], the sum of posterior times mean / variance times
    x+'; quadratic: for each dimension the upper triangle [D, (D + 1) (D + 2) / 2] of the sum of
    posterior / variance times x+ x+'.
    """

    count: float
    linear: np.ndarray
    quadratic: np.ndarray

    @classmethod
    def zeros(cls, dim: int) -> "FmllrStatistics":
        """Those of no frames."""
        return cls(0.0, np.zeros((dim, dim + 1)), np.zeros((dim, pack_size(dim + 1))))

    @property
    def dim(self) -> int:
        """D."""
        return len(self.linear)

    def add(self, mixtures: Mixtures, x: np.ndarray, occupation: Occupation) -> None:
        """Add frames of x [T, D] with the posteriors of their Gaussians.

        The posteriors may be those of another model with the same Gaussians, of the features before
        any transform (gmm-post-to-gpost).
        """
        frames, where = np.unique(occupation.frames, return_inverse=True)
        posteriors = occupation.posteriors.astype(np.float64)
        shape = len(frames), mixtures.num_gaussians
        occupied = scipy.sparse.csr_array((posteriors, (where, occupation.gaussians)), shape)
        extended = np.column_stack((x[frames].astype(np.float64), np.ones(len(frames))))
        self.count += posteriors.sum()
        self.linear += (occupied @ mixtures.means_inverse_variances).T @ extended
        self.quadratic += sum_scatters(occupied @ mixtures.inverse_variances, extended)

    def __add__(self, other: "FmllrStatistics") -> "FmllrStatistics":
        return FmllrStatistics(
            self.count + other.count, self.linear + other.linear, self.quadratic + other.quadratic
        )


def evaluate_fmllr(statistics: FmllrStatistics, transform: np.ndarray) -> float:
    """What a transform W = [A, b] [D, D+1] gains in log-likelihood, but for constant terms.

    beta log |det A| + sum_i (w_i k_i' - 1/2 w_i G_i w_i').
    """
    dim = statistics.dim
    scatters = unpack(statistics.quadratic, dim + 1)
    quadratic = np.einsum("ij,ijk,ik", transform, scatters, transform, optimize=True)
    log_det = np.linalg.slogdet(transform[:, :dim])[1]
    linear = (transform * statistics.linear).sum()
    return float(statistics.count * log_det + linear - quadratic / 2)


def estimate_fmllr(
    statistics: FmllrStatistics, min_count: float = MIN_COUNT, iterations: int = ITERATIONS
) -> np.ndarray:
    """The transform float32 [D, D+1] under which the frames are most likely.

    Row by row, each the best for the others. The identity where no more than `min_count` frames
    were counted, and where nothing is gained. InputError where frames are too much alike.
    """
    dim = statistics.dim
    start = np.eye(dim, dim + 1)
    if statistics.count <= min_count:
        return identity(dim)
    scatters = unpack(statistics.quadratic, dim + 1)
    if not (np.linalg.matrix_rank(scatters) == dim + 1).all():
        raise InputError(
            f"{statistics.count:g} frames of speech do not vary in all of {dim} dimensions, so that"
            f" fMLLR has no answer; ask for more than {min_count:g} frames"
        )
    inverses = np.linalg.inv(scatters)
    transform = start.copy()
    for _ in range(iterations):
        for row, inverse in enumerate(inverses):
            cofactors = np.append(np.linalg.solve(transform[:, :dim], np.eye(dim)[row]), 0.0)
            linear = statistics.linear[row]
            transform[row] = _best_row(cofactors, inverse, linear, statistics.count)
    if evaluate_fmllr(statistics, transform) < evaluate_fmllr(statistics, start):
        return identity(dim)
    return transform.astype(np.float32)


def adapt_speaker(
    speaker: str,
    utterances: Iterable[tuple[np.ndarray, PdfWeights]],
    mixtures: Mixtures,
    *,
    aligner: Mixtures | None = None,
    min_count: float = MIN_COUNT,
) -> np.ndarray:
    """The transform float32 [D, D+1] of a speaker, by features [T, D] and pdfs of his utterances.

    aligner: what divides the frames of a pdf among its Gaussians, by default `mixtures` itself; it
    has the same Gaussians. InputError, with the speaker, as in `estimate_fmllr`.
    """
    statistics = FmllrStatistics.zeros(mixtures.dim)
    for x, pdfs in utterances:
        statistics.add(mixtures, x, Occupation.of(aligner or mixtures, x, pdfs))
    try:
        return estimate_fmllr(statistics, min_count)
    except InputError as error:
        raise InputError(f"speaker {speaker}: {error}") from None


def _best_row(
    cofactors: np.ndarray, inverse: np.ndarray, linear: np.ndarray, count: float
) -> np.ndarray:
    """The row w [D+1] with the greatest beta log |w c'| + w k' - 1/2 w G w'.

    It is (alpha c + k) G^-1 with a root alpha of a quadratic equation: e1 = c G^-1 c', and
    e2 = c G^-1 k'.
    """
    direction = inverse @ cofactors
    e1, e2 = direction @ cofactors, direction @ linear
    root = np.sqrt(e2 * e2 + 4 * e1 * count)
    alphas = (np.array([root, -root]) - e2) / (2 * e1)
    gains = count * np.log(np.abs(alphas * e1 + e2)) - alphas * alphas * e1 / 2
    alpha = alphas[gains.argmax()]
    return np.asarray(inverse @ (alpha * cofactors + linear))

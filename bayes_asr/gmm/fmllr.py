"""Affine transforms of the features of each speaker (fMLLR, constrained MLLR).

M. J. F. Gales, "Maximum likelihood linear transformations for HMM-based speech recognition",
Computer Speech and Language 12(2), 1998. As Kaldi's gmm-est-fmllr and gmm-est-fmllr-gpost.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import scipy  # which imports its parts as they are used

from bayes_asr.base.errors import InputError
from bayes_asr.base.log import LOGGER
from bayes_asr.gmm.affine import identity
from bayes_asr.gmm.linear_algebra import (
    dot,
    invert,
    log_determinant,
    multiply,
    pack_size,
    sum_scatters,
    unpack,
)
from bayes_asr.gmm.occupation import Occupation, PdfWeights, iter_blocks
from bayes_asr.gmm.row_updates import update_rows
from bayes_asr.kaldi_io.mixtures import Mixtures

MIN_COUNT = 500.0  # frames
ITERATIONS = 40


@dataclass
class FmllrStatistics:
    """Sufficient statistics of the transform of a speaker; x+ is a frame with a 1 behind it.

    count: the sum of posteriors; linear: [D, D+1], the sum of posterior times mean / variance times
    x+'; quadratic: for each dimension the upper triangle [D, (D + 1) (D + 2) / 2] of the sum of
    posterior / variance times x+ x+'.
    """

    count: float
    linear: np.ndarray
    quadratic: np.ndarray

    @classmethod
    def zeros(cls, dim: int) -> "FmllrStatistics":
        """The statistics of no frames."""
        return cls(0.0, np.zeros((dim, dim + 1)), np.zeros((dim, pack_size(dim + 1))))

    @property
    def dim(self) -> int:
        """The dimension D of the features."""
        return len(self.linear)

    def add(self, mixtures: Mixtures, x: np.ndarray, occupation: Occupation) -> None:
        """Add frames of x [T, D] with the posteriors of their Gaussians.

        The posteriors may be those of another model with the same Gaussians, of the features before
        any transform (gmm-post-to-gpost).
        """
        # A sparse matrix [frames, Gaussians], since few Gaussians have a posterior in a frame.
        frames, where = np.unique(occupation.frames, return_inverse=True)
        posteriors = occupation.posteriors.astype(np.float64)
        shape = len(frames), mixtures.num_gaussians
        occupied = scipy.sparse.csr_array((posteriors, (where, occupation.gaussians)), shape)
        extended = np.column_stack((x[frames].astype(np.float64), np.ones(len(frames))))
        self.count += posteriors.sum()
        self.linear += multiply((occupied @ mixtures.means_inverse_variances).T, extended)
        self.quadratic += sum_scatters(occupied @ mixtures.inverse_variances, extended)

    def __add__(self, other: "FmllrStatistics") -> "FmllrStatistics":
        return FmllrStatistics(
            self.count + other.count, self.linear + other.linear, self.quadratic + other.quadratic
        )


def evaluate_fmllr(statistics: FmllrStatistics, transform: np.ndarray) -> float:
    """The auxiliary function of a transform W = [A, b] [D, D+1], without constant terms.

    beta log |det A| + sum_i (w_i k_i' - 1/2 w_i G_i w_i').
    """
    dim = statistics.dim
    scatters = unpack(statistics.quadratic, dim + 1)
    quadratic = dot(dot(scatters, transform[:, None]), transform).sum()
    linear = (transform * statistics.linear).sum()
    return float(statistics.count * log_determinant(transform[:, :dim]) + linear - quadratic / 2)


def estimate_fmllr(
    statistics: FmllrStatistics, min_count: float = MIN_COUNT, iterations: int = ITERATIONS
) -> np.ndarray:
    """The transform float32 [D, D+1] under which the frames are most likely.

    Row by row, each the best for the others. The identity where no more than `min_count` frames
    were counted, and where nothing is gained. InputError where frames are too much alike.
    """
    dim, count = statistics.dim, statistics.count
    if float(np.float32(count)) <= min_count:  # 500 posteriors that miss 1 by rounding are 500
        return identity(dim)
    try:
        inverses = invert(unpack(statistics.quadratic, dim + 1))
        transform = update_rows(count, inverses, statistics.linear, iterations)
    except np.linalg.LinAlgError:
        raise InputError(
            f"{count:g} frames of speech do not vary in all of {dim} dimensions, so that fMLLR has"
            " no answer; listen whether the sound is there"
        ) from None
    # Rounding may make the result worse than no transform at all.
    gain = evaluate_fmllr(statistics, transform) - evaluate_fmllr(statistics, identity(dim))
    return transform.astype(np.float32) if gain >= 0 else identity(dim)


def fit_speaker(speaker: str, statistics: FmllrStatistics, min_count: float) -> np.ndarray:
    """The transform of `estimate_fmllr`; the identity, with a warning, where it has no answer."""
    try:
        return estimate_fmllr(statistics, min_count)
    except InputError as error:
        LOGGER.warning("%s: %s; not adapted", speaker, error)
        return identity(statistics.dim)


def adapt_speaker(
    speaker: str,
    utterances: Iterable[tuple[np.ndarray, PdfWeights]],
    mixtures: Mixtures,
    *,
    aligner: Mixtures | None = None,
    min_count: float = MIN_COUNT,
) -> np.ndarray:
    """The transform float32 [D, D+1] of a speaker, by features [T, D] and pdfs of his utterances.

    aligner: mixtures whose posteriors divide the frames of a pdf among its Gaussians, by default
    `mixtures`; both have the same Gaussians. The identity as in `fit_speaker`.
    """
    statistics = FmllrStatistics.zeros(mixtures.dim)
    for x, pdfs in iter_blocks(utterances):
        statistics.add(mixtures, x, Occupation.from_pdfs(aligner or mixtures, x, pdfs))
    return fit_speaker(f"speaker {speaker}", statistics, min_count)

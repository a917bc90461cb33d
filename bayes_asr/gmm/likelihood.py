"""Log-likelihoods of frames by mixtures of Gaussians, and posteriors of the Gaussians."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from operator import add

import numpy as np

from bayes_asr.base import elementary
from bayes_asr.base.errors import InputError
from bayes_asr.gmm import compiled
from bayes_asr.gmm.linear_algebra import multiply_in_numpy
from bayes_asr.kaldi_io.mixtures import Mixtures


@dataclass(frozen=True)
class PdfFrames:
    """The frames [N] that are aligned to one pdf, with the posteriors of its G Gaussians.

    `posteriors` float32 [N, G] sum to one over Gaussians; `log_likelihoods` float32 [N].
    """

    pdf: int
    gaussians: slice
    frames: np.ndarray
    posteriors: np.ndarray
    log_likelihoods: np.ndarray


def log_likelihoods(
    mixtures: Mixtures, x: np.ndarray, pdfs: Sequence[int] | np.ndarray | None = None
) -> np.ndarray:
    """Log-likelihoods float32 [T, P] of frames x [T, D], or [T, N] of the N `pdfs` alone.

    As Kaldi's DiagGmm::LogLikelihoods. Raises InputError where x has another dimension.
    """
    data = _with_squares(mixtures, x)
    if pdfs is None:
        return score(data, mixtures.offsets, _slopes(mixtures, slice(None)))
    selected = np.asarray(pdfs, np.int64)
    offsets = np.concatenate(([0], np.cumsum(mixtures.sizes[selected])))
    # The ranges of the selected pdfs, one after the other: range n is shifted from its place in the
    # result, offsets[n], to its place in the model.
    gaussians = np.arange(offsets[-1]) + np.repeat(
        mixtures.offsets[selected] - offsets[:-1], np.diff(offsets)
    )
    return score(data, offsets, _slopes(mixtures, gaussians))


def score(x: np.ndarray, offsets: np.ndarray, slopes: np.ndarray) -> np.ndarray:
    """Log-likelihoods float32 [T, P] of P pdfs, computed in float64, by C++ where that is built.

    x: frames, their squares and a one, float32 [T, K]; pdf p has the Gaussians first[p] to
    first[p + 1], whose `slopes` [G, K] give the log of weight times density.
    """
    if not compiled.LIBRARY.usable:
        return score_in_numpy(x, offsets, slopes)
    return compiled.score(x, offsets, slopes)


def divide(x: np.ndarray, slopes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Log-likelihoods float32 [T] of one pdf, and posteriors float32 [T, G] of its Gaussians.

    x, slopes: as in `score`. Posteriors sum to one over Gaussians.
    """
    if not compiled.LIBRARY.usable:
        return divide_in_numpy(x, slopes)
    posteriors = np.empty((len(x), len(slopes)), np.float32)
    scores = compiled.score(x, np.array([0, len(slopes)]), slopes, posteriors)
    return scores[:, 0], posteriors


def score_in_numpy(x: np.ndarray, offsets: np.ndarray, slopes: np.ndarray) -> np.ndarray:
    """The NumPy version of `score`, which defines its result to the bit."""
    scores = np.empty((len(x), len(offsets) - 1), np.float32)
    for pdf, (begin, end) in enumerate(pairwise(offsets.tolist())):
        scores[:, pdf] = divide_in_numpy(x, slopes[begin:end])[0]
    return scores


def divide_in_numpy(x: np.ndarray, slopes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The NumPy version of `divide`, which defines its result to the bit."""
    scores = multiply_in_numpy(slopes, x.T)
    # Log-sum-exp: the largest term becomes exp(0).
    largest = scores.max(0)
    terms = elementary.exp(scores - largest)
    total = reduce(add, terms)  # one after the other, however many frames there are
    log_likelihoods = largest + elementary.log(total)
    # Posteriors are rounded as Kaldi's: 0 where its are, so that as many random numbers are drawn.
    shares = terms.astype(np.float32) / total.astype(np.float32)
    return log_likelihoods.astype(np.float32), shares.T


def iter_posteriors(mixtures: Mixtures, x: np.ndarray, pdfs: np.ndarray) -> Iterator[PdfFrames]:
    """Yield, pdf by pdf, the frames of x [T, D] that have it in `pdfs` [T], with posteriors.

    Raises InputError where x has another dimension or number of frames, or a pdf is unknown.
    """
    pdfs = np.asarray(pdfs)
    if len(pdfs) != len(x):
        raise InputError(f"{len(x)} frames of features, {len(pdfs)} aligned; align them again")
    if len(pdfs) and not 0 <= pdfs.min() <= pdfs.max() < mixtures.num_pdfs:
        raise InputError(
            f"pdf-ids {pdfs.min()} to {pdfs.max()} aligned, {mixtures.num_pdfs} in the model;"
            " take the model that belongs to the alignment"
        )
    data = _with_squares(mixtures, x)
    # The stable order keeps the frames of a pdf in their order: sums do not depend on the others.
    order = np.argsort(pdfs, kind="stable")
    distinct, counts = np.unique(pdfs, return_counts=True)
    for pdf, end, count in zip(distinct.tolist(), counts.cumsum(), counts, strict=True):
        frames = order[end - count : end]
        gaussians = slice(int(mixtures.offsets[pdf]), int(mixtures.offsets[pdf + 1]))
        log_likelihoods, posteriors = divide(data[frames], _slopes(mixtures, gaussians))
        yield PdfFrames(pdf, gaussians, frames, posteriors, log_likelihoods)


def _with_squares(mixtures: Mixtures, x: np.ndarray) -> np.ndarray:
    """Frames, their squares and a one, float32 [T, 2D + 1]."""
    if x.ndim != 2 or x.shape[1] != mixtures.dim:
        raise InputError(
            f"features of dimension {x.shape[-1]}, Gaussians of {mixtures.dim};"
            " take the features that the model was trained on"
        )
    x = np.asarray(x, np.float32)
    return np.concatenate((x, x * x, np.ones((len(x), 1), np.float32)), axis=1)


def _slopes(mixtures: Mixtures, gaussians: np.ndarray | slice) -> np.ndarray:
    """Coefficients float32 [G, 2D + 1] of frames, their squares and a one.

    The product with (x, x^2, 1) is log weight + log density: (mu / var) x - x^2 / (2 var) + gconst.
    """
    parts = (
        mixtures.means_inverse_variances[gaussians],
        -0.5 * mixtures.inverse_variances[gaussians],
        mixtures.gconsts[gaussians, None],
    )
    return np.concatenate(parts, axis=1)

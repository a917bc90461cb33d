"""Log-likelihoods of frames by mixtures of Gaussians, and which of the Gaussians made them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from bayes_asr.errors import InputError
from bayes_asr.tables.mixtures import Mixtures

BLOCK = 512  # frames that are scored together: more take memory and no less time


@dataclass(frozen=True)
class PdfFrames:
    """The frames [N] that are said to be of one pdf, and what its G Gaussians make of them.

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

    A matrix product, as Kaldi's DiagGmm::LogLikelihoods, then sums over the Gaussians of each
    pdf. Memory beside the result is that of BLOCK frames. Raises InputError where x has another
    dimension.
    """
    chosen = np.arange(mixtures.num_pdfs) if pdfs is None else np.asarray(pdfs, np.int64)
    order = np.argsort(-mixtures.sizes[chosen], kind="stable")
    layers = _layers(mixtures, chosen[order])
    slopes = _slopes(mixtures, np.concatenate(layers) if layers else order)
    data = _with_squares(mixtures, x)
    result = np.empty((len(x), len(chosen)), np.float32)
    for begin in range(0, len(x), BLOCK):
        scores = slopes @ data[begin : begin + BLOCK].T
        result[begin : begin + BLOCK, order] = _sum_layers(scores, list(map(len, layers))).T
    return result


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
    order = np.argsort(pdfs, kind="stable")
    found, counts = np.unique(pdfs, return_counts=True)
    for pdf, end, count in zip(found.tolist(), counts.cumsum(), counts, strict=True):
        frames = order[end - count : end]
        gaussians = slice(int(mixtures.first[pdf]), int(mixtures.first[pdf + 1]))
        scores = _slopes(mixtures, gaussians) @ data[frames].T
        largest = scores.max(0)
        np.exp(scores - largest, out=scores)
        total = scores.sum(0)
        yield PdfFrames(pdf, gaussians, frames, (scores / total).T, largest + np.log(total))


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
    """What frames and their squares are multiplied by, and constants, float32 [G, 2D + 1].

    The product is the log of weight times density.
    """
    parts = (
        mixtures.means_inverse_variances[gaussians],
        -0.5 * mixtures.inverse_variances[gaussians],
        mixtures.gconsts[gaussians, None],
    )
    return np.concatenate(parts, axis=1)


def _layers(mixtures: Mixtures, pdfs: np.ndarray) -> list[np.ndarray]:
    """The first Gaussian of each pdf, the second of each that has one, and so on.

    The larger mixtures come first, so each layer belongs to the first pdfs of the one before.
    """
    sizes, first = mixtures.sizes[pdfs], mixtures.first[pdfs]
    counts = [int((sizes > layer).sum()) for layer in range(sizes.max(initial=0))]
    return [first[:count] + layer for layer, count in enumerate(counts)]


def _sum_layers(scores: np.ndarray, counts: list[int]) -> np.ndarray:
    """Log of the sum of exponentials over layers [sum of counts, T]; their memory is used."""
    layers = np.split(scores, np.cumsum(counts)[:-1]) if counts else [scores]
    largest = layers[0].copy()
    for layer in layers[1:]:
        np.maximum(largest[: len(layer)], layer, out=largest[: len(layer)])
    total = np.zeros_like(largest)
    for layer in layers:
        layer -= largest[: len(layer)]
        total[: len(layer)] += np.exp(layer, out=layer)
    return largest + np.log(total)

"""Occupation of frames: weights of pdfs, by alignments or lattices, and of their Gaussians."""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from bayes_asr.gmm.likelihood import iter_posteriors
from bayes_asr.gmm.randomness import Random
from bayes_asr.kaldi_io.mixtures import Mixtures
from bayes_asr.kaldi_io.transition_model import TransitionModel

BLOCK = 20_000  # frames that are taken together, so that many share a pdf
PRUNING = 4.0  # threshold of steps/train_lda_mllt.sh (--randprune)

Item = TypeVar("Item")


@dataclass(frozen=True)
class PdfWeights:
    """N pairs of a frame and a pdf: frames, pdfs and weights, all [N]; no weight is 0."""

    frames: np.ndarray
    pdfs: np.ndarray
    weights: np.ndarray

    @classmethod
    def from_alignment(
        cls,
        model: TransitionModel,
        transition_ids: np.ndarray,
        silence: Collection[int] = (),
        silence_weight: float = 0.0,
    ) -> "PdfWeights":
        """Each frame of an alignment [T] once; those of the phones `silence` with their weight."""
        frames, shares = np.arange(len(transition_ids)), np.ones(len(transition_ids), np.float32)
        return cls.from_posteriors(model, frames, transition_ids, shares, silence, silence_weight)

    @classmethod
    def from_posteriors(
        cls,
        model: TransitionModel,
        frames: np.ndarray,
        transition_ids: np.ndarray,
        shares: np.ndarray,
        silence: Collection[int] = (),
        silence_weight: float = 0.0,
    ) -> "PdfWeights":
        """Shares [N] of transition-ids [N] in frames [N], as Kaldi's weight-silence-post."""
        silent = np.isin(model.phone[transition_ids], list(silence))
        weights = (shares * np.where(silent, silence_weight, 1.0)).astype(np.float32)
        nonzero = np.flatnonzero(weights)
        return cls(frames[nonzero], model.pdf[transition_ids[nonzero]], weights[nonzero])

    def prune(self, threshold: float, random: Random) -> "PdfWeights":
        """Set most weights below a threshold to 0, and the others to it; the mean stays."""
        weights = prune(self.weights, threshold, random)
        nonzero = np.flatnonzero(weights)
        return PdfWeights(self.frames[nonzero], self.pdfs[nonzero], weights[nonzero])


@dataclass(frozen=True)
class Occupation:
    """K pairs of a frame and a Gaussian, with their posteriors, ordered by frame, then Gaussian."""

    frames: np.ndarray
    gaussians: np.ndarray
    posteriors: np.ndarray

    @classmethod
    def from_pdfs(cls, mixtures: Mixtures, x: np.ndarray, pdfs: PdfWeights) -> "Occupation":
        """Divide the weight of each pdf in frames of x [T, D] among its Gaussians."""
        # Pair n of a frame and a pdf owns the entries begins[n] to begins[n] + sizes[n].
        sizes = mixtures.sizes[pdfs.pdfs]
        begins = np.cumsum(sizes) - sizes
        pairs = np.repeat(np.arange(len(sizes)), sizes)
        gaussians = np.arange(len(pairs)) + (mixtures.offsets[pdfs.pdfs] - begins)[pairs]
        posteriors = np.empty(len(pairs), np.float32)
        for part in iter_posteriors(mixtures, x[pdfs.frames], pdfs.pdfs):
            places = begins[part.frames, None] + np.arange(part.posteriors.shape[1])
            posteriors[places] = part.posteriors * pdfs.weights[part.frames, None]
        return cls(pdfs.frames[pairs], gaussians, posteriors)

    def prune(self, threshold: float, random: Random) -> "Occupation":
        """Prune the posteriors, as `PdfWeights.prune` does with weights."""
        posteriors = prune(self.posteriors, threshold, random)
        nonzero = np.flatnonzero(posteriors)
        return Occupation(self.frames[nonzero], self.gaussians[nonzero], posteriors[nonzero])


def gather(items: Iterable[Item], enough: int, size: Callable[[Item], int]) -> Iterator[list[Item]]:
    """Yield lists of items, in their order, each as soon as its sizes add up to `enough`."""
    gathered: list[Item] = []
    total = 0
    for item in items:
        gathered.append(item)
        total += size(item)
        if total >= enough:
            yield gathered
            gathered, total = [], 0
    if gathered:
        yield gathered


def iter_blocks(
    utterances: Iterable[tuple[np.ndarray, PdfWeights]],
) -> Iterator[tuple[np.ndarray, PdfWeights]]:
    """Yield features [T, D] and pdfs of several utterances as if of one: pdfs come often."""
    for block in gather(utterances, BLOCK, lambda utterance: len(utterance[0])):
        features, parts = zip(*block, strict=True)
        # Frame numbers of an utterance continue those of the utterances before it in the block.
        begins = np.cumsum([0, *map(len, features[:-1])])
        frames = [pdfs.frames + begin for pdfs, begin in zip(parts, begins, strict=True)]
        pdfs, weights = ([getattr(part, name) for part in parts] for name in ("pdfs", "weights"))
        yield np.concatenate(features), PdfWeights(*map(np.concatenate, (frames, pdfs, weights)))


def prune(values: np.ndarray, threshold: float, random: Random) -> np.ndarray:
    """Replace values between 0 and a threshold by either, at random, with the same expectation.

    A number is drawn for each such value, in their order, as Kaldi's RandPrune does.
    """
    small = np.flatnonzero((values > 0) & (values < threshold))
    raised = random.uniform(len(small)) <= values[small] / np.float32(threshold)
    pruned = values.copy()
    pruned[small] = np.where(raised, threshold, 0)
    return pruned

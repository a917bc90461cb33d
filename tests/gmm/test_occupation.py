"""Weights of pdfs and of Gaussians: silence, blocks, pruning by chance."""

import numpy as np
import pytest

from bayes_asr.gmm.likelihood import iter_posteriors
from bayes_asr.gmm.occupation import BLOCK, Occupation, PdfWeights, iter_blocks, prune
from bayes_asr.gmm.randomness import Random
from bayes_asr.kaldi_io.initial_mdl import build_monophone_model
from tests.support.mixtures import random_mixtures

MODEL = build_monophone_model([1, 2])  # pdfs 0 to 2, 3 to 5
MIXTURES = random_mixtures([3, 1, 4, 2, 2, 1], 5)
TIDS = np.array([2, 1, 4, 6, 8, 10, 12, 11])


def weights_of(pdfs: PdfWeights) -> list[tuple[int, int, float]]:
    columns = (pdfs.frames, pdfs.pdfs, pdfs.weights)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def test_silence_has_its_own_weight() -> None:
    assert MODEL.phone[TIDS].tolist() == [1, 1, 1, 1, 2, 2, 2, 2]
    spoken = [(4, 3, 1.0), (5, 4, 1.0), (6, 5, 1.0), (7, 5, 1.0)]
    assert weights_of(PdfWeights.from_alignment(MODEL, TIDS, {1})) == spoken
    assert len(PdfWeights.from_alignment(MODEL, TIDS).frames) == len(TIDS)
    quiet = weights_of(PdfWeights.from_alignment(MODEL, TIDS, {1}, 0.5))
    assert quiet == [(0, 0, 0.5), (1, 0, 0.5), (2, 1, 0.5), (3, 2, 0.5), *spoken]


def test_shares_of_lattices_are_weighted() -> None:
    frames, tids, shares = np.array([0, 0, 1]), np.array([2, 8, 10]), np.array([0.25, 0.75, 1])
    found = PdfWeights.from_posteriors(MODEL, frames, tids, shares, {1}, 0.5)
    assert weights_of(found) == [(0, 0, 0.125), (0, 3, 0.75), (1, 4, 1.0)]


def test_gaussians_of_a_pdf_share_its_weight() -> None:
    x = np.random.default_rng(0).normal(size=(4, 5)).astype(np.float32)
    pdfs = PdfWeights(np.array([0, 0, 2, 3]), np.array([2, 0, 5, 2]), np.float32([0.5, 2, 1, 1]))
    found = Occupation.from_pdfs(MIXTURES, x, pdfs)
    assert found.frames.tolist() == [0, 0, 0, 0, 0, 0, 0, 2, 3, 3, 3, 3]
    assert found.gaussians.tolist() == [4, 5, 6, 7, 0, 1, 2, 12, 4, 5, 6, 7]
    for frame, pdf, weight in weights_of(pdfs):
        (part,) = iter_posteriors(MIXTURES, x[frame : frame + 1], np.array([pdf]))
        of_pdf = (found.gaussians >= part.gaussians.start) & (found.gaussians < part.gaussians.stop)
        chosen = found.posteriors[of_pdf & (found.frames == frame)]
        np.testing.assert_allclose(chosen, weight * part.posteriors[0], rtol=1e-5)


def test_blocks_are_the_utterances() -> None:
    rng = np.random.default_rng(0)
    utterances = []
    for frames in (BLOCK - 1, 1, 3, BLOCK + 5, 2):
        chosen = np.sort(rng.choice(frames, max(1, frames // 2), replace=False))
        pdfs = PdfWeights(chosen, rng.integers(0, 6, len(chosen)), np.ones(len(chosen)))
        utterances.append((rng.normal(size=(frames, 5)), pdfs))
    blocks = list(iter_blocks(utterances))
    assert [len(x) for x, _ in blocks] == [BLOCK, BLOCK + 8, 2]
    for name in ("pdfs", "weights"):
        joined = [np.concatenate([getattr(p, name) for _, p in k]) for k in (blocks, utterances)]
        np.testing.assert_array_equal(*joined)
    chosen = [np.concatenate([x[p.frames] for x, p in kind]) for kind in (blocks, utterances)]
    np.testing.assert_array_equal(*chosen)
    assert list(iter_blocks([])) == []


def test_pruned_values_keep_their_expectation() -> None:
    values = np.repeat(np.float32([0, 0.3, 2, 4, 5]), 20000)
    means = prune(values, 4.0, Random()).reshape(5, -1).mean(1)
    assert means[[0, 3, 4]].tolist() == [0, 4, 5]
    np.testing.assert_allclose(means[[1, 2]], [0.3, 2], rtol=0.05)
    assert set(prune(values, 4.0, Random()).tolist()) == {0.0, 4.0, 5.0}


def test_a_number_is_drawn_for_each_value_between() -> None:
    drawn = Random()
    prune(np.float32([0, 1, 4, 3, 5]), 4.0, drawn)
    other = Random()
    other.uniform(2)
    assert drawn.integers(3).tolist() == other.integers(3).tolist()


@pytest.mark.parametrize("threshold", [0.0, 1.0])
def test_nothing_is_pruned_below_no_threshold(threshold: float) -> None:
    pdfs = PdfWeights.from_alignment(MODEL, TIDS)
    assert weights_of(pdfs.prune(threshold, Random())) == weights_of(pdfs)

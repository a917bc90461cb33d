"""LDA: Kaldi's matrix, what it does to covariances, and data that it cannot be made of."""

from pathlib import Path

import numpy as np
import pytest

from bayes_asr.base.errors import InputError
from bayes_asr.gmm.features import Pipeline, SpeakerFeatures
from bayes_asr.gmm.lda import LdaStatistics, estimate_lda
from bayes_asr.gmm.occupation import PRUNING, PdfWeights
from bayes_asr.gmm.randomness import Random
from bayes_asr.kaldi_io.ark import read_matrix
from bayes_asr.kaldi_io.data_dir import read_data_dir
from tests.support.golden_data import SILENCE, write_golden_data
from tests.support.mixtures import golden_gmms

RNG = np.random.default_rng(3)
CLASSES, SIZE = 6, 8


def example(frames: int = 3000) -> tuple[np.ndarray, PdfWeights]:
    """Classes with means of their own around which frames vary, not alike in all directions."""
    classes = RNG.integers(0, CLASSES, frames)
    means = 2 * RNG.normal(size=(CLASSES, SIZE))
    x = means[classes] + RNG.normal(size=(frames, SIZE)) @ RNG.normal(size=(SIZE, SIZE))
    weights = RNG.uniform(0.1, 2, frames).astype(np.float32)
    return x, PdfWeights(np.arange(frames), classes, weights)


def statistics_of(x: np.ndarray, pdfs: PdfWeights) -> LdaStatistics:
    statistics = LdaStatistics.zeros(CLASSES, SIZE)
    statistics.add(x, pdfs)
    return statistics


def covariances(x: np.ndarray, pdfs: PdfWeights) -> tuple[np.ndarray, np.ndarray]:
    """Within classes and of all, by numpy."""
    each = [
        np.cov(x[pdfs.pdfs == c].T, aweights=pdfs.weights[pdfs.pdfs == c], ddof=0)
        for c in range(CLASSES)
    ]
    shares = np.bincount(pdfs.pdfs, pdfs.weights) / pdfs.weights.sum()
    return np.tensordot(shares, each, 1), np.cov(x.T, aweights=pdfs.weights, ddof=0)


def test_matrices_are_kaldis(tmp_path: Path) -> None:
    golden = golden_gmms()
    data = read_data_dir(write_golden_data(golden, tmp_path / "data"))
    features = SpeakerFeatures(data, Pipeline.spliced(3, 3))
    model, _ = golden.model("tri1/final.mdl")
    alignments, random = golden.alignments("tri1_ali"), Random()
    statistics = LdaStatistics.zeros(model.num_pdfs, 91)
    for utt in features.utterances:
        if utt in alignments:
            pdfs = PdfWeights.from_alignment(model, alignments[utt], SILENCE)
            statistics.add(features[utt], pdfs.prune(PRUNING, random))
    for found, name in zip(estimate_lda(statistics, 40), ("0.mat", "full.mat"), strict=True):
        expected = read_matrix(str(golden.root / "tri2" / f"{name}.txt"), name)
        signs = np.sign((found * expected).sum(1, keepdims=True))
        np.testing.assert_allclose(signs * found, expected, rtol=0, atol=1e-5)


def test_rows_are_uncorrelated_and_separate_classes_less_and_less() -> None:
    x, pdfs = example()
    matrix, full = estimate_lda(statistics_of(x, pdfs), 5)
    within, total = covariances(x, pdfs)
    np.testing.assert_allclose(full @ within @ full.T, np.eye(SIZE), atol=1e-5)
    between = full @ (total - within) @ full.T
    np.testing.assert_allclose(between, np.diag(np.diag(between)), atol=1e-5)
    assert (np.diff(np.diag(between)) < 1e-6).all()
    np.testing.assert_array_equal(matrix, full[:5])


def test_statistics_of_parts_add_up() -> None:
    x, pdfs = example(200)
    whole = statistics_of(x, pdfs)
    parts = [
        statistics_of(x, PdfWeights(*(column[part] for column in vars(pdfs).values())))
        for part in (slice(120), slice(120, None))
    ]
    for name in ("counts", "sums", "squares"):
        found = getattr(parts[0] + parts[1], name)
        np.testing.assert_allclose(found, getattr(whole, name), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(whole.counts, np.bincount(pdfs.pdfs, pdfs.weights))


def test_values_that_depend_on_others_are_smoothed() -> None:
    x, pdfs = example()
    x[:, 1] = x[:, 0]
    matrix, _ = estimate_lda(statistics_of(x, pdfs), 3)
    assert np.isfinite(matrix).all()
    assert np.abs(matrix).max() < 1e3


@pytest.mark.parametrize("dim", [CLASSES, SIZE + 1, 0])
def test_too_many_dimensions_are_refused(dim: int) -> None:
    with pytest.raises(InputError, match=f"LDA to {dim} dimensions .* 6 pdfs and 8 values"):
        estimate_lda(statistics_of(*example()), dim)


def test_no_frames_are_refused() -> None:
    with pytest.raises(InputError, match="no frame of speech"):
        estimate_lda(LdaStatistics.zeros(CLASSES, SIZE), 3)

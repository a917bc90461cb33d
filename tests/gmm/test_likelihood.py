"""Log-likelihoods and posteriors against densities of scipy."""

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import norm

from bayes_asr.base.errors import InputError
from bayes_asr.gmm.likelihood import iter_posteriors, log_likelihoods
from bayes_asr.kaldi_io.mixtures import Mixtures
from tests.support.mixtures import golden_gmms, random_mixtures

SIZES = [3, 1, 7, 1, 2]


def densities(mixtures: Mixtures, x: np.ndarray) -> list[np.ndarray]:
    """Log of weight times density by scipy: for each pdf [T, G]."""
    deviations = np.sqrt(mixtures.variances)
    each = norm.logpdf(x[:, None], mixtures.means, deviations).sum(2)
    return np.split(each + np.log(mixtures.weights), mixtures.offsets[1:-1], axis=1)


def test_log_likelihoods_are_those_of_scipy() -> None:
    mixtures = random_mixtures(SIZES, 4)
    x = np.random.default_rng(1).normal(size=(1029, 4)).astype(np.float32)
    expected = np.stack([logsumexp(part, axis=1) for part in densities(mixtures, x)], axis=1)
    scores = log_likelihoods(mixtures, x)
    assert scores.dtype == np.float32
    np.testing.assert_allclose(scores, expected, rtol=1e-4)
    np.testing.assert_allclose(
        log_likelihoods(mixtures, x, [2, 0, 2]), expected[:, [2, 0, 2]], 1e-4
    )


def test_far_frames_do_not_underflow() -> None:
    mixtures = random_mixtures(SIZES, 4)
    x = np.full((1, 4), 1000, np.float32)
    expected = [logsumexp(part) for part in densities(mixtures, x)]
    np.testing.assert_allclose(log_likelihoods(mixtures, x)[0], expected, rtol=1e-5)


def test_nothing_is_asked() -> None:
    mixtures = random_mixtures(SIZES, 4)
    assert log_likelihoods(mixtures, np.zeros((0, 4))).shape == (0, 5)
    assert log_likelihoods(mixtures, np.zeros((3, 4)), []).shape == (3, 0)
    assert not list(iter_posteriors(mixtures, np.zeros((0, 4)), np.zeros(0, int)))


def test_posteriors_are_those_of_scipy() -> None:
    mixtures = random_mixtures(SIZES, 4)
    rng = np.random.default_rng(2)
    x = rng.normal(size=(60, 4)).astype(np.float32)
    pdfs = rng.choice([0, 2, 4], 60)
    expected = densities(mixtures, x)
    parts = list(iter_posteriors(mixtures, x, pdfs))
    assert [part.pdf for part in parts] == [0, 2, 4]
    for part in parts:
        assert part.frames.tolist() == np.flatnonzero(pdfs == part.pdf).tolist()
        first = mixtures.offsets[part.pdf]
        assert (part.gaussians.start, part.gaussians.stop) == (first, first + SIZES[part.pdf])
        logs = expected[part.pdf][part.frames]
        total = logsumexp(logs, axis=1)
        np.testing.assert_allclose(part.posteriors, np.exp(logs - total[:, None]), atol=1e-5)
        np.testing.assert_allclose(part.log_likelihoods, total, rtol=1e-5)


def test_golden_likelihoods_by_pdf_agree_with_those_of_posteriors() -> None:
    golden = golden_gmms()
    transitions, mixtures = golden.model("tri1/final.mdl")
    utt, tids = next(iter(golden.alignments("tri1").items()))
    x, pdfs = golden.features[utt], transitions.pdf[tids]
    scores = log_likelihoods(mixtures, x)
    for part in iter_posteriors(mixtures, x, pdfs):
        np.testing.assert_allclose(part.log_likelihoods, scores[part.frames, part.pdf], rtol=1e-5)


def test_what_does_not_fit_is_refused() -> None:
    mixtures = random_mixtures(SIZES, 4)
    with pytest.raises(InputError, match="features of dimension 3, Gaussians of 4"):
        log_likelihoods(mixtures, np.zeros((5, 3)))
    with pytest.raises(InputError, match="5 frames of features, 4 aligned"):
        list(iter_posteriors(mixtures, np.zeros((5, 4)), np.zeros(4, int)))
    for pdfs in ([0, 5], [-1, 0]):
        with pytest.raises(InputError, match=f"{pdfs[0]} to {pdfs[1]} aligned, 5 in the model"):
            list(iter_posteriors(mixtures, np.zeros((2, 4)), np.array(pdfs)))

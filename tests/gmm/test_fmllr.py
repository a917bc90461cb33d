"""fMLLR: sums frame by frame, the transform against a direct optimisation, Kaldi's passes."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize

from bayes_asr.gmm.affine import apply_transform, identity
from bayes_asr.gmm.decoding import group_utterances
from bayes_asr.gmm.features import Pipeline, SpeakerFeatures
from bayes_asr.gmm.first_model import Converter, derive_transitions, init_mixtures
from bayes_asr.gmm.fmllr import FmllrStatistics, adapt_speaker, estimate_fmllr, evaluate_fmllr
from bayes_asr.gmm.gaussian_sums import accumulate
from bayes_asr.gmm.likelihood import log_likelihoods
from bayes_asr.gmm.occupation import Occupation, PdfWeights
from bayes_asr.gmm.tree_statistics import Context
from bayes_asr.gmm.tree_statistics import accumulate as accumulate_tree
from bayes_asr.kaldi_io.ark import read_matrix
from bayes_asr.kaldi_io.data_dir import read_data_dir
from bayes_asr.kaldi_io.tree import read_tree
from tests.support.golden_data import SILENCE, write_golden_data
from tests.support.mixtures import golden_gmms, random_mixtures

DIM, SIZES = 4, [3, 1, 4]
MIXTURES = random_mixtures(SIZES, DIM)


def example(frames: int = 900, seed: int = 4) -> tuple[np.ndarray, PdfWeights]:
    """Frames of the Gaussians, distorted as if by a speaker."""
    rng = np.random.default_rng(seed)
    pdfs = rng.integers(0, len(SIZES), frames)
    gaussians = MIXTURES.offsets[pdfs] + rng.integers(0, MIXTURES.sizes[pdfs])
    noise = rng.normal(size=(frames, DIM)) * np.sqrt(MIXTURES.variances[gaussians])
    distorted = (MIXTURES.means[gaussians] + noise) @ rng.normal(size=(DIM, DIM)) + 1
    weights = np.ones(frames, np.float32)
    return distorted.astype(np.float32), PdfWeights(np.arange(frames), pdfs, weights)


def statistics_of(x: np.ndarray, pdfs: PdfWeights) -> FmllrStatistics:
    statistics = FmllrStatistics.zeros(DIM)
    statistics.add(MIXTURES, x, Occupation.from_pdfs(MIXTURES, x, pdfs))
    return statistics


def test_statistics_are_the_sums_over_frames() -> None:
    x, pdfs = example(60)
    found = statistics_of(x, pdfs)
    linear, quadratic = np.zeros((DIM, DIM + 1)), np.zeros((DIM, DIM + 1, DIM + 1))
    occupation = Occupation.from_pdfs(MIXTURES, x, pdfs)
    for frame, gaussian, posterior in zip(*vars(occupation).values(), strict=True):
        extended = np.append(x[frame], 1.0)
        weights = posterior / MIXTURES.variances[gaussian]
        linear += np.outer(weights * MIXTURES.means[gaussian], extended)
        quadratic += weights[:, None, None] * np.outer(extended, extended)
    rows, columns = np.triu_indices(DIM + 1)
    np.testing.assert_allclose(found.linear, linear, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(found.quadratic, quadratic[:, rows, columns], rtol=1e-4, atol=1e-4)
    assert found.count == pytest.approx(60)
    twice = found + found
    np.testing.assert_array_equal(twice.quadratic, 2 * found.quadratic)
    np.testing.assert_array_equal(twice.linear, 2 * found.linear)


def test_transform_is_the_best_that_an_optimiser_finds() -> None:
    statistics = statistics_of(*example())
    transform = estimate_fmllr(statistics).astype(np.float64)

    def loss(values: np.ndarray) -> float:
        return -evaluate_fmllr(statistics, values.reshape(DIM, DIM + 1)) / statistics.count

    start = np.eye(DIM, DIM + 1).ravel()
    best = minimize(loss, start, method="BFGS", options={"gtol": 1e-8})
    assert loss(transform.ravel()) == pytest.approx(best.fun, abs=1e-6)
    assert best.fun < loss(start) - 0.1
    np.testing.assert_allclose(transform, best.x.reshape(DIM, DIM + 1), atol=2e-3)


def test_adapted_features_are_as_likely_as_the_gain_says() -> None:
    """With one Gaussian nothing is hidden, and the gain is exact."""
    mixtures = random_mixtures([1], DIM)
    x, pdfs = example()
    pdfs = PdfWeights(pdfs.frames, np.zeros_like(pdfs.pdfs), pdfs.weights)
    statistics = FmllrStatistics.zeros(DIM)
    statistics.add(mixtures, x, Occupation.from_pdfs(mixtures, x, pdfs))
    transform = adapt_speaker("anna", [(x, pdfs)], mixtures)
    np.testing.assert_allclose(transform, estimate_fmllr(statistics), atol=1e-4)
    before = log_likelihoods(mixtures, x).sum(dtype=np.float64)
    after = log_likelihoods(mixtures, apply_transform(transform, x)).sum(dtype=np.float64)
    log_det = len(x) * np.linalg.slogdet(transform[:, :DIM])[1]
    gained = evaluate_fmllr(statistics, transform) - evaluate_fmllr(statistics, identity(DIM))
    assert after + log_det - before == pytest.approx(gained, rel=1e-4)


def test_few_frames_change_nothing() -> None:
    x, pdfs = example(500)
    np.testing.assert_array_equal(adapt_speaker("anna", [(x, pdfs)], MIXTURES), identity(DIM))
    np.testing.assert_array_equal(adapt_speaker("anna", [], MIXTURES), identity(DIM))
    found = adapt_speaker("anna", [(x, pdfs)], MIXTURES, min_count=499)
    assert np.abs(found - identity(DIM)).max() > 0.1


def test_another_model_divides_the_frames() -> None:
    """A model whose Gaussians of a pdf are exchanged gives each frame to the wrong ones."""
    x, pdfs = example()
    order = np.concatenate([np.arange(b - 1, a - 1, -1) for a, b in pairwise(MIXTURES.offsets)])
    exchanged = type(MIXTURES)(
        MIXTURES.offsets,
        MIXTURES.weights[order],
        MIXTURES.inverse_variances[order],
        MIXTURES.means_inverse_variances[order],
    )
    occupation = Occupation.from_pdfs(exchanged, x, pdfs)
    expected = FmllrStatistics.zeros(DIM)
    expected.add(MIXTURES, x, occupation)
    found = adapt_speaker("anna", [(x, pdfs)], MIXTURES, aligner=exchanged)
    np.testing.assert_array_equal(found, estimate_fmllr(expected))
    assert np.abs(found - adapt_speaker("anna", [(x, pdfs)], MIXTURES)).max() > 0.01


def test_a_speaker_whose_frames_do_not_vary_keeps_them(caplog: pytest.LogCaptureFixture) -> None:
    """As of a channel that was muted: the others go on."""
    x, pdfs = example()
    x[:, 2] = 0
    np.testing.assert_array_equal(adapt_speaker("anna", [(x, pdfs)], MIXTURES), identity(DIM))
    assert "speaker anna: 900 frames of speech do not vary in all of 4 dimensions" in caplog.text


@pytest.mark.slow
def test_speakers_of_sat_are_adapted_as_kaldis(tmp_path: Path) -> None:
    """The first transforms of steps/train_sat.sh, by the likelihood of its first pass."""
    golden = golden_gmms()
    matrix = read_matrix(f"{golden.root}/tri2/final.mat.txt", "the matrix")
    pipeline = Pipeline("mean", 0, 3, 3, matrix)
    features = SpeakerFeatures(
        read_data_dir(write_golden_data(golden, tmp_path / "data")), pipeline
    )
    old, mixtures = golden.model("tri2/final.mdl")
    before = golden.alignments("tri2_ali")
    x = {}
    for speaker, utterances in group_utterances(features.speakers).items():
        plain = {utt: features[utt] for utt in utterances if utt in before}
        spoken = ((u, PdfWeights.from_alignment(old, before[u], SILENCE)) for u in plain)
        transform = adapt_speaker(speaker, ((plain[u], pdfs) for u, pdfs in spoken), mixtures)
        x |= {utt: apply_transform(transform, each) for utt, each in plain.items()}
    tree = read_tree(golden.root / "tri3" / "tree")
    context = Context(independent=frozenset(SILENCE))
    statistics = accumulate_tree(((utt, before[utt], x[utt]) for utt in sorted(x)), old, context)
    started, _ = init_mixtures(tree, statistics)
    model = derive_transitions(tree, old.topology)
    converter = Converter(old, model, tree)
    pdfs = {utt: model.pdf[converter.convert_alignment(utt, before[utt])] for utt in x}
    fit = accumulate(started, ((x[utt], pdfs[utt]) for utt in x)).log_likelihood_per_frame
    first = (golden.root / "tri3" / "loglike_per_frame").read_text().split()[1]
    assert fit == pytest.approx(float(first), abs=1e-3)

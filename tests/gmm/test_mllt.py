"""MLLT: sums frame by frame, the transform against a direct optimisation, Kaldi's passes."""

from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize

from bayes_asr.base.errors import InputError
from bayes_asr.gmm.affine import compose
from bayes_asr.gmm.features import Pipeline, SpeakerFeatures
from bayes_asr.gmm.first_model import Converter, derive_transitions, init_mixtures
from bayes_asr.gmm.gaussian_sums import accumulate, estimate
from bayes_asr.gmm.likelihood import log_likelihoods
from bayes_asr.gmm.mixing import mix_up
from bayes_asr.gmm.mllt import (
    MlltStatistics,
    accumulate_mllt,
    estimate_mllt,
    evaluate_mllt,
    transform_means,
)
from bayes_asr.gmm.occupation import Occupation, PdfWeights
from bayes_asr.gmm.randomness import Random
from bayes_asr.gmm.tree_statistics import Context
from bayes_asr.gmm.tree_statistics import accumulate as accumulate_tree
from bayes_asr.kaldi_io.ark import read_matrix
from bayes_asr.kaldi_io.data_dir import read_data_dir
from bayes_asr.kaldi_io.tree import read_tree
from tests.support.golden_data import SILENCE, write_golden_data
from tests.support.mixtures import golden_gmms, random_mixtures

SIZES = [3, 1, 4]
MIXTURES = random_mixtures(SIZES, 4)


def example(frames: int = 600) -> tuple[np.ndarray, PdfWeights]:
    rng = np.random.default_rng(8)
    x = rng.normal(size=(frames, 4)) @ rng.normal(size=(4, 4))
    pdfs = rng.integers(0, len(SIZES), frames)
    weights = rng.uniform(0.1, 2, frames).astype(np.float32)
    return x.astype(np.float32), PdfWeights(np.arange(frames), pdfs, weights)


def statistics_of(x: np.ndarray, pdfs: PdfWeights) -> MlltStatistics:
    return accumulate_mllt(MIXTURES, [(x, pdfs)], Random(), 0.0)


def test_statistics_are_the_sums_over_frames() -> None:
    x, pdfs = example(50)
    found = statistics_of(x, pdfs)
    occupation = Occupation.from_pdfs(MIXTURES, x, pdfs)
    expected = np.zeros((4, 4, 4))
    for frame, gaussian, posterior in zip(*vars(occupation).values(), strict=True):
        offset = x[frame] - MIXTURES.means[gaussian]
        weights = posterior / MIXTURES.variances[gaussian]
        expected += weights[:, None, None] * np.outer(offset, offset)
    rows, columns = np.triu_indices(4)
    np.testing.assert_allclose(found.scatters, expected[:, rows, columns], rtol=1e-4, atol=1e-4)
    assert found.count == pytest.approx(pdfs.weights.sum())
    twice = found + found
    assert twice.count == 2 * found.count
    np.testing.assert_array_equal(twice.scatters, 2 * found.scatters)


def test_transform_is_the_best_that_an_optimiser_finds() -> None:
    statistics = statistics_of(*example())
    matrix = estimate_mllt(statistics).astype(np.float64)

    def loss(values: np.ndarray) -> float:
        return -evaluate_mllt(statistics, values.reshape(4, 4)) / statistics.count

    best = minimize(loss, np.eye(4).ravel(), method="BFGS", options={"gtol": 1e-8})
    assert loss(matrix.ravel()) == pytest.approx(best.fun, abs=1e-6)
    found = best.x.reshape(4, 4)  # each row as likely with the other sign
    signs = np.sign((matrix * found).sum(1, keepdims=True))
    np.testing.assert_allclose(signs * matrix, found, atol=1e-3)


def test_likelihood_grows_by_what_the_transform_gains() -> None:
    """Features and means are transformed: what stays in place is which Gaussian made a frame."""
    mixtures = random_mixtures([1], 4)
    x, pdfs = example()
    pdfs = PdfWeights(pdfs.frames, np.zeros_like(pdfs.pdfs), np.ones(len(x), np.float32))
    statistics = accumulate_mllt(mixtures, [(x, pdfs)], Random(), 0.0)
    matrix = estimate_mllt(statistics)
    before = log_likelihoods(mixtures, x).sum(dtype=np.float64)
    after = log_likelihoods(transform_means(mixtures, matrix), x @ matrix.T).sum(dtype=np.float64)
    gained = evaluate_mllt(statistics, matrix) - evaluate_mllt(statistics, np.eye(4))
    log_det = len(x) * np.linalg.slogdet(matrix)[1]
    assert after + log_det - before == pytest.approx(gained, rel=1e-4)


def test_pruning_changes_little() -> None:
    x, pdfs = example(20_000)
    pdfs = PdfWeights(pdfs.frames, pdfs.pdfs, np.ones(len(x), np.float32))
    exact = estimate_mllt(statistics_of(x, pdfs))
    pruned = estimate_mllt(accumulate_mllt(MIXTURES, [(x, pdfs)], Random()))
    np.testing.assert_allclose(pruned, exact, atol=0.05)


@pytest.mark.parametrize("frames", [1, 8])
def test_too_few_frames_are_refused(frames: int) -> None:
    x, pdfs = example(frames)
    with pytest.raises(InputError, match=r"MLLT of 4 dimensions has only .* frames"):
        estimate_mllt(statistics_of(x, pdfs))


@pytest.mark.slow
def test_passes_are_kaldis(tmp_path: Path) -> None:
    """Four passes of steps/train_lda_mllt.sh, of which the second and the fourth estimate MLLT."""
    golden = golden_gmms()
    folder, matrix = golden.root / "tri2", read_matrix(f"{golden.root}/tri2/0.mat.txt", "0.mat")
    features = SpeakerFeatures(
        read_data_dir(write_golden_data(golden, tmp_path / "data")), Pipeline.spliced(3, 3)
    )
    old, _ = golden.model("tri1/final.mdl")
    before = golden.alignments("tri1_ali")
    spliced = {utt: features[utt] for utt in features.utterances if utt in before}
    x = {utt: each @ matrix.T for utt, each in spliced.items()}
    tree = read_tree(folder / "tree")
    context = Context(independent=frozenset(SILENCE))
    tree_statistics = accumulate_tree(((utt, before[utt], x[utt]) for utt in x), old, context)
    mixtures, _ = init_mixtures(tree, tree_statistics)
    model = derive_transitions(tree, golden.model("tri2/final.mdl")[0].topology)
    converter = Converter(old, model, tree)
    aligned = {utt: converter.convert_alignment(utt, before[utt]) for utt in x}
    spoken = {utt: PdfWeights.from_alignment(model, aligned[utt], SILENCE) for utt in x}
    fits = []
    for number in range(1, 5):
        if number in (2, 4):
            utterances = ((x[utt], spoken[utt]) for utt in x)
            new = estimate_mllt(accumulate_mllt(mixtures, utterances, Random()))
            mixtures, matrix = transform_means(mixtures, new), compose(new, matrix)
            expected = read_matrix(str(folder / f"{number}.mat.txt"), "the matrix")
            np.testing.assert_allclose(matrix, expected, rtol=0, atol=1e-5)
            x = {utt: each @ matrix.T for utt, each in spliced.items()}
        statistics = accumulate(mixtures, ((x[utt], model.pdf[aligned[utt]]) for utt in x))
        fits.append(statistics.log_likelihood_per_frame)
        target = 200 + 32 * (number - 1)
        mixtures = mix_up(estimate(mixtures, statistics), statistics.pdf_occupancy, target)
    lines = (folder / "loglike_per_frame").read_text().splitlines()
    np.testing.assert_allclose(fits, [float(line.split()[1]) for line in lines[:4]], atol=1e-3)

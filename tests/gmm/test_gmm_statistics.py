"""Statistics frame by frame, and estimates of greatest likelihood, among them Kaldi's."""

import numpy as np
import pytest

from bayes_asr.base.errors import InputError
from bayes_asr.gmm.gaussian_sums import BLOCK, Statistics, accumulate, estimate
from bayes_asr.gmm.likelihood import iter_posteriors, log_likelihoods
from tests.support.mixtures import golden_gmms, random_mixtures

SIZES = [3, 1, 4]


def example(frames: int = 400, seed: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    pdfs = rng.integers(0, len(SIZES), frames)
    return rng.normal(size=(frames, 2)).astype(np.float32) + pdfs[:, None], pdfs


def test_statistics_are_the_sums_over_frames() -> None:
    mixtures = random_mixtures(SIZES, 2)
    x, pdfs = example(50)
    of = np.random.default_rng(5).normal(size=x.shape)
    weights = np.random.default_rng(6).uniform(0, 2, len(x))
    found = Statistics.zeros(mixtures)
    found.add(mixtures, x, pdfs, weights, of)
    expected = Statistics.zeros(mixtures)
    scores = log_likelihoods(mixtures, x)
    for frame, pdf in enumerate(pdfs):
        (part,) = iter_posteriors(mixtures, x[frame : frame + 1], pdfs[frame : frame + 1])
        share = weights[frame] * part.posteriors[0].astype(float)
        expected.occupancy[part.gaussians] += share
        expected.sums[part.gaussians] += share[:, None] * of[frame]
        expected.squares[part.gaussians] += share[:, None] * of[frame] ** 2
        expected.log_likelihood += weights[frame] * float(scores[frame, pdf])
    for name in ("occupancy", "sums", "squares", "log_likelihood"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), 1e-5, 1e-6)
    assert found.frames == pytest.approx(weights.sum())
    counts = np.bincount(pdfs, weights)
    np.testing.assert_allclose(found.pdf_occupancy, counts, rtol=1e-6)


def test_statistics_of_parts_add_up_to_those_of_the_whole() -> None:
    mixtures = random_mixtures(SIZES, 2)
    x, pdfs = example(3 * BLOCK // 2)
    utterances = list(zip(np.split(x, 1000), np.split(pdfs, 1000), strict=True))
    whole = accumulate(mixtures, utterances)
    parts = accumulate(mixtures, utterances[:300]) + accumulate(mixtures, utterances[300:])
    for name in ("occupancy", "sums", "squares", "log_likelihood", "frames"):
        np.testing.assert_allclose(getattr(parts, name), getattr(whole, name), rtol=1e-6)
    assert whole.frames == len(x)
    assert accumulate(mixtures, []).log_likelihood_per_frame == 0


def test_each_pass_is_more_likely_than_the_one_before() -> None:
    mixtures = random_mixtures(SIZES, 2)
    x, pdfs = example()
    fits = []
    for _ in range(6):
        statistics = accumulate(mixtures, [(x, pdfs)])
        fits.append(statistics.log_likelihood_per_frame)
        mixtures = estimate(mixtures, statistics)
        totals = np.add.reduceat(mixtures.weights, mixtures.offsets[:-1])
        np.testing.assert_allclose(totals, 1, rtol=1e-6)
    assert (np.diff(fits) > 0).all()


def test_one_gaussian_gets_mean_and_variance() -> None:
    mixtures = random_mixtures([1], 2)
    x, _ = example()
    updated = estimate(mixtures, accumulate(mixtures, [(x, np.zeros(len(x), int))]))
    np.testing.assert_allclose(updated.means[0], x.mean(0), rtol=1e-6)
    np.testing.assert_allclose(updated.variances[0], x.astype(float).var(0), rtol=1e-6)
    assert updated.weights.tolist() == [1.0]


def test_variances_are_floored() -> None:
    mixtures = random_mixtures([1], 2)
    x = np.tile(np.float32([3, 4]), (30, 1))
    updated = estimate(mixtures, accumulate(mixtures, [(x, np.zeros(30, int))]))
    np.testing.assert_allclose(updated.variances, 1e-3, rtol=1e-6)


def test_gaussians_with_little_data_are_removed_but_for_the_last_of_a_pdf() -> None:
    mixtures = random_mixtures([3, 2, 2], 2)
    statistics = Statistics.zeros(mixtures)
    statistics.occupancy[:] = [10.0, 30.0, 60.0, 4.0, 5.0, 0.0, 0.0]
    statistics.sums[:] = 2 * statistics.occupancy[:, None]
    statistics.squares[:] = 5 * statistics.occupancy[:, None]
    updated = estimate(mixtures, statistics)
    assert updated.offsets.tolist() == [0, 2, 3, 4]
    np.testing.assert_allclose(updated.weights, [1 / 3, 2 / 3, 1, 1], rtol=1e-6)
    np.testing.assert_allclose(updated.means[:2], 2)
    np.testing.assert_allclose(updated.variances[:2], 1)
    np.testing.assert_allclose(updated.means[2:], mixtures.means[[4, 6]], rtol=1e-6)
    np.testing.assert_allclose(updated.variances[2:], mixtures.variances[[4, 6]], rtol=1e-6)
    kept = estimate(mixtures, statistics, remove=False)
    assert kept.offsets.tolist() == mixtures.offsets.tolist()
    np.testing.assert_allclose(kept.weights, [0.1, 0.3, 0.6, 4 / 9, 5 / 9, 0.5, 0.5], rtol=1e-6)
    np.testing.assert_allclose(kept.means[[0, 3]], mixtures.means[[0, 3]], rtol=1e-6)
    fewer = estimate(mixtures, statistics, min_occupancy=3)
    assert fewer.offsets.tolist() == [0, 3, 5, 6]


def test_frames_beyond_all_measure_are_refused() -> None:
    mixtures = random_mixtures([1], 2)
    x = np.full((3, 2), 1e30, np.float32)
    with pytest.raises(InputError, match=r"of 3 frames is nan: their largest value is 1e\+30"):
        Statistics.zeros(mixtures).add(mixtures, x, np.zeros(3, int))


@pytest.mark.parametrize(("system", "last"), [("mono", -98.6846), ("tri1", -95.1241)])
def test_kaldis_last_estimate_is_ours(system: str, last: float) -> None:
    """Where a pdf has one Gaussian, the alignments alone say what Kaldi's last estimate is."""
    golden = golden_gmms()
    transitions, mixtures = golden.model(f"{system}/final.mdl")
    alignments = golden.alignments(system)
    statistics = accumulate(
        mixtures, ((golden.features[utt], transitions.pdf[a]) for utt, a in alignments.items())
    )
    assert last < statistics.log_likelihood_per_frame < last + 0.03  # of the pass before
    updated = estimate(mixtures, statistics)
    assert updated.num_gaussians == mixtures.num_gaussians
    single = mixtures.offsets[:-1][mixtures.sizes == 1]
    assert len(single) >= 20
    np.testing.assert_allclose(
        updated.variances[single], mixtures.variances[single], rtol=1e-4
    )  # Kaldi keeps sums in float32 between two programs
    np.testing.assert_allclose(updated.means[single], mixtures.means[single], rtol=0, atol=1e-4)

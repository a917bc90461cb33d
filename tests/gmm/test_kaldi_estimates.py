"""Kaldi's own programs on the same models, features and alignments."""

from pathlib import Path

import numpy as np
import pytest

from bayes_asr.gmm.gaussian_sums import Statistics, accumulate, estimate
from bayes_asr.gmm.likelihood import log_likelihoods
from bayes_asr.gmm.mixing import mix_up
from bayes_asr.gmm.transitions import count_transitions, update_transitions
from bayes_asr.kaldi_io.ark import iter_matrices, write_matrices
from bayes_asr.kaldi_io.gmm import read_gmm, write_gmm
from bayes_asr.kaldi_io.mixtures import Mixtures
from tests.support.kaldi_programs import NEEDS_KALDI, run_program
from tests.support.mixtures import GoldenGmms, golden_gmms

pytestmark = NEEDS_KALDI
MODEL = "tri1/final.mdl"


@pytest.fixture(scope="module")
def golden() -> GoldenGmms:
    return golden_gmms()


@pytest.fixture(scope="module")
def aligned(golden: GoldenGmms, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The features of all utterances and the alignments, as Kaldi's programs take them."""
    ark = tmp_path_factory.mktemp("features") / "feats.ark"
    write_matrices(golden.features.items(), ark)
    return [f"ark:{ark}", f"ark:gunzip -c {golden.root}/tri1/ali.1.gz |"]


def in_order(golden: GoldenGmms, mixtures: Mixtures, pdf: np.ndarray) -> Statistics:
    utterances = golden.alignments("tri1").items()
    return accumulate(mixtures, ((golden.features[utt], pdf[tids]) for utt, tids in utterances))


def alike(ours: Mixtures, theirs: Mixtures) -> None:
    """Equal but for the rounding of Kaldi's statistics, which are float32 between two programs."""
    np.testing.assert_array_equal(ours.offsets, theirs.offsets)
    np.testing.assert_allclose(ours.weights, theirs.weights, rtol=0, atol=1e-5)
    off = (ours.means - theirs.means) / np.sqrt(theirs.variances)
    np.testing.assert_allclose(off, 0, atol=1e-3)
    np.testing.assert_allclose(ours.variances, theirs.variances, rtol=5e-3)


@pytest.mark.parametrize("way", ["same", "up"])
def test_one_estimate_is_that_of_gmm_est(
    way: str, golden: GoldenGmms, aligned: list[str], tmp_path: Path
) -> None:
    path = golden.root / MODEL
    options = {"same": [], "up": ["--mix-up=1020"]}[way]
    run_program("gmm-acc-stats-ali", path, *aligned, tmp_path / "acc")
    run_program("gmm-est", "--power=0.25", *options, path, tmp_path / "acc", tmp_path / "new.mdl")
    new_transitions, theirs = read_gmm(tmp_path / "new.mdl")
    transitions, mixtures = read_gmm(path)
    statistics = in_order(golden, mixtures, transitions.pdf)
    ours = estimate(mixtures, statistics)
    if way == "up":
        ours = mix_up(ours, statistics.pdf_occupancy, 1020)
    alike(ours, theirs)
    counts = sum(count_transitions(transitions, a) for a in golden.alignments("tri1").values())
    np.testing.assert_allclose(
        update_transitions(transitions, counts).log_prob, new_transitions.log_prob, atol=1e-6
    )


def test_sums_of_other_features_are_those_of_twofeats(
    golden: GoldenGmms, aligned: list[str], tmp_path: Path
) -> None:
    path, feats = golden.root / MODEL, aligned[0].removeprefix("ark:")
    other = {utt: (0.5 * x + 1).astype(np.float32) for utt, x in iter_matrices(Path(feats))}
    write_matrices(other.items(), tmp_path / "other.ark")
    transitions, mixtures = read_gmm(path)
    write_posteriors(golden, tmp_path / "post")
    features = [aligned[0], f"ark:{tmp_path / 'other.ark'}"]
    run_program(
        "gmm-acc-stats-twofeats", path, *features, f"ark:{tmp_path / 'post'}", tmp_path / "acc"
    )
    keep = "--remove-low-count-gaussians=false"
    run_program("gmm-est", keep, path, tmp_path / "acc", tmp_path / "new.mdl")
    statistics = Statistics.zeros(mixtures)
    for utt, tids in golden.alignments("tri1").items():
        statistics.add(mixtures, golden.features[utt], transitions.pdf[tids], summed=other[utt])
    alike(estimate(mixtures, statistics, remove=False), read_gmm(tmp_path / "new.mdl")[1])


def test_likelihoods_are_those_of_gmm_compute_likes(
    golden: GoldenGmms, aligned: list[str], tmp_path: Path
) -> None:
    transitions, mixtures = golden.model(MODEL)
    write_gmm(transitions, mixtures, tmp_path / "ours.mdl")
    run_program(
        "gmm-compute-likes", tmp_path / "ours.mdl", aligned[0], f"ark:{tmp_path / 'likes.ark'}"
    )
    for utt, theirs in iter_matrices(tmp_path / "likes.ark"):
        ours = log_likelihoods(mixtures, golden.features[utt])
        # Terms of thousands cancel where a variance is small: both sides round, in float32.
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=0.03)
        assert np.abs(ours - theirs).mean() < 1e-3


def write_posteriors(golden: GoldenGmms, path: Path) -> None:
    """Alignments as Kaldi's posteriors, in text: each transition-id of weight one."""
    lines = [
        f"{utt} {' '.join(f'[ {tid} 1 ]' for tid in tids)}\n"
        for utt, tids in golden.alignments("tri1").items()
    ]
    path.write_text("".join(lines))

"""Nine passes of Kaldi's training of triphones, between two alignments: the same likelihoods."""

from collections.abc import Mapping

import numpy as np

from bayes_asr.gmm.gaussian_sums import accumulate, estimate
from bayes_asr.gmm.mixing import mix_up
from bayes_asr.kaldi_io.context_dependency import Tree
from bayes_asr.kaldi_io.mixtures import Mixtures
from bayes_asr.kaldi_io.transition_model import TransitionModel
from bayes_asr.kaldi_io.tree import read_tree
from tests.support.mixtures import GoldenGmms, golden_gmms

LEAVES, GAUSSIANS, GROWING = 200, 1000, 25  # of train_deltas.sh, as it was called
VARIANCE_FLOOR = 0.01  # gmm-init-model's
PASSES = 9  # the tenth aligns anew


def pdfs_of(tids: np.ndarray, monophones: TransitionModel, tree: Tree) -> np.ndarray:
    """The pdfs of a tree over three phones, for an alignment by left-to-right monophones."""
    phone, state = monophones.phone[tids], monophones.hmm_state[tids]
    starts = np.append(True, (phone[1:] != phone[:-1]) | (state[1:] < state[:-1]))
    phones = [0, *phone[starts].tolist(), 0]
    number = np.cumsum(starts) - 1
    rows = zip(number.tolist(), state.tolist(), strict=True)
    return np.array([tree.pdf(phones[i : i + 3], pdf_class) for i, pdf_class in rows])


def one_gaussian_each(
    golden: GoldenGmms, pdfs: Mapping[str, np.ndarray]
) -> tuple[Mixtures, np.ndarray]:
    """What gmm-init-model makes of the tree's statistics, and the frames of each pdf."""
    x = np.concatenate([golden.features[utt] for utt in pdfs]).astype(np.float64)
    of_frame = np.concatenate(list(pdfs.values()))
    frames = np.bincount(of_frame)
    parts = [x[of_frame == pdf] for pdf in range(len(frames))]
    mixtures = Mixtures.from_moments(
        np.arange(len(frames) + 1),
        np.ones(len(frames)),
        np.stack([part.mean(0) for part in parts]),
        np.stack([part.var(0).clip(VARIANCE_FLOOR) for part in parts]),
    )
    return mixtures, frames


def test_each_pass_has_kaldis_log_likelihood() -> None:
    golden = golden_gmms()
    monophones, _ = golden.model("mono/final.mdl")
    tree = read_tree(golden.root / "tri1" / "tree")
    alignments = golden.alignments("mono_ali")
    pdfs = {utt: pdfs_of(tids, monophones, tree) for utt, tids in alignments.items()}
    mixtures, frames = one_gaussian_each(golden, pdfs)
    mixtures = mix_up(mixtures, frames, LEAVES, power=0.2)
    found = []
    for number in range(PASSES):
        statistics = accumulate(mixtures, ((golden.features[utt], pdfs[utt]) for utt in pdfs))
        found.append(statistics.log_likelihood_per_frame)
        target = LEAVES + number * ((GAUSSIANS - LEAVES) // GROWING)
        mixtures = mix_up(estimate(mixtures, statistics), statistics.pdf_occupancy, target)
    lines = (golden.root / "tri1" / "loglike_per_frame").read_text().splitlines()
    expected = [float(line.split()[1]) for line in lines[:PASSES]]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-3)

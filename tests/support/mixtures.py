"""Mixtures of Gaussians for tests, and the golden models of Kaldi with what they were made of."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pytest

from bayes_asr.data.features.front_end import add_deltas, apply_cmvn
from bayes_asr.kaldi_io.ark import iter_int_vectors, iter_matrices
from bayes_asr.kaldi_io.gmm import read_gmm
from bayes_asr.kaldi_io.mixtures import Mixtures
from bayes_asr.kaldi_io.text import read_text
from bayes_asr.kaldi_io.transition_model import TransitionModel
from tests.support.places import DATA

GOLDEN = DATA / "kaldi" / "timit_sample" / "golden" / "gmm"


def random_mixtures(sizes: list[int], dim: int, seed: int = 0) -> Mixtures:
    """Mixtures of these numbers of Gaussians, with means and variances of order one."""
    rng = np.random.default_rng(seed)
    total = sum(sizes)
    weights = [rng.dirichlet(np.full(size, 5.0)) for size in sizes]
    return Mixtures.from_moments(
        np.cumsum([0, *sizes]),
        np.concatenate(weights),
        rng.normal(size=(total, dim)),
        rng.uniform(0.3, 2.0, size=(total, dim)),
    )


@dataclass(frozen=True)
class GoldenGmms:
    """Kaldi's GMMs on the training set of the TIMIT sample."""

    root: Path

    @cached_property
    def features(self) -> Mapping[str, np.ndarray]:
        """What mono and tri1 read of each utterance: MFCC less the speaker's mean, with deltas."""
        speakers = read_text(self.root / "data" / "utt2spk")
        stats = dict(iter_matrices(self.root / "data" / "cmvn_train.ark"))
        return {
            utt: add_deltas(apply_cmvn(matrix, "mean", stats[speakers[utt][0]]), 2)
            for utt, matrix in iter_matrices(self.root / "data" / "mfcc_train.ark")
        }

    def model(self, name: str) -> tuple[TransitionModel, Mixtures]:
        """A model by its path, as `tri1/final.mdl`."""
        return read_gmm(self.root / name)

    def alignments(self, system: str) -> Mapping[str, np.ndarray]:
        """Transition-ids of each utterance that is aligned, as at the end of the training."""
        return dict(iter_int_vectors(self.root / system / "ali.1.gz"))


def golden_gmms() -> GoldenGmms:
    """Kaldi's GMMs, or a skip that says what is missing."""
    if not GOLDEN.exists():
        pytest.skip(f"real data is absent: {GOLDEN} (set BAYES_ASR_DATA)")
    return GoldenGmms(GOLDEN)

"""Batches as tensors."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from bayes_asr.data.batches import key_of
from bayes_asr.data.features import Normalisation
from bayes_asr.errors import InputError
from bayes_asr.nn.frames import Frames, pack
from bayes_asr.train.corpus import LabelledSet


@dataclass(frozen=True)
class Batch:
    """Packed features [N, F], the pdf and the monophone of each frame [N], and a key for each utterance [B]."""

    x_NF: Tensor
    frames: Frames
    pdfs_N: Tensor
    monophones_N: Tensor
    keys_B: Tensor


def loader(
    data: LabelledSet, normalise: Normalisation, *, seed: int, epoch: int, noise: float = 0.0
) -> Callable[[list[str]], Batch]:
    """Return the function that reads and packs the utterances of a batch.

    noise: standard deviation of Gaussian noise on normalised features; it depends on (seed, epoch, utterance) only.
    """

    def load(utterances: list[str]) -> Batch:
        keys = [key_of(seed, epoch, utt) for utt in utterances]
        matrices = []
        for utt, key in zip(utterances, keys, strict=True):
            matrix = normalise(_features(data, utt))
            if noise:
                rng = np.random.default_rng(key % 2**64)
                matrix = matrix + noise * rng.standard_normal(matrix.shape, dtype=np.float32)
            matrices.append(torch.from_numpy(matrix))
        x_NF, frames, order = pack(matrices)
        pdfs, _, _ = pack([torch.from_numpy(data.alignments.pdfs(u)).long() for u in utterances])
        monophones, _, _ = pack(
            [torch.from_numpy(data.alignments.monophones(u)) for u in utterances]
        )
        return Batch(x_NF, frames, pdfs, monophones, torch.tensor(keys)[order])

    return load


def _features(data: LabelledSet, utt: str) -> np.ndarray:
    matrix = data.features[utt]
    if len(matrix) != data.lengths[utt]:
        raise InputError(
            f"{data.features.where(utt)}: {utt} has {len(matrix)} frames of features, but {data.lengths[utt]} in the alignment"
            f" of {data.alignments.directory}; make both from the same features"
        )
    return matrix

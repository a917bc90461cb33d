"""Batches as tensors."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from bayes_asr.corpus.batches import key_of
from bayes_asr.corpus.sets import LabelledSet
from bayes_asr.features.perturbation import perturbed
from bayes_asr.features.transforms import Normalisation
from bayes_asr.nn.frames import Frames, pack
from bayes_asr.processes import group

CPU = torch.device("cpu")


@dataclass(frozen=True)
class Batch:
    """Packed features [N, F], pdf and monophone of each frame [N], a key for each utterance [B]."""

    x_NF: Tensor
    frames: Frames
    pdfs_N: Tensor
    monophones_N: Tensor
    keys_B: Tensor


def loader(
    data: LabelledSet,
    normalise: Normalisation,
    *,
    seed: int,
    epoch: int,
    noise: float = 0.0,
    tempo: float = 0.0,
    keep: str = "none",
    device: torch.device = CPU,
) -> Callable[[list[str]], Batch]:
    """Return the function that reads, perturbs and packs this process' utterances of a batch.

    noise, tempo: see `perturbed`; what they do depends on (seed, epoch, utterance) only.
    keep: what normalised features are held in memory as, if not `none`: float32 or float16.
    device: where the batch is to be; a GPU gets it while it computes another one.
    """

    def normalised(utt: str) -> np.ndarray:
        if keep == "none":
            return normalise(data[utt])
        if utt not in data.kept:
            data.kept[utt] = normalise(data[utt]).astype(keep)
        return data.kept[utt].astype(np.float32, copy=False)

    def load(utterances: list[str]) -> Batch:
        utterances = group.take_share(utterances, data.lengths)
        if not utterances:
            return _empty(len(normalise.mean), device)
        keys = [key_of(seed, epoch, utt) for utt in utterances]
        matrices, pdfs, monophones = [], [], []
        for utt, key in zip(utterances, keys, strict=True):
            matrix, nearest = perturbed(normalised(utt), key, noise=noise, tempo=tempo)
            matrices.append(torch.from_numpy(matrix))
            pdfs.append(torch.from_numpy(data.alignments.pdfs(utt)[nearest]).long())
            monophones.append(torch.from_numpy(data.alignments.monophones(utt)[nearest]))
        x_NF, frames, order = pack(matrices)
        keys_B = torch.tensor(keys)[order]
        tensors = (x_NF, pack(pdfs)[0], pack(monophones)[0], keys_B)
        x_NF, pdfs_N, monophones_N, keys_B = (_moved(x, device) for x in tensors)
        return Batch(x_NF, Frames(frames.lengths, device), pdfs_N, monophones_N, keys_B)

    return load


def _empty(width: int, device: torch.device) -> Batch:
    none = torch.empty(0, dtype=torch.long, device=device)
    return Batch(torch.empty(0, width, device=device), Frames((), device), none, none, none)


def _moved(x: Tensor, device: torch.device) -> Tensor:
    """Copy to a GPU by way of pinned memory, for which nobody waits."""
    return x if device == CPU else x.pin_memory().to(device, non_blocking=True)

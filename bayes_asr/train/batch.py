"""Batches as tensors."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from bayes_asr.corpus.batches import key_of
from bayes_asr.corpus.labelled import LabelledSet
from bayes_asr.features.front_end import FrontEnd
from bayes_asr.features.perturbation import perturb
from bayes_asr.nn.frames import Frames, pack
from bayes_asr.processes import group

CPU = torch.device("cpu")


@dataclass(frozen=True)
class Batch:
    """Some utterances, packed.

    streams: features [N, F] by name; targets: labels by name, of frames [N] or of utterances [B];
    keys_B: one integer for each utterance, from which its dropout masks are made.
    """

    streams: Mapping[str, Tensor]
    frames: Frames
    targets: Mapping[str, Tensor]
    keys_B: Tensor

    @property
    def device(self) -> torch.device:
        """Where it is."""
        return self.keys_B.device


def loader(
    data: LabelledSet,
    front_ends: Mapping[str, FrontEnd],
    targets: Iterable[str],
    *,
    seed: int,
    epoch: int,
    noise: float = 0.0,
    tempo: float = 0.0,
    keep: str = "none",
    device: torch.device = CPU,
) -> Callable[[list[str]], Batch]:
    """Return the function that reads, perturbs and packs this process' utterances of a batch.

    front_ends: of each stream; targets: names of those that are wanted.
    noise, tempo: see `perturb`; what they do depends on (seed, epoch, utterance) only.
    keep: what normalised features are held in memory as, if not `none`: float32 or float16.
    device: where the batch is to be; a GPU gets it while it computes another one.
    """
    wanted = {name: data.targets[name] for name in targets}

    def normalise(utt: str) -> dict[str, np.ndarray]:
        return {
            name: front_ends[name].normalise(matrix) for name, matrix in data.prepare(utt).items()
        }

    def inputs(utt: str) -> list[np.ndarray]:
        if keep == "none":
            return list(normalise(utt).values())
        if utt not in data.kept:
            data.kept[utt] = {name: x.astype(keep) for name, x in normalise(utt).items()}
        return [x.astype(np.float32, copy=False) for x in data.kept[utt].values()]

    def load(utterances: list[str]) -> Batch:
        utterances = group.take_share(utterances, data.lengths)
        if not utterances:
            sizes = {name: front_ends[name].size for name in data.streams}
            return empty_batch(sizes, wanted, device)
        keys = [key_of(seed, epoch, utt) for utt in utterances]
        matrices: dict[str, list[Tensor]] = {name: [] for name in data.streams}
        labels: dict[str, list[Tensor]] = {name: [] for name in wanted}
        for utt, key in zip(utterances, keys, strict=True):
            changed, nearest = perturb(inputs(utt), key, noise=noise, tempo=tempo)
            for of_stream, matrix in zip(matrices.values(), changed, strict=True):
                of_stream.append(torch.from_numpy(matrix))
            for name, target in wanted.items():
                found = target.labels(utt)
                found = found[nearest] if target.per == "frame" else found
                labels[name].append(torch.from_numpy(found).long())
        packed = {name: pack(of_stream) for name, of_stream in matrices.items()}
        _, frames, order = next(iter(packed.values()))
        return Batch(
            {name: _move(x_NF, device) for name, (x_NF, _, _) in packed.items()},
            Frames(frames.lengths, device),
            {
                name: _move(
                    pack(found)[0] if wanted[name].per == "frame" else torch.cat(found)[order],
                    device,
                )
                for name, found in labels.items()
            },
            _move(torch.tensor(keys)[order], device),
        )

    return load


def empty_batch(
    sizes: Mapping[str, int], targets: Iterable[str], device: torch.device = CPU
) -> Batch:
    """What a process computes where others have all utterances; sizes: of features, by stream."""
    none = torch.empty(0, dtype=torch.long, device=device)
    streams = {name: torch.empty(0, size, device=device) for name, size in sizes.items()}
    return Batch(streams, Frames((), device), dict.fromkeys(targets, none), none)


def _move(x: Tensor, device: torch.device) -> Tensor:
    """Copy to a GPU by way of pinned memory, for which nobody waits."""
    return x if device == CPU else x.pin_memory().to(device, non_blocking=True)

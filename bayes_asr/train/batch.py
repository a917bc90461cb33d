"""Batches of utterances as tensors, packed without padding."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from bayes_asr.nn.frames import CPU, DecoderTargets, PackedFrames


@dataclass(frozen=True)
class Batch:
    """Packed utterances.

    streams: features [N, F] by name; targets: labels by name, of frames [N] or of utterances [B],
    those that a decoder writes (`decoder_targets`), or lists of values of utterances; keys_B: one
    integer for each utterance, from which its dropout masks are made; decoder_targets: labels that
    a decoder reads and writes; speakers_B: the number of each utterance's speaker, where speakers
    have activations of their own.
    """

    streams: Mapping[str, Tensor]
    frames: PackedFrames
    targets: Mapping[str, Any]
    keys_B: Tensor
    decoder_targets: DecoderTargets | None = None
    speakers_B: Tensor | None = None

    @property
    def num_labels(self) -> int:
        """Number of labels of the first target; of values, the sum over the utterances."""
        labels = next(iter(self.targets.values()))
        return sum(map(len, labels)) if isinstance(labels, list) else len(labels)

    @property
    def device(self) -> torch.device:
        """Device of its tensors."""
        return self.keys_B.device


def empty_batch(
    sizes: Mapping[str, int], targets: Iterable[str], device: torch.device = CPU
) -> Batch:
    """Batch of a process where others have all utterances; sizes: of features, by stream."""
    none = torch.empty(0, dtype=torch.long, device=device)
    streams = {name: torch.empty(0, size, device=device) for name, size in sizes.items()}
    return Batch(streams, PackedFrames((), device), dict.fromkeys(targets, none), none)

"""Normalisation of the feed-forward terms of a layer, over the real frames of a batch.

Terms are [N, sets*G*H]: those of each gate side by side, the gates of one set of weights after
those of the other.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import batch_norm, layer_norm

from bayes_asr.errors import InputError

MOMENTUM = 0.05  # as in pytorch-kaldi and the authors' code
NORMS = ("batch", "batch-shared", "layer", "none")


class BatchNorm(nn.BatchNorm1d):
    """Batch normalisation of each component; a frame alone is normalised as in evaluation."""

    def forward(self, x_NX: Tensor) -> Tensor:
        """Normalise [N, X]."""
        if self.training and len(x_NX) == 1:
            return batch_norm(
                x_NX, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps
            )
        return super().forward(x_NX)


class SharedBatchNorm(nn.Module):
    """One batch normalisation applied to each gate in turn, the last gate first, as in the authors'
    code.

    The gates share scale, shift and running statistics; in training, each is normalised by its own
    batch statistics.
    """

    def __init__(self, sets: int, gates: int, units: int) -> None:
        super().__init__()
        self.sets, self.gates = sets, gates
        self.norm = BatchNorm(sets * units, momentum=MOMENTUM)

    def forward(self, x_NX: Tensor) -> Tensor:
        """Normalise [N, sets*G*H]."""
        x = x_NX.view(len(x_NX), self.sets, self.gates, -1)
        parts = [self.norm(gate.flatten(1)) for gate in reversed(x.unbind(2))]
        return torch.stack([p.view(len(x), self.sets, -1) for p in reversed(parts)], 2).flatten(1)


class LayerNorm(nn.Module):
    """Normalisation of each gate over its units, frame by frame."""

    def __init__(self, groups: int, units: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(groups, units))
        self.bias = nn.Parameter(torch.zeros(groups, units))

    def forward(self, x_NX: Tensor) -> Tensor:
        """Normalise [N, groups*H]."""
        x = x_NX.view(len(x_NX), *self.weight.shape)
        return (layer_norm(x, x.shape[-1:]) * self.weight + self.bias).flatten(1)


def build_norm(name: str, sets: int, gates: int, units: int) -> nn.Module:
    """Return the normalisation `name`; InputError if there is none of this name."""
    if name == "batch":
        return BatchNorm(sets * gates * units, momentum=MOMENTUM)
    if name == "batch-shared":
        return SharedBatchNorm(sets, gates, units)
    if name == "layer":
        return LayerNorm(sets * gates, units)
    if name == "none":
        return nn.Identity()
    raise InputError(f"norm is {name}; known: {', '.join(NORMS)}")

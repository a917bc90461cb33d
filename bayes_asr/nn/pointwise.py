"""Layers that compute each frame from itself: a bottleneck, norms, dropout."""

import torch
from torch import Tensor, nn

from bayes_asr.nn.dropout import drop, frame_keys
from bayes_asr.nn.frames import PackedFrames
from bayes_asr.nn.layer import Layer
from bayes_asr.nn.linear import Linear
from bayes_asr.nn.norm import build_norm


class Projection(Layer):
    """W x, or W x + b: a linear map to `units` numbers, such as a bottleneck."""

    def __init__(self, inputs: int, number: int, *, units: int, bias: bool) -> None:
        super().__init__()
        self.outputs = units
        self.W = Linear(inputs, units, bias=bias)

    def forward(self, x_NF: Tensor, frames: PackedFrames, keys_B: Tensor | None = None) -> Tensor:
        """Return the outputs [N, units]."""
        return self.W(x_NF)


class NormLayer(Layer):
    """A norm alone: `instance`, or one of `norm.build_norm`.

    instance: each number over the frames of its own sequence, as torch.nn.InstanceNorm1d with
    scale and shift: it needs the whole sequence.
    """

    def __init__(self, inputs: int, number: int, *, norm: str) -> None:
        super().__init__()
        self.outputs, self.looks_ahead = inputs, norm == "instance"
        self.norm = InstanceNorm(inputs) if self.looks_ahead else build_norm(norm, 1, 1, inputs)

    def forward(self, x_NF: Tensor, frames: PackedFrames, keys_B: Tensor | None = None) -> Tensor:
        """Return normalised vectors [N, F]."""
        return self.norm(x_NF, frames) if self.looks_ahead else self.norm(x_NF)


class InstanceNorm(nn.Module):
    """Mean 0 and variance 1 of each number over its sequence, then scale and shift."""

    eps = 1e-5

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(inputs))
        self.bias = nn.Parameter(torch.zeros(inputs))

    def forward(self, x_NF: Tensor, frames: PackedFrames) -> Tensor:
        """Normalise [N, F]."""
        x = x_NF.to(self.weight.dtype)
        centred = x - self._average(x, frames)
        variance = self._average(centred.square(), frames)
        return centred * torch.rsqrt(variance + self.eps) * self.weight + self.bias

    def _average(self, x_NF: Tensor, frames: PackedFrames) -> Tensor:
        """The mean over the sequence of each frame [N, F], or [1, F] of one sequence."""
        if len(frames.lengths) == 1:
            return x_NF.mean(0, keepdim=True)
        sums = x_NF.new_zeros(len(frames.lengths), x_NF.shape[1])
        sums = sums.index_add(0, frames.sequence, x_NF)
        lengths = torch.tensor(frames.lengths, dtype=x_NF.dtype, device=x_NF.device)
        return (sums / lengths[:, None]).index_select(0, frames.sequence)


class Dropout(Layer):
    """Dropout alone; numbers that are not dropped are scaled up.

    of: `units`, each number of each frame; `frames`, all numbers of a frame; `utterances`, a number
    in all frames of an utterance.
    """

    def __init__(self, inputs: int, number: int, *, of: str, dropout: float) -> None:
        super().__init__()
        self.outputs, self.number, self.of, self.dropout = inputs, number, of, dropout

    def forward(self, x_NF: Tensor, frames: PackedFrames, keys_B: Tensor | None = None) -> Tensor:
        """Return the numbers that are not dropped, scaled, and zeros [N, F]."""
        if keys_B is None:
            return x_NF
        stream = 2 * self.number
        if self.of == "units":
            return drop(x_NF, frame_keys(keys_B, frames), stream, self.dropout)
        # The scaled mask, which one column or one row share.
        if self.of == "frames":
            keys = frame_keys(keys_B, frames)
            return x_NF * drop(x_NF.new_ones(len(keys), 1), keys, stream, self.dropout)
        mask_BF = drop(x_NF.new_ones(len(keys_B), self.outputs), keys_B, stream, self.dropout)
        return x_NF * mask_BF[frames.sequence]

"""Normalisation of the feed-forward terms of a layer, over the real frames of a batch.

Terms are [N, sets*G*H]: those of each gate side by side, the gates of one set of weights after
those of the other.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx, once_differentiable
from torch.nn.functional import batch_norm, layer_norm

from bayes_asr.base.errors import InputError

MOMENTUM = 0.05  # as in pytorch-kaldi and the authors' code
NORMS = ("batch", "batch-shared", "batch-opposed", "layer", "layer-pytorch-kaldi", "none")
LEAST_DEVIATION = 1e-6  # added to deviations, as in pytorch-kaldi
LEAST_VARIANCE = 1e-24


AllReduce = Callable[[Tensor], None]


class BatchNorm(nn.BatchNorm1d):
    """Batch normalisation of each component; a frame alone is normalised as in evaluation.

    all_reduce: set where several processes share each batch, of which each has some frames or none:
    it adds a tensor up over all of them, in place.
    """

    all_reduce: AllReduce | None = None
    running_mean: Tensor
    running_var: Tensor
    num_batches_tracked: Tensor

    def forward(self, x_NX: Tensor) -> Tensor:
        """Normalise [N, X]."""
        if self.training and self.all_reduce:
            return self._normalise_together(x_NX.to(self.weight.dtype), self.all_reduce).to(
                x_NX.dtype
            )
        if self.training and len(x_NX) == 1:
            return batch_norm(
                x_NX, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps
            )
        return super().forward(x_NX)

    def _normalise_together(self, x_NX: Tensor, all_reduce: AllReduce) -> Tensor:
        """Normalise by the frames of all processes; update running statistics as torch does."""
        with torch.no_grad():
            n, mean, variance = _measure(x_NX, all_reduce)
            # The running variance is that of a sample, n / (n - 1), as torch's.
            if n > 1:
                self.num_batches_tracked += 1
                self.running_mean += MOMENTUM * (mean - self.running_mean)
                self.running_var += MOMENTUM * (variance * (n / (n - 1)) - self.running_var)
            else:  # a frame alone changes nothing, as above
                mean, variance = self.running_mean.clone(), self.running_var.clone()
        statistics = _Statistics(n, mean, variance, all_reduce)
        return _Normalised.apply(x_NX, self.weight, self.bias, self.eps, statistics)


class _Statistics(NamedTuple):
    """Statistics of the frames of all processes: their number, mean [X] and variance [X]."""

    n: int
    mean: Tensor
    variance: Tensor
    all_reduce: AllReduce


def _measure(x_NX: Tensor, all_reduce: AllReduce) -> tuple[int, Tensor, Tensor]:
    """The number of frames of all processes, their mean, and their variance without correction.

    Each process centres its own frames on their mean. Squares around 0 are added up, in double
    precision, in which they do not cancel.
    """
    sums = x_NX.new_zeros(3, x_NX.shape[1], dtype=torch.float64)
    if len(x_NX):
        mean, variance = torch.batch_norm_update_stats(x_NX, None, None, 0.0)
        square = variance.double() + mean.double().square()
        sums += len(x_NX) * torch.stack((torch.ones_like(square), mean, square))
    all_reduce(sums)
    n, mean, square = sums[0], *(sums[1:] / sums[0])
    return int(n[0]), mean.to(x_NX), (square - mean.square()).to(x_NX)


class _Normalised(torch.autograd.Function):
    """`apply(x_NX, weight, bias, eps, statistics)` -> x, normalised.

    Mean and variance are functions of x, of each process, unless there is one frame alone (Ioffe &
    Szegedy 2015).
    """

    @staticmethod
    def forward(
        ctx: FunctionCtx,
        x_NX: Tensor,
        weight: Tensor,
        bias: Tensor,
        eps: float,
        statistics: _Statistics,
    ) -> Tensor:
        ctx.save_for_backward(x_NX, weight)
        ctx.eps, ctx.statistics = eps, statistics  # type: ignore[attr-defined]
        return batch_norm(x_NX, statistics.mean, statistics.variance, weight, bias, eps=eps)

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, grad_NX: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors  # type: ignore[attr-defined]
        eps, (n, mean, variance, all_reduce) = ctx.eps, ctx.statistics  # type: ignore[attr-defined]
        # With x^ = (x - mean) / deviation: the gradient of the scale is the sum of dy x^ over the
        # frames, that of the shift the sum of dy.
        parts = x.new_zeros(2, x.shape[1])
        if len(x):
            _, *gradients = torch.ops.aten.native_batch_norm_backward(
                grad_NX, x, weight, mean, variance, None, None, False, eps, [False, True, True]
            )
            parts += torch.stack(gradients)
        total = parts.clone()
        all_reduce(total)
        scale = weight * (variance + eps).rsqrt()
        # Ioffe & Szegedy (2015): dx = scale (dy - (sum of dy + x^ sum of dy x^) / n), with the sums
        # over all processes. The second part is a batch norm of x whose scale and shift are those
        # sums; a frame alone has statistics that do not depend on it.
        through_statistics = -total * scale / n if n > 1 else torch.zeros_like(total)
        factor, offset = through_statistics
        by_x = batch_norm(x, mean, variance, factor, offset, eps=eps).addcmul_(grad_NX, scale)
        return by_x, *parts, None, None


class SharedBatchNorm(nn.Module):
    """One batch normalisation applied to each gate in turn, the last gate first, as in the authors'
    code.

    The gates share scale, shift and running statistics; in training, each is normalised by its own
    batch statistics.
    opposed: the first gate is the negative of what is normalised, as where z keeps the old state.
    """

    def __init__(self, sets: int, gates: int, units: int, *, opposed: bool = False) -> None:
        super().__init__()
        self.sets, self.gates, self.opposed = sets, gates, opposed
        self.norm = BatchNorm(sets * units, momentum=MOMENTUM)

    def forward(self, x_NX: Tensor) -> Tensor:
        """Normalise [N, sets*G*H]."""
        x = x_NX.unflatten(1, (self.sets, self.gates, -1))
        # The order matters: each gate moves the running statistics that all share.
        parts = [self.norm(gate.flatten(1)) for gate in reversed(x.unbind(2))]
        parts = [part.unflatten(1, (self.sets, -1)) for part in reversed(parts)]
        if self.opposed:
            parts[0] = -parts[0]
        return torch.stack(parts, 2).flatten(1)


class LayerNorm(nn.Module):
    """Normalisation of each gate over its units, frame by frame."""

    def __init__(self, groups: int, units: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(groups, units))
        self.bias = nn.Parameter(torch.zeros(groups, units))

    def forward(self, x_NX: Tensor) -> Tensor:
        """Normalise [N, groups*H]."""
        x = x_NX.view(x_NX.shape[0], *self.weight.shape)
        return (self.standardise(x) * self.weight + self.bias).flatten(1)

    def standardise(self, x_NGH: Tensor) -> Tensor:
        """Give each group mean 0 and deviation 1."""
        return layer_norm(x_NGH, x_NGH.shape[-1:])


class PytorchKaldiLayerNorm(LayerNorm):
    """Layer normalisation by the deviation of a sample (n - 1), plus a small number."""

    def __init__(self, groups: int, units: int) -> None:
        if units == 1:
            raise InputError(
                "norm is layer-pytorch-kaldi, which divides by the deviation of several units, but"
                " there is 1; use batch or none"
            )
        super().__init__(groups, units)

    def standardise(self, x_NGH: Tensor) -> Tensor:
        """Give each group mean 0 and about deviation 1."""
        x = x_NGH.to(self.weight.dtype)
        centred = x - x.mean(-1, keepdim=True)
        variance = centred.square().sum(-1, keepdim=True) / (x_NGH.shape[-1] - 1)
        # A constant, such as digital silence, would have an infinite slope.
        return centred / (variance.clamp(min=LEAST_VARIANCE).sqrt() + LEAST_DEVIATION)


LAYER_NORMS = {"layer": LayerNorm, "layer-pytorch-kaldi": PytorchKaldiLayerNorm}


def build_norm(name: str, sets: int, gates: int, units: int) -> nn.Module:
    """Return the normalisation `name`; InputError if there is none of this name."""
    if name == "batch":
        return BatchNorm(sets * gates * units, momentum=MOMENTUM)
    if name in ("batch-shared", "batch-opposed"):
        return SharedBatchNorm(sets, gates, units, opposed=name == "batch-opposed")
    if name in LAYER_NORMS:
        return LAYER_NORMS[name](sets * gates, units)
    if name == "none":
        return nn.Identity()
    raise InputError(f"norm is {name}; known: {', '.join(NORMS)}")

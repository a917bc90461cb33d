"""Normalisation of the feed-forward terms of a layer, over the real frames of a batch.

Terms are [N, sets*G*H]: those of each gate side by side, the gates of one set of weights after
those of the other.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx, once_differentiable
from torch.nn.functional import batch_norm, layer_norm

from bayes_asr.errors import InputError

MOMENTUM = 0.05  # as in pytorch-kaldi and the authors' code
NORMS = ("batch", "batch-shared", "layer", "none")


AddUp = Callable[[Tensor], None]


class BatchNorm(nn.BatchNorm1d):
    """Batch normalisation of each component; a frame alone is normalised as in evaluation.

    add_up: set where several processes share each batch, of which each has some frames or none:
    it adds a tensor up over all of them, in place.
    """

    add_up: AddUp | None = None
    running_mean: Tensor
    running_var: Tensor
    num_batches_tracked: Tensor

    def forward(self, x_NX: Tensor) -> Tensor:
        """Normalise [N, X]."""
        if self.training and self.add_up:
            return self._normalised_together(x_NX.to(self.weight.dtype), self.add_up).to(x_NX.dtype)
        if self.training and len(x_NX) == 1:
            return batch_norm(
                x_NX, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps
            )
        return super().forward(x_NX)

    def _normalised_together(self, x_NX: Tensor, add_up: AddUp) -> Tensor:
        """Normalise by the statistics of all processes' frames, and note them as torch does."""
        ones = x_NX.new_ones(x_NX.shape[1:])
        n, total = _Total.apply(torch.stack((len(x_NX) * ones, x_NX.sum(0))), add_up)
        several = n > 1  # a frame alone changes nothing, as above
        mean = torch.where(several, total / n, self.running_mean)
        # In a second sum, since squares of what is not centred would cancel.
        x = x_NX - mean
        squares = _Total.apply(x.square().sum(0), add_up)
        variance = torch.where(several, squares / n, self.running_var)
        with torch.no_grad():
            self.num_batches_tracked += several[0]
            self.running_mean += MOMENTUM * (mean - self.running_mean)
            unbiased = variance * n / (n - 1).clamp(min=1)
            self.running_var += MOMENTUM * (unbiased - self.running_var)
        return x * ((variance + self.eps).rsqrt() * self.weight) + self.bias


class _Total(torch.autograd.Function):
    """`apply(tensor, add_up)` -> its sum over all processes, through which gradients are summed."""

    @staticmethod
    def forward(ctx: FunctionCtx, part: Tensor, add_up: AddUp) -> Tensor:
        ctx.add_up = add_up  # type: ignore[attr-defined]
        total = part.clone()
        add_up(total)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, grad: Tensor) -> tuple[Tensor, None]:
        total = grad.clone()
        ctx.add_up(total)  # type: ignore[attr-defined]
        return total, None


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
        x = x_NX.unflatten(1, (self.sets, self.gates, -1))
        parts = [self.norm(gate.flatten(1)) for gate in reversed(x.unbind(2))]
        parts = [part.unflatten(1, (self.sets, -1)) for part in reversed(parts)]
        return torch.stack(parts, 2).flatten(1)


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

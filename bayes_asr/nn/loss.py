"""The loss of a head and its errors, in one pass over the outputs where there is compiled code."""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx, once_differentiable
from torch.nn import functional

from bayes_asr.nn.kernels import library


class Loss(NamedTuple):
    """What a head's outputs cost."""

    mean: Tensor
    """Cross entropy in nats: the sum over frames, divided by a number of frames."""
    errors: Tensor
    """How many frames have another first largest output than that of their label."""


def cross_entropy(logits_NP: Tensor, labels_N: Tensor, frames: float) -> Loss:
    """Return the cross entropy of labels and the softmax of outputs, divided by `frames`.

    ValueError for a label without an output, but on a GPU, where torch finds it.
    """
    on_cpu, P = logits_NP.device.type == "cpu", logits_NP.shape[1]
    if on_cpu and len(labels_N) and not 0 <= labels_N.min() <= labels_N.max() < P:
        raise ValueError(
            f"labels are from {labels_N.min()} to {labels_N.max()}; there are {P} outputs"
        )
    kernel = library.path()
    if on_cpu and kernel != "torch" and logits_NP.dtype in library.STORAGES:
        return Loss(*_CrossEntropy.apply(kernel, logits_NP, labels_N, frames))
    # torch's argmax of bfloat16 is slow.
    logits = logits_NP.float() if logits_NP.dtype == torch.bfloat16 else logits_NP
    mean = functional.cross_entropy(logits, labels_N, reduction="sum") / frames
    return Loss(mean, (logits.argmax(1) != labels_N).sum())


class _CrossEntropy(torch.autograd.Function):
    """`apply(kernel, logits_NP, labels_N, frames)` -> the members of `Loss`.

    The gradient is computed with the loss, in the type of the outputs.
    """

    @staticmethod
    def forward(
        ctx: FunctionCtx, kernel: str, logits_NP: Tensor, labels_N: Tensor, frames: float
    ) -> tuple[Tensor, Tensor]:
        wanted = ctx.needs_input_grad[1]  # type: ignore[attr-defined]
        losses, wrong, gradient = library.cross_entropy(
            kernel, logits_NP, labels_N, 1 / frames, with_gradient=wanted
        )
        if gradient is not None:
            ctx.save_for_backward(gradient)
        mean, errors = (losses.sum(dtype=torch.float64) / frames).float(), wrong.sum()
        ctx.mark_non_differentiable(errors)
        return mean, errors

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, by_mean: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        (gradient,) = ctx.saved_tensors  # type: ignore[attr-defined]
        scaled = gradient if by_mean == 1 else gradient * by_mean
        return None, scaled, None, None

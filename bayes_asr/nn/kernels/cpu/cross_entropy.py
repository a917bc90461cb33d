"""Cross entropy with its gradient, and the frames that are wrong, in one pass over the outputs."""

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx, once_differentiable

from bayes_asr.nn.kernels.cpu import library

WORK = 2**14  # outputs of a loss that are worth a thread


class CompiledCrossEntropy(torch.autograd.Function):
    """`apply(path, logits_NP, labels_N, num_labels)` -> the members of `Loss`, by a path.

    The gradient is computed with the loss, in the type of the outputs.
    """

    @staticmethod
    def forward(
        ctx: FunctionCtx, path: str, logits_NP: Tensor, labels_N: Tensor, num_labels: float
    ) -> tuple[Tensor, Tensor]:
        with_gradient = ctx.needs_input_grad[1]  # type: ignore[attr-defined]
        losses, wrong, gradient = cross_entropy(
            path, logits_NP, labels_N, 1 / num_labels, with_gradient=with_gradient
        )
        if gradient is not None:
            ctx.save_for_backward(gradient)
        mean, errors = (losses.sum(dtype=torch.float64) / num_labels).float(), wrong.sum()
        ctx.mark_non_differentiable(errors)
        return mean, errors

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, by_mean: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        (gradient,) = ctx.saved_tensors  # type: ignore[attr-defined]
        # 1 is the gradient of a loss that is minimised as it is: no product over all outputs.
        scaled = gradient if by_mean == 1 else gradient * by_mean
        return None, scaled, None, None


def cross_entropy(
    path: str, logits_NP: Tensor, labels_N: Tensor, scale: float, *, with_gradient: bool
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Compute, by a path, the losses [N] of frames in nats, whether another output than that of
    the label comes first among the largest [N], and the gradient [N, P] of `scale` times the sum.

    labels: in [0, P), which is not checked.
    """
    N, P = logits_NP.shape
    logits = library.require("logits", logits_NP, (N, P), *library.STORAGES)
    labels = library.require("labels", labels_N, (N,), torch.int64)
    losses, wrong = torch.empty(N), torch.empty(N, dtype=torch.bool)
    gradient = torch.empty_like(logits) if with_gradient else None
    # One thread more for every WORK outputs: small batches are done before threads have started.
    job = library.CrossEntropyJob(
        threads=min(torch.get_num_threads(), 1 + N * P // WORK),
        storage=library.STORAGES.index(logits.dtype),
        rows=N,
        outputs=P,
        logits=library.address(logits),
        labels=library.address(labels),
        gradient=library.address(gradient),
        losses=library.address(losses),
        wrong=library.address(wrong),
        scale=scale,
    )
    library.run("cross_entropy", path, job, f"the loss of {N} x {P} outputs")
    return losses, wrong, gradient

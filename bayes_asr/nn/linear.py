"""Products of many frames, by oneDNN also in single precision.

torch takes MKL for them, which needs up to two thirds longer on a busy machine or where rows are no
whole number of cache lines (1,100 numbers), and twice as long on processors that it does not know
(docs/performance.md).
"""

import torch
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx, once_differentiable

from bayes_asr.nn.native import transposed

LARGE = 2**24  # multiplications: smaller products gain nothing
HAS_ONEDNN = hasattr(torch.ops.mkldnn, "_linear_pointwise")


class Linear(nn.Linear):
    """`torch.nn.Linear` for features [N, inputs] of many frames."""

    def forward(self, x_NF: Tensor) -> Tensor:
        """Return x W^T + b [N, outputs]."""
        if _gains(x_NF, self.weight.T) and not torch.is_autocast_enabled("cpu"):
            return _Product.apply(x_NF, self.weight, self.bias)
        return super().forward(x_NF)


def product(a_NK: Tensor, b_KM: Tensor) -> Tensor:
    """Return a b, without a gradient, by oneDNN where it is faster."""
    return _by_onednn(a_NK, b_KM) if _gains(a_NK, b_KM) else torch.mm(a_NK, b_KM)


def _gains(a_NK: Tensor, b_KM: Tensor) -> bool:
    return (
        HAS_ONEDNN
        and a_NK.device.type == "cpu"
        and a_NK.dtype == b_KM.dtype == torch.float32
        and a_NK.numel() * b_KM.shape[1] >= LARGE
    )


def _by_onednn(a_NK: Tensor, b_KM: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return a b + bias, by what torch.compile makes of a linear layer on a CPU."""
    if a_NK.T.is_contiguous():  # a sum over frames, which are far apart in both
        a, b_MK = transposed(a_NK.T), transposed(b_KM)
    else:
        # oneDNN is 1,000 times slower on rows or columns with gaps between them.
        b = b_KM if b_KM.T.is_contiguous() else b_KM.contiguous()
        a, b_MK = a_NK.contiguous(), b.T
    return torch.ops.mkldnn._linear_pointwise(a, b_MK, bias, "none", [], "")


class _Product(torch.autograd.Function):
    """`apply(x_NF, W_XF, b_X)` -> x W^T + b [N, X]."""

    @staticmethod
    def forward(ctx: FunctionCtx, x_NF: Tensor, W_XF: Tensor, b_X: Tensor | None) -> Tensor:
        ctx.save_for_backward(x_NF, W_XF)
        return _by_onednn(x_NF, W_XF.T, b_X)

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, grad_NX: Tensor) -> tuple[Tensor | None, ...]:
        x, W = ctx.saved_tensors  # type: ignore[attr-defined]
        grad = grad_NX.contiguous()
        by_x, by_W, by_b = ctx.needs_input_grad  # type: ignore[attr-defined]
        return (
            _by_onednn(grad, W) if by_x else None,
            _by_onednn(grad.T, x) if by_W else None,
            grad.sum(0) if by_b else None,
        )

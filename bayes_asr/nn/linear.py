"""The feed-forward product of many frames, by oneDNN also in single precision.

torch takes MKL for it, which on rows of no whole number of cache lines (1,100 numbers) and on a
busy machine takes up to two thirds longer (docs/performance.md).
"""

import torch
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx, once_differentiable

WIDE = 256  # narrower products gain nothing
HAS_ONEDNN = hasattr(torch.ops.mkldnn, "_linear_pointwise")


class Linear(nn.Linear):
    """`torch.nn.Linear` for features [N, inputs] of many frames."""

    def forward(self, x_NF: Tensor) -> Tensor:
        """Return x W^T + b [N, outputs]."""
        if self._gains(x_NF):
            return _Product.apply(x_NF, self.weight, self.bias)
        return super().forward(x_NF)

    def _gains(self, x_NF: Tensor) -> bool:
        return (
            HAS_ONEDNN
            and x_NF.device.type == "cpu"
            and x_NF.dtype == self.weight.dtype == torch.float32
            and not torch.is_autocast_enabled("cpu")
            and min(len(x_NF), *self.weight.shape) >= WIDE
        )


class _Product(torch.autograd.Function):
    """`apply(x_NF, W_XF, b_X)` -> x W^T + b [N, X]."""

    @staticmethod
    def forward(ctx: FunctionCtx, x_NF: Tensor, W_XF: Tensor, b_X: Tensor | None) -> Tensor:
        x, W = x_NF.contiguous(), W_XF.contiguous()
        ctx.save_for_backward(x, W)
        return _product(x, W, b_X)

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, grad_NX: Tensor) -> tuple[Tensor | None, ...]:
        x, W = ctx.saved_tensors  # type: ignore[attr-defined]
        grad = grad_NX.contiguous()
        by_x, by_W, by_b = ctx.needs_input_grad  # type: ignore[attr-defined]
        return (
            _product(grad, W.T) if by_x else None,
            _product(grad.T, x.T) if by_W else None,
            grad.sum(0) if by_b else None,
        )


def _product(a: Tensor, b: Tensor, bias: Tensor | None = None) -> Tensor:
    """a b^T + bias, by what torch.compile makes of a linear layer on a CPU.

    a and b are contiguous by rows or by columns: it is hundreds of times slower on others.
    """
    return torch.ops.mkldnn._linear_pointwise(a, b, bias, "none", [], "")

"""The feed-forward product of many frames, with rows that start where a cache line does.

A row of 1,100 numbers is no whole number of 64-byte lines, and MKL's products then take up to a
third longer (docs/performance.md). So matrices are copied into wider ones, whose rows are padded to
whole lines; the copies cost little, and the sums are the same.
"""

import torch
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx, once_differentiable

LINE = 16  # numbers of four bytes in a cache line
WIDE = 256  # narrower products gain nothing


class Linear(nn.Linear):
    """`torch.nn.Linear` for features [N, inputs] of many frames."""

    def forward(self, x_NF: Tensor) -> Tensor:
        """Return x W^T + b [N, outputs]."""
        if not self._gains(x_NF):
            return super().forward(x_NF)
        y = _PaddedProduct.apply(x_NF, self.weight)
        return y if self.bias is None else y + self.bias

    def _gains(self, x_NF: Tensor) -> bool:
        return (
            x_NF.device.type == "cpu"
            and x_NF.dtype == self.weight.dtype == torch.float32
            and not torch.is_autocast_enabled("cpu")
            and min(len(x_NF), *self.weight.shape) >= WIDE
            and any(size % LINE for size in self.weight.shape)
        )


class _PaddedProduct(torch.autograd.Function):
    """`apply(x_NF, W_XF)` -> x W^T [N, X]."""

    @staticmethod
    def forward(ctx: FunctionCtx, x_NF: Tensor, W_XF: Tensor) -> Tensor:
        x, W = padded(x_NF), padded(W_XF)
        ctx.save_for_backward(x, W)
        return _product(x, W.T)

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, grad_NX: Tensor) -> tuple[Tensor | None, Tensor | None]:
        x, W = ctx.saved_tensors  # type: ignore[attr-defined]
        grad = padded(grad_NX)
        by_x, by_W = ctx.needs_input_grad  # type: ignore[attr-defined]
        return _product(grad, W) if by_x else None, _product(grad.T, x) if by_W else None


def padded(matrix: Tensor) -> Tensor:
    """A matrix [R, C], itself or a copy, whose rows start at whole cache lines."""
    rows, columns = matrix.shape
    aligned = matrix.stride(1) == 1 and not matrix.stride(0) % LINE
    return matrix if aligned else _empty(rows, columns, matrix).copy_(matrix)


def _empty(rows: int, columns: int, like: Tensor) -> Tensor:
    """A matrix [R, C] in padded rows."""
    return like.new_empty(rows, -(-columns // LINE) * LINE)[:, :columns]


def _product(a: Tensor, b: Tensor) -> Tensor:
    """The product of padded matrices, written to padded rows too; contiguous, as others expect."""
    return torch.mm(a, b, out=_empty(a.shape[0], b.shape[1], a)).contiguous()

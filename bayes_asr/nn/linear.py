"""Products of many frames, compiled for this machine, also for features in bfloat16.

torch takes MKL for them in single precision, which needs twice as long on processors that it does
not know, and oneDNN in bfloat16, which compiles code for each new number of frames
(docs/performance.md).
"""

import torch
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx, once_differentiable

from bayes_asr.nn.kernels.cpu import library
from bayes_asr.nn.kernels.cpu.products import is_faster, multiply, product


class Linear(nn.Linear):
    """`torch.nn.Linear` for features [N, inputs] of many frames.

    batch_invariant: multiply any number of frames by compiled code, without a gradient. It adds up
    in one order, torch in one that depends on the number of frames.
    """

    batch_invariant = False

    def forward(self, x_NF: Tensor) -> Tensor:
        """Return x W^T + b [N, outputs]."""
        if self._is_compiled(x_NF):
            if self.batch_invariant:
                return multiply(library.path(), x_NF, self.weight.T, self.bias, torch.float32)
            if self._gains(x_NF):
                return _Product.apply(x_NF.to(factor_type("cpu")), self.weight, self.bias)
        return super().forward(x_NF)

    def _is_compiled(self, x_NF: Tensor) -> bool:
        return (
            not torch.compiler.is_exporting()
            and x_NF.device.type == "cpu"
            and x_NF.dim() == 2
            and self.weight.dtype == torch.float32
        )

    def _gains(self, x_NF: Tensor) -> bool:
        # Under autocast torch's product returns bfloat16 too, and without it float32: the type
        # of the outputs must not depend on who computes them.
        dtype = factor_type("cpu")
        by_autocast = torch.is_autocast_enabled("cpu")
        return (
            by_autocast == (dtype == torch.bfloat16)
            and x_NF.dtype in (dtype, torch.float32)
            and is_faster(x_NF.numel() * self.out_features, dtype)
        )


def factor_type(device: str) -> torch.dtype:
    """Return the type of factors: bfloat16 where autocast asks for it, or float32."""
    reduced = torch.is_autocast_enabled(device) and torch.get_autocast_dtype(device)
    return torch.bfloat16 if reduced == torch.bfloat16 else torch.float32


class _Product(torch.autograd.Function):
    """`apply(x_NF, W_XF, b_X)` -> x W^T + b [N, X] of the type of x."""

    @staticmethod
    def forward(ctx: FunctionCtx, x_NF: Tensor, W_XF: Tensor, b_X: Tensor | None) -> Tensor:
        ctx.save_for_backward(x_NF, W_XF)
        return product(x_NF, W_XF.T, b_X)

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, grad_NX: Tensor) -> tuple[Tensor | None, ...]:
        x, W = ctx.saved_tensors  # type: ignore[attr-defined]
        # y = x W^T + b: dx = dy W, dW = dy^T x, db is the sum of dy over frames.
        grad = grad_NX.contiguous()
        by_x, by_W, by_b = ctx.needs_input_grad  # type: ignore[attr-defined]
        return (
            product(grad, W) if by_x else None,
            product(grad.T, x, dtype=W.dtype) if by_W else None,
            grad.sum(0, dtype=W.dtype) if by_b else None,
        )

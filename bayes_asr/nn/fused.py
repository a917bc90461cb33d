"""The recurrence with a hand-written backward pass: what `scan` computes, without one autograd node per operation and frame.

For a cell with state h and pre-activations a_t = x_t + V h_{t-1}, `Cell.partials` gives J_a = dh_t/da_t and, at fixed a_t,
J_h = dh_t/dh_{t-1}; both are elementwise, so they are computed for all frames at once before the loop. With g_t the gradient
that reaches h_t, the loop then only does da_t = J_a g_t and g_{t-1} += J_h g_t + da_t V^T. The gradient of V is one product
over all frames after the loop.
"""

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx

from bayes_asr.nn.cells import Cell
from bayes_asr.nn.frames import Frames


class FusedRecurrence(torch.autograd.Function):
    """`apply(inputs_NDX, V, initial_BDH, mask_BDH, cell, frames)` -> states [N, D, H].

    inputs_NDX: feed-forward terms [N, D, G*H], each direction in its own order of time.
    V: recurrent weights [1, H, G*H] shared by the directions or [D, H, G*H].
    initial_BDH: state before the first frame; mask_BDH: recurrent dropout mask or None.
    """

    @staticmethod
    def forward(
        ctx: FunctionCtx,
        inputs_NDX: Tensor,
        V: Tensor,
        initial_BDH: Tensor,
        mask_BDH: Tensor | None,
        cell: Cell,
        frames: Frames,
    ) -> Tensor:
        N, D, X = inputs_NDX.shape
        H = V.shape[1]
        a_NDX = torch.empty_like(inputs_NDX)
        h_NDH = inputs_NDX.new_empty(N, D, H)
        h = initial_BDH
        for start, n in zip(frames.starts, frames.sizes, strict=True):
            rows = slice(start, start + n)
            _product(inputs_NDX[rows], h[:n], V, out=a_NDX[rows])
            gates = a_NDX[rows].view(n, D, X // H, H)
            h_NDH[rows] = cell(gates, h[:n], None if mask_BDH is None else mask_BDH[:n])
            h = h_NDH[rows]
        ctx.save_for_backward(a_NDX, h_NDH, V, initial_BDH, mask_BDH)
        ctx.cell, ctx.frames = cell, frames  # type: ignore[attr-defined]
        return h_NDH

    @staticmethod
    def backward(ctx: FunctionCtx, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad_NDH,) = grads
        a_NDX, h_NDH, V, initial_BDH, mask_BDH = ctx.saved_tensors  # type: ignore[attr-defined]
        frames: Frames = ctx.frames  # type: ignore[attr-defined]
        before_NDH = torch.cat((initial_BDH, h_NDH[frames.previous]))
        by_gate, kept = ctx.cell.partials(  # type: ignore[attr-defined]
            a_NDX.view(*h_NDH.shape[:2], -1, h_NDH.shape[2]),
            before_NDH,
            h_NDH,
            None if mask_BDH is None else mask_BDH[frames.sequence],
        )
        g_BDH = torch.zeros_like(initial_BDH)
        for start, n in zip(reversed(frames.starts), reversed(frames.sizes), strict=True):
            rows = slice(start, start + n)
            g = g_BDH[:n].add_(grad_NDH[rows])
            da = by_gate[rows].mul_(g.unsqueeze(-2))
            g.mul_(kept[rows])
            _product(g, da.flatten(2), V.transpose(1, 2), out=g)
        da_NDX = by_gate.flatten(2)
        return da_NDX, _weight_gradient(before_NDH, da_NDX, V), g_BDH, None, None, None


def _product(x: Tensor, h: Tensor, V: Tensor, *, out: Tensor) -> None:
    """Write x + h V into `out`, for [n, D, *] tensors and V of one or D directions."""
    if V.shape[0] == 1:
        torch.addmm(x.flatten(0, 1), h.flatten(0, 1), V[0], out=out.flatten(0, 1))
    else:
        torch.baddbmm(x.transpose(0, 1), h.transpose(0, 1), V, out=out.transpose(0, 1))


def _weight_gradient(before_NDH: Tensor, da_NDX: Tensor, V: Tensor) -> Tensor:
    """Gradient of the recurrent weights, one product over all frames."""
    if V.shape[0] == 1:
        return (before_NDH.flatten(0, 1).T @ da_NDX.flatten(0, 1)).unsqueeze(0)
    return torch.bmm(before_NDH.permute(1, 2, 0), da_NDX.transpose(0, 1))

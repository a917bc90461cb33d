"""The recurrence with a hand-written backward pass: what `scan` computes, without one autograd node
per operation and frame.

For a cell with states s and pre-activations a_t = x_t + V h_{t-1}, `Cell.partials` gives J_a =
ds_t/da_t and, at fixed a_t, J_s = ds_t/ds_{t-1}; both are elementwise, so they are computed for all
frames at once before the loop. With g_t the gradient that reaches s_t, the loop then only does da_t
= J_a g_t and g_{t-1} += J_s g_t + da_t V^T. The gradients of V and of the cell's own parameters are
computed over all frames after the loop.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx, once_differentiable

from bayes_asr.nn.cell import Cell
from bayes_asr.nn.frames import Frames


class FusedRecurrence(torch.autograd.Function):
    """`apply(cell, frames, inputs_NDX, V, mask_BDH, *initial_BDH, *cell.parameters())` -> states h
    [N, D, H].

    inputs_NDX: feed-forward terms [N, D, G*H], each direction in its own order of time.
    V: recurrent weights [1, H, G*H] shared by the directions or [D, H, G*H]; None for a cell
    without.
    mask_BDH: dropout mask or None; initial_BDH: each state before the first frame.
    """

    @staticmethod
    def forward(
        ctx: FunctionCtx,
        cell: Cell,
        frames: Frames,
        inputs_NDX: Tensor,
        V: Tensor | None,
        mask_BDH: Tensor | None,
        *tensors: Tensor,
    ) -> Tensor:
        N, D, X = inputs_NDX.shape
        H = X // cell.gates
        initial = tensors[: cell.states]
        a_NDX = inputs_NDX if V is None else torch.empty_like(inputs_NDX)
        after = [inputs_NDX.new_empty(N, D, H) for _ in initial]
        state, mask = initial, mask_BDH
        # Splitting once is much cheaper than slicing at every time step.
        rows = [t.split(frames.sizes) for t in (inputs_NDX, a_NDX, *after)]
        for x, a, *new in zip(*rows, strict=True):
            n = len(x)
            if n < len(state[0]):
                state = tuple(s[:n] for s in state)
            if mask is not None and n < len(mask):
                mask = mask[:n]
            if V is not None:
                _pre_activations(cell, x, state[0], V, out=a)
            computed = cell.forward(a.view(n, D, cell.gates, H), state, mask)
            for s, value in zip(new, computed, strict=True):
                s.copy_(value)
            state = tuple(new)
        ctx.save_for_backward(a_NDX, V, mask_BDH, *initial, *after)  # type: ignore[arg-type]
        ctx.cell, ctx.frames = cell, frames  # type: ignore[attr-defined]
        return after[0]

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, grad_NDH: Tensor) -> tuple[Tensor | None, ...]:
        cell: Cell = ctx.cell  # type: ignore[attr-defined]
        frames: Frames = ctx.frames  # type: ignore[attr-defined]
        a_NDX, V, mask_BDH, *states = ctx.saved_tensors  # type: ignore[attr-defined]
        initial, after = states[: cell.states], states[cell.states :]
        before = [torch.cat((i, s[frames.previous])) for i, s in zip(initial, after, strict=True)]
        mask_NDH = None if mask_BDH is None else mask_BDH[frames.sequence]
        gates = a_NDX.view(*grad_NDH.shape[:2], cell.gates, -1)
        by_gate, by_state = cell.partials(gates, before, after, mask_NDH)
        reset = _Reset.of(cell, gates, before[0]) if cell.resets else None
        parameters = [p for p in cell.parameters() if p.requires_grad]
        reaching = [torch.empty_like(s) for s in after] if parameters else []
        g_BDH = [torch.zeros_like(i) for i in initial]
        grads, *das = (t.split(frames.sizes) for t in (grad_NDH, *by_gate))
        kept = [[d if d is None else d.split(frames.sizes) for d in row] for row in by_state]
        saved = [s.split(frames.sizes) for s in reaching]
        for t in reversed(range(len(frames.sizes))):
            g = [s[: len(grads[t])] for s in g_BDH]
            g[0].add_(grads[t])
            for copies, s in zip(saved, g, strict=False):
                copies[t].copy_(s)
            da = das[0][t].mul_(g[0].unsqueeze(-2))
            for other, s in zip(das[1:], g[1:], strict=True):
                da.addcmul_(other[t], s.unsqueeze(-2))
            _step_back(g, kept, t)
            if V is not None:
                _through_product(g[0], da, V, reset, frames.starts[t])
        da_NDX = by_gate[0].flatten(2)
        by_V = None if V is None else _weight_gradient(before[0], da_NDX, V, reset)
        by_parameter: dict[Tensor, Tensor | None] = {}
        if parameters:
            with torch.enable_grad():
                new = cell(gates, tuple(before), mask_NDH)
                found = torch.autograd.grad(new, parameters, reaching, allow_unused=True)
            by_parameter = dict(zip(parameters, found, strict=True))
        of_cell = (by_parameter.get(p) for p in cell.parameters())
        return None, None, da_NDX, by_V, None, *g_BDH, *of_cell


def _step_back(
    g: Sequence[Tensor], by_state: Sequence[Sequence[Sequence[Tensor] | None]], t: int
) -> None:
    """Turn gradients of the states after frame t into those before it, but for the product."""
    old = g if len(g) == 1 else [s.clone() for s in g]
    for i, s in enumerate(g):
        pairs = zip(old, by_state, strict=True)
        derivatives = [(o, d) for o, row in pairs if (d := row[i]) is not None]
        if not derivatives:
            s.zero_()
        for k, (o, d) in enumerate(derivatives):
            torch.mul(o, d[t], out=s) if k == 0 else s.addcmul_(o, d[t])


def _pre_activations(cell: Cell, x: Tensor, h: Tensor, V: Tensor, *, out: Tensor) -> None:
    """Write x + h V into `out` [n, D, G*H], the last gate with what was reset instead of h."""
    if not cell.resets:
        _product(x, h, V, out=out)
        return
    H = h.shape[-1]
    _product(x[..., :-H], h, V[..., :-H], out=out[..., :-H])
    u = cell.reset(out.unflatten(-1, (cell.gates, H))[..., :-1, :], h)
    _product(x[..., -H:], u, V[..., -H:], out=out[..., -H:])


@dataclass(frozen=True)
class _Reset:
    """What V multiplied for the last gate [N, D, H], and its derivatives by the others and by h."""

    value: Tensor
    by_gate: Tensor
    by_h: Tensor

    @classmethod
    def of(cls, cell: Cell, gates: Tensor, h_NDH: Tensor) -> "_Reset":
        with torch.enable_grad():
            wanted = [t.detach().requires_grad_() for t in (gates[..., :-1, :], h_NDH)]
            u = cell.reset(*wanted)
            by_gate, by_h = torch.autograd.grad(u, wanted, torch.ones_like(u))
        return cls(u.detach(), by_gate, by_h)


def _through_product(g: Tensor, da: Tensor, V: Tensor, reset: _Reset | None, start: int) -> None:
    """Add to `g`, of the old h, what comes through V, and to `da` what comes through the reset."""
    if reset is not None:
        rows = slice(start, start + len(g))
        H = g.shape[-1]
        last, da = da[..., -1, :], da[..., :-1, :]
        du = torch.zeros_like(g)
        _product(du, last, V[..., -H:].transpose(1, 2), out=du)
        da.addcmul_(reset.by_gate[rows], du.unsqueeze(-2))
        g.addcmul_(reset.by_h[rows], du)
        V = V[..., :-H]
    _product(g, da.flatten(2), V.transpose(1, 2), out=g)


def _product(x: Tensor, h: Tensor, V: Tensor, *, out: Tensor) -> None:
    """Write x + h V into `out`, for [n, D, *] tensors and V of one or D directions."""
    if V.shape[0] == 1:
        torch.addmm(x.flatten(0, 1), h.flatten(0, 1), V[0], out=out.flatten(0, 1))
    else:
        torch.baddbmm(x.transpose(0, 1), h.transpose(0, 1), V, out=out.transpose(0, 1))


def _weight_gradient(
    before_NDH: Tensor, da_NDX: Tensor, V: Tensor, reset: _Reset | None = None
) -> Tensor:
    """Gradient of the recurrent weights, one product over all frames for what V multiplied."""
    if reset is not None:
        H = before_NDH.shape[-1]
        first = _weight_gradient(before_NDH, da_NDX[..., :-H], V)
        return torch.cat((first, _weight_gradient(reset.value, da_NDX[..., -H:], V)), dim=2)
    if V.shape[0] == 1:
        return (before_NDH.flatten(0, 1).T @ da_NDX.flatten(0, 1)).unsqueeze(0)
    return torch.bmm(before_NDH.permute(1, 2, 0), da_NDX.transpose(0, 1))

"""The recurrence in torch with a hand-written backward pass: the function of `scan`, without one
autograd node per operation and frame.

For a cell with states s and pre-activations a_t = x_t + V h_{t-1}, `Cell.partials` gives J_a =
ds_t/da_t and, at fixed a_t, J_s = ds_t/ds_{t-1}; both are elementwise, so they are computed for
many frames at once. With g_t the gradient that reaches s_t, the loop over frames then only does
da_t = J_a g_t and g_{t-1} += J_s g_t + da_t V^T. The gradients of V and of the cell's own
parameters are computed over all frames after the loop.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx, once_differentiable

from bayes_asr.nn.frames import PackedFrames
from bayes_asr.nn.kernels.reference.gradients import (
    delay,
    keep_buffers,
    parameter_gradients,
    weight_gradient,
)
from bayes_asr.nn.kernels.reference.scan import Recurrence
from bayes_asr.nn.units.cell import Cell, Partials

BLOCK = 256  # frames whose partial derivatives are computed at once: few enough to stay in caches
COMPILED = False


def supports(cell: Cell, weights: Tensor) -> bool:
    """Whether it computes a cell with such weights: on any device, if it can be fused."""
    return cell.can_fuse


def unroll(recurrence: Recurrence) -> Tensor:
    """Return the states h [N, D, H] of a recurrence, in the order of time."""
    cell, frames, backwards, terms_NSX, V, mask_BDH, initial_BDH = recurrence
    return FusedRecurrence.apply(
        cell, frames, backwards, terms_NSX, V, mask_BDH, *initial_BDH, *cell.parameters()
    )


class FusedRecurrence(torch.autograd.Function):
    """`apply(cell, frames, backwards, terms_NSX, V, mask_BDH, *initial_BDH, *cell.parameters())` ->
    states h [N, D, H].

    backwards: for each direction, whether it reads time backwards.
    terms_NSX: feed-forward terms [N, S, G*H]; S is D, or 1 where the directions share them.
    V: recurrent weights [1, H, G*H] shared by the directions or [D, H, G*H]; None for a cell
    without.
    mask_BDH: dropout mask or None; initial_BDH: each state before the first frame.
    """

    @staticmethod
    def forward(
        ctx: FunctionCtx,
        cell: Cell,
        frames: PackedFrames,
        backwards: Sequence[bool],
        terms_NSX: Tensor,
        V: Tensor | None,
        mask_BDH: Tensor | None,
        *tensors: Tensor,
    ) -> Tensor:
        a_NDX = frames.order_directions(terms_NSX, backwards)
        if a_NDX is terms_NSX:
            a_NDX = a_NDX.clone()  # what V adds is written into it
        gates = a_NDX.unflatten(-1, (cell.gates, -1))
        initial = tensors[: cell.states]
        states = [torch.empty_like(gates[:, :, 0]) for _ in initial]
        state, mask = initial, mask_BDH
        # Splitting once is much cheaper than slicing at every time step.
        for a, *new in zip(*(t.split(frames.sizes) for t in (gates, *states)), strict=True):
            n = len(a)
            if n < len(state[0]):
                state = tuple(s[:n] for s in state)
                mask = None if mask is None else mask[:n]
            if V is not None:
                add_recurrent_terms(cell, a, state[0], V)
            computed = cell.forward(a, state, mask)
            for s, value in zip(new, computed, strict=True):
                s.copy_(value)
            state = tuple(new)
        ctx.save_for_backward(a_NDX, V, mask_BDH, *initial, *states)  # type: ignore[arg-type]
        ctx.cell, ctx.frames, ctx.backwards = keep_buffers(cell), frames, backwards  # type: ignore[attr-defined]
        ctx.sets = terms_NSX.shape[1]  # type: ignore[attr-defined]
        return frames.order_directions(states[0], backwards)

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, grad_NDH: Tensor) -> tuple[Tensor | None, ...]:
        cell: Cell = ctx.cell  # type: ignore[attr-defined]
        frames, backwards = ctx.frames, ctx.backwards  # type: ignore[attr-defined]
        a_NDX, V, mask_BDH, *tensors = ctx.saved_tensors  # type: ignore[attr-defined]
        gates = a_NDX.unflatten(-1, (cell.gates, -1))
        initial, states = tensors[: cell.states], tensors[cell.states :]
        previous = [delay(s, s_0, frames) for s, s_0 in zip(states, initial, strict=True)]
        reset = reset_partials(cell, gates, previous[0]) if cell.resets else ()
        V_T = None if V is None else V.transpose(1, 2)
        parameters = [p for p in cell.parameters() if p.requires_grad]
        # Gradients of each new state, kept for the cell's own parameters alone.
        by_state = [torch.empty_like(s) for s in states] if parameters else []
        by_h, da = frames.order_directions(grad_NDH, backwards), torch.empty_like(gates)
        g_BDH = [torch.zeros_like(s) for s in initial]
        # From the last time step to the first, a block of partial derivatives at a time.
        for steps, rows in reversed(frames.blocks(BLOCK)):
            mask = None if mask_BDH is None else mask_BDH[frames.sequence[rows]]
            partials = cell.partials(
                gates[rows], [s[rows] for s in previous], [s[rows] for s in states], mask
            )
            through_block(
                frames.sizes[steps],
                partials,
                [d[rows] for d in reset],
                V_T,
                g_BDH,
                Gradients(by_h[rows], da[rows], [s[rows] for s in by_state]),
            )
        by_V = None
        if V is not None and ctx.needs_input_grad[4]:  # type: ignore[attr-defined]
            restored = cell.reset(gates[:, :, :-1], previous[0]) if cell.resets else None
            by_V = weight_gradient(previous[0], restored, da.flatten(2), V)
        by_terms = frames.order_directions(da.flatten(2), backwards)
        if ctx.sets == 1:  # type: ignore[attr-defined]
            by_terms = by_terms.sum(1, keepdim=True)
        mask_NDH = None if mask_BDH is None else mask_BDH[frames.sequence]
        of_cell = parameter_gradients(cell, gates, previous, mask_NDH, by_state)
        return None, None, None, by_terms, by_V, None, *g_BDH, *of_cell


class Gradients(NamedTuple):
    """Gradients of some frames: of the outputs h, and two that the way back fills.

    da: of pre-activations; by_state: those that reach each new state, or none.
    """

    by_h: Tensor
    da: Tensor
    by_state: Sequence[Tensor]


def through_block(
    sizes: Sequence[int],
    partials: Partials,
    reset: Sequence[Tensor],
    V_T: Tensor | None,
    g_BDH: Sequence[Tensor],
    gradients: Gradients,
) -> None:
    """Go back through some time steps, and fill the gradients of their frames.

    reset: derivatives of the reset state, if any. g_BDH: gradients of the states after these steps,
    turned into those of the states before them.
    """
    gate_slopes = [d.split(sizes) for d in partials[0]]
    state_slopes = [[d if d is None else d.split(sizes) for d in row] for row in partials[1]]
    by_h, da_NDGH, by_state = gradients
    rows = [t.split(sizes) for t in (by_h, da_NDGH, *by_state)]
    through_reset = [d.split(sizes) for d in reset]
    for t in reversed(range(len(sizes))):
        grad, da, *buffers = (parts[t] for parts in rows)
        # Gradients of sequences that have ended before step t stay 0.
        g = [s[: sizes[t]] for s in g_BDH]
        g[0].add_(grad)
        for buffer, s in zip(buffers, g, strict=False):  # there are none without parameters
            buffer.copy_(s)
        # da_t = J_a g_t, summed over the states
        torch.mul(gate_slopes[0][t], g[0].unsqueeze(-2), out=da)
        for slope, s in zip(gate_slopes[1:], g[1:], strict=True):
            da.addcmul_(slope[t], s.unsqueeze(-2))
        _step_back(g, state_slopes, t)
        if V_T is not None:
            _through_product(g[0], da, V_T, [d[t] for d in through_reset])


def _step_back(
    g: Sequence[Tensor], state_slopes: Sequence[Sequence[Sequence[Tensor] | None]], t: int
) -> None:
    """Turn gradients of the states after frame t into those before it, but for the product."""
    # Several gradients read one another: each of them needs the others as they were.
    old = g if len(g) == 1 else [s.clone() for s in g]
    for i, s in enumerate(g):
        pairs = zip(old, state_slopes, strict=True)
        derivatives = [(o, d) for o, row in pairs if (d := row[i]) is not None]
        if not derivatives:
            s.zero_()
        for k, (o, d) in enumerate(derivatives):
            torch.mul(o, d[t], out=s) if k == 0 else s.addcmul_(o, d[t])


def add_recurrent_terms(cell: Cell, a: Tensor, h: Tensor, V: Tensor) -> None:
    """Add h V to `a` [n, D, G, H], for the last gate with the reset state instead of h."""
    if not cell.resets:
        _add_product(a.flatten(2), h, V)
        return
    H = h.shape[-1]
    gates, candidate = a[:, :, :-1], a[:, :, -1]
    # In this order: the reset reads the other gates with what V adds to them.
    _add_product(gates.flatten(2), h, V[..., :-H])
    _add_product(candidate, cell.reset(gates, h), V[..., -H:])


def reset_partials(cell: Cell, gates: Tensor, h_NDH: Tensor) -> tuple[Tensor, ...]:
    """The derivatives of the reset state, which V multiplied, by the other gates and by h."""
    with torch.enable_grad():
        inputs = [t.detach().requires_grad_() for t in (gates[:, :, :-1], h_NDH)]
        u = cell.reset(*inputs)
        return torch.autograd.grad(u, inputs, torch.ones_like(u))


def _through_product(g: Tensor, da: Tensor, V_T: Tensor, reset: Sequence[Tensor]) -> None:
    """Add the gradient through V to `g`, that of the old h, and the one through reset to `da`."""
    if reset:
        by_gate, by_h = reset
        H = g.shape[-1]
        da, candidate = da[:, :, :-1], da[:, :, -1]
        # du: gradient of the reset state u = reset(a, h), which goes on to both of its arguments.
        du = torch.zeros_like(g)
        _add_product(du, candidate, V_T[:, -H:])
        da.addcmul_(by_gate, du.unsqueeze(-2))
        g.addcmul_(by_h, du)
        V_T = V_T[:, :-H]
    _add_product(g, da.flatten(2), V_T)


def _add_product(y: Tensor, h: Tensor, V: Tensor) -> None:
    """Add h V to `y`, for [n, D, *] tensors and V of one or D directions."""
    if V.shape[0] == 1:
        y.view(-1, y.shape[-1]).addmm_(h.flatten(0, 1), V[0])
    else:
        y.transpose(0, 1).baddbmm_(h.transpose(0, 1), V)

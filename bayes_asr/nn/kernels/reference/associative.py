"""The recurrence of a Markov chain of two states by a parallel scan: the function of `scan`.

A frame multiplies (present, absent) by a 2x2 matrix (`MarkovChain.matrix`). Products of matrices
are associative, so that those of all frames up to each are found in log_2 T rounds (Hillis & Steele
1986): round k multiplies the product that ends at t by the one that ends at t - 2^k. Gradients go
back by the same scan, of linear functions.
"""

from collections.abc import Callable, Sequence
from typing import cast

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx, once_differentiable

from bayes_asr.nn.frames import PackedFrames
from bayes_asr.nn.kernels.reference.gradients import delay, keep_buffers, parameter_gradients
from bayes_asr.nn.kernels.reference.scan import Recurrence
from bayes_asr.nn.units.cell import Cell
from bayes_asr.nn.units.unitwise import MarkovChain

COMPILED = False
Compose = Callable[[Tensor, Tensor], Tensor]
"""(functions [K, n, D, H] of some frames, those of earlier ones) -> the earlier, then the later."""


def supports(cell: Cell, weights: Tensor) -> bool:
    """Whether it computes a cell: a chain with a matrix, away from a CPU, which gains nothing."""
    has_matrix = isinstance(cell, MarkovChain) and type(cell).matrix is not MarkovChain.matrix
    return has_matrix and cell.can_fuse and weights.device.type != "cpu"


def unroll(recurrence: Recurrence) -> Tensor:
    """Return the states h [N, D, H] of a recurrence, in the order of time."""
    cell, frames, backwards, terms_NSX, _, mask_BDH, initial_BDH = recurrence
    return AssociativeRecurrence.apply(
        cell, frames, backwards, terms_NSX, mask_BDH, *initial_BDH, *cell.parameters()
    )


class AssociativeRecurrence(torch.autograd.Function):
    """`apply(cell, frames, backwards, terms_NSX, mask_BDH, *initial_BDH, *cell.parameters())` ->
    states h [N, D, H].

    As `fused.FusedRecurrence`. The chain is the last state of the cell, l.
    """

    @staticmethod
    def forward(
        ctx: FunctionCtx,
        cell: MarkovChain,
        frames: PackedFrames,
        backwards: Sequence[bool],
        terms_NSX: Tensor,
        mask_BDH: Tensor | None,
        *tensors: Tensor,
    ) -> Tensor:
        gates = frames.order_directions(terms_NSX, backwards).unflatten(-1, (cell.gates, -1))
        mask = None if mask_BDH is None else mask_BDH[frames.sequence]
        initial = tensors[cell.states - 1]
        present, mixed, moved = accumulate(cell.matrix(gates, mask), frames, compose_matrices)
        start = initial[frames.sequence]
        l_NDH = torch.logaddexp(present + start, mixed) - torch.logaddexp(
            moved + start, torch.zeros_like(start)
        )
        previous = delay(l_NDH, initial, frames)
        ctx.save_for_backward(gates, mask, previous)  # type: ignore[arg-type]
        ctx.cell, ctx.frames, ctx.backwards = keep_buffers(cell), frames, backwards  # type: ignore[attr-defined]
        ctx.sets = terms_NSX.shape[1]  # type: ignore[attr-defined]
        h = cell(gates, (previous,) * cell.states, mask)[0]
        return frames.order_directions(h, backwards)

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, grad_NDH: Tensor) -> tuple[Tensor | None, ...]:
        cell: MarkovChain = ctx.cell  # type: ignore[attr-defined]
        frames, backwards = ctx.frames, ctx.backwards  # type: ignore[attr-defined]
        gates, mask, l_NDH = ctx.saved_tensors  # type: ignore[attr-defined]
        previous = (l_NDH,) * cell.states
        by_gates, by_old = cell.partials(gates, previous, cell(gates, previous, mask), mask)
        by_h = frames.order_directions(grad_NDH, backwards)
        # What reaches the l before frame t: b_t = J_t b_{t+1} + dh_t/dl_{t-1} dL/dh_t, with
        # J_t = dl_t/dl_{t-1}.
        h_by_l, l_by_l = (cast(Tensor, row[-1]) for row in (by_old[0], by_old[-1]))
        backwards_in_time = torch.stack((l_by_l, h_by_l * by_h))[:, frames.reverse]
        through = accumulate(backwards_in_time, frames, compose_linear)[1]
        none = torch.zeros_like(through[: len(frames.lengths)])
        later = delay(through, none, frames)[frames.reverse]
        by_state = [by_h + later] if cell.states == 1 else [by_h, later]
        da = sum(d * g.unsqueeze(-2) for d, g in zip(by_gates, by_state, strict=True))
        by_terms = frames.order_directions(cast(Tensor, da).flatten(2), backwards)
        if ctx.sets == 1:  # type: ignore[attr-defined]
            by_terms = by_terms.sum(1, keepdim=True)
        by_l = through[frames.reverse][: len(none)]
        by_initial = [torch.zeros_like(by_l)] * (cell.states - 1) + [by_l]
        of_cell = parameter_gradients(cell, gates, previous, mask, by_state)
        return None, None, None, by_terms, None, *by_initial, *of_cell


def accumulate(functions: Tensor, frames: PackedFrames, compose: Compose) -> Tensor:
    """Compose the functions [K, N, D, H] of the frames of each sequence up to each frame."""
    starts, distance = torch.tensor(frames.starts, device=frames.device), 1
    while distance < len(frames.sizes):
        # Frames that have one so far before them follow the first `distance` time steps.
        passed, going = functions.tensor_split([frames.starts[distance]], 1)
        rows = slice(frames.starts[distance], None)
        earlier = starts[frames.time[rows] - distance] + frames.sequence[rows]
        functions = torch.cat((passed, compose(going, functions[:, earlier])), 1)
        distance *= 2
    return functions


def compose_matrices(later: Tensor, earlier: Tensor) -> Tensor:
    """The logarithms of products of matrices [[e^A, e^B], [e^C, 1]] over their last element."""
    A, B, C = later
    A_1, B_1, C_1 = earlier
    corner = torch.logaddexp(C + B_1, torch.zeros_like(C))
    rows = (
        torch.logaddexp(A + A_1, B + C_1),
        torch.logaddexp(A + B_1, B),
        torch.logaddexp(C + A_1, C_1),
    )
    return torch.stack([row - corner for row in rows])


def compose_linear(later: Tensor, earlier: Tensor) -> Tensor:
    """The slope and the offset of functions x -> slope x + offset, one after the other."""
    slope, offset = later
    return torch.stack((slope * earlier[0], slope * earlier[1] + offset))

"""The recurrence of a cell over all frames, by the fastest code that computes it."""

from collections.abc import Sequence

import torch
from torch import Tensor

from bayes_asr.nn.frames import PackedFrames
from bayes_asr.nn.kernels.fused import FusedRecurrence
from bayes_asr.nn.kernels.recurrence import CompiledRecurrence, find_kernel
from bayes_asr.nn.layer import State
from bayes_asr.nn.scan import order_directions, step_through
from bayes_asr.nn.units.cell import Cell


def unroll(
    cell: Cell,
    terms_NSX: Tensor,
    V: Tensor | None,
    mask_BDH: Tensor | None,
    frames: PackedFrames,
    backwards: Sequence[bool],
    initial: State,
    *,
    fused: bool,
) -> Tensor:
    """States h [N, D, H], in the order of time, for feed-forward terms [N, S, G*H].

    V: recurrent weights [sets, H, G*H]; backwards: for each direction, whether it reads time
    backwards; initial: each state before the first frame [B, D, H]. fused: use compiled code, or a
    hand-written backward pass, where there is one; without it the same equations run through
    `scan`, against which both are tested.
    """
    fused = fused and not torch.compiler.is_exporting()
    if fused and (kernel := find_kernel(cell, initial[0])):
        shift = cell.drop_offset(mask_BDH)
        if shift is not None and V is not None:
            terms_NSX, initial = _shift(shift, terms_NSX, V, frames, initial)
        coefficients = cell.coefficients()
        tensors = initial if coefficients is None else (*initial, coefficients)
        h = CompiledRecurrence.apply(
            kernel, frames, backwards, torch.is_grad_enabled(), terms_NSX, V, mask_BDH, *tensors
        )
        return h if shift is None else (h + shift[frames.sequence]).to(h.dtype)
    # Without a kernel, on a GPU or for other cells: a backward pass by hand for the same equations.
    if fused and cell.fusible:
        return FusedRecurrence.apply(
            cell, frames, backwards, terms_NSX, V, mask_BDH, *initial, *cell.parameters()
        )
    # The loop: each direction reads its own order of time, and is put back into that of the frames.
    inputs = order_directions(terms_NSX, frames, backwards)
    return order_directions(
        step_through(cell, inputs, V, mask_BDH, frames, initial)[0], frames, backwards
    )


def _shift(
    shift_BDH: Tensor, terms_NSX: Tensor, V: Tensor, frames: PackedFrames, initial: State
) -> tuple[Tensor, State]:
    """Terms [N, D, G*H] and initial state of the recurrence of the states h less `shift`.

    Kernels multiply a candidate c by its mask m and know no other dropout. A cell with a
    `drop_offset` s has m c + s where they have m c. Its state mixes old states with candidates, so
    that h - s follows the kernel's equation; V reads h, that is, s more.
    """
    # V (h - s) lacks V s, which is the same at every frame of a sequence: it goes into the terms.
    fed = (shift_BDH.transpose(0, 1) @ V).transpose(0, 1)
    terms = (terms_NSX + fed[frames.sequence]).to(terms_NSX.dtype)
    return terms, tuple(state - shift_BDH for state in initial)

"""The plain loop over frames, of any step and of a cell, by torch's autograd.

It defines what a recurrence is: every backend returns the same, and is tested against it.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, cast

import torch
from torch import Tensor

from bayes_asr.nn.frames import PackedFrames
from bayes_asr.nn.layer import State
from bayes_asr.nn.linear import is_exporting, multiply_directions
from bayes_asr.nn.units.cell import Cell

Step = Callable[[Tensor, State, int], State]
COMPILED = False


class Recurrence(NamedTuple):
    """A cell over all frames of a packed batch, in one or both directions of time.

    backwards: for each direction, whether it reads time backwards.
    terms_NSX: feed-forward terms [N, S, G*H]; S is D, or 1 where the directions share them.
    V: recurrent weights [1, H, G*H] that the directions share, or [D, H, G*H]; None for a cell
    without.
    mask_BDH: dropout mask of candidates, or None.
    initial_BDH: each state before the first frame.
    """

    cell: Cell
    frames: PackedFrames
    backwards: Sequence[bool]
    terms_NSX: Tensor
    V: Tensor | None
    mask_BDH: Tensor | None
    initial_BDH: State


def supports(cell: Cell, weights: Tensor) -> bool:
    """Whether it computes a cell with such weights: any."""
    return True


def unroll(recurrence: Recurrence) -> Tensor:
    """Return the states h [N, D, H] of a recurrence, in the order of time."""
    cell, frames, backwards, terms_NSX, V, mask_BDH, initial_BDH = recurrence
    # Each direction reads its own order of time, and is put back into that of the frames.
    inputs = frames.order_directions(terms_NSX, backwards)
    h, _ = step_through(cell, inputs, V, mask_BDH, frames, initial_BDH)
    return frames.order_directions(h, backwards)


def unroll_shifted(recurrence: Recurrence, compute: Callable[[Recurrence], Tensor]) -> Tensor:
    """States h [N, D, H] of a recurrence by code whose dropout is a mask alone.

    Kernels multiply a candidate c by its mask m and know no other dropout. A cell with a
    `drop_offset` s has m c + s where they have m c. Its state mixes old states with candidates, so
    that h - s follows the kernel's equation; V reads h, that is, s more.
    """
    shift_BDH = recurrence.cell.drop_offset(recurrence.mask_BDH)
    if shift_BDH is None:
        return compute(recurrence)
    # V (h - s) lacks V s, which is the same at every frame of a sequence: it goes into the terms.
    fed_BDX = (shift_BDH.transpose(0, 1) @ cast(Tensor, recurrence.V)).transpose(0, 1)
    terms, sequence = recurrence.terms_NSX, recurrence.frames.sequence
    h = compute(
        recurrence._replace(
            terms_NSX=(terms + fed_BDX[sequence]).to(terms.dtype),
            initial_BDH=tuple(state - shift_BDH for state in recurrence.initial_BDH),
        )
    )
    return (h + shift_BDH[sequence]).to(h.dtype)


def scan(
    step: Step, state: State, inputs_NDX: Tensor, frames: PackedFrames
) -> tuple[Tensor, State]:
    """Run `step` over the time steps of a packed batch, all directions at once.

    step: (inputs [n, D, X], state, n) -> state; n sequences are alive at this time step.
    state: tensors [B, D, H] before the first frame; the first of them is what the layer outputs.
    inputs_NDX: feed-forward terms [N, D, X], each direction in its own order of time
    (`PackedFrames.order_directions`).
    Returns the first state tensor at every frame [N, D, H], in the order of `inputs_NDX`, and the
    state after the last time step.
    """
    if is_exporting():
        return _scan_one(step, state, inputs_NDX)
    outputs = []
    # Sequences are sorted by length: those that go on at a time step are the first n.
    for start, n in zip(frames.starts, frames.sizes, strict=True):
        state = step(inputs_NDX[start : start + n], tuple(s[:n] for s in state), n)
        outputs.append(state[0])
    return torch.cat(outputs), state


def step_through(
    cell: Cell,
    inputs_NDX: Tensor,
    V: Tensor | None,
    mask_BDH: Tensor | None,
    frames: PackedFrames,
    state: State,
) -> tuple[Tensor, State]:
    """States h [N, D, H], each direction in its own order of time, and the last state."""

    def product(h: Tensor, gates: slice) -> Tensor:
        """The recurrent terms h V [n, D, g, H] of some gates."""
        # Columns of V are those of each gate in turn: [S, H, G*H] -> [S, H, g*H].
        weights = cast(Tensor, V).unflatten(2, (cell.gates, -1))[:, :, gates].flatten(2)
        return multiply_directions(h, weights).unflatten(2, (-1, cell.gate_size))

    def step(x: Tensor, state: State, n: int) -> State:
        gates = x.unflatten(-1, (cell.gates, -1))
        return cell.step(gates, state, product, None if mask_BDH is None else mask_BDH[:n])

    return scan(step, state, inputs_NDX, frames)


def _scan_one(step: Step, state: State, inputs_TDX: Tensor) -> tuple[Tensor, State]:
    """The same for one sequence, as a loop that exporters write down for any length."""
    from torch._higher_order_ops.scan import scan as exported_scan  # not needed for training

    def advance(state: State, x_DX: Tensor) -> tuple[State, Tensor]:
        state = step(x_DX.unsqueeze(0), state, 1)
        return state, state[0].squeeze(0).clone()  # carry and output must be different tensors

    initial = tuple(s.clone() for s in state)  # initial states may be parts of one tensor
    last, outputs_TDH = exported_scan(advance, initial, inputs_TDX)
    return outputs_TDH, last

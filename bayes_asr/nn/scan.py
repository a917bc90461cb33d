"""The plain loop over frames, against which faster ones are tested, of any step and of a cell."""

from collections.abc import Callable, Sequence
from typing import cast

import torch
from torch import Tensor

from bayes_asr.nn.frames import PackedFrames
from bayes_asr.nn.layer import State
from bayes_asr.nn.units.cell import Cell

Step = Callable[[Tensor, State, int], State]


def scan(
    step: Step, state: State, inputs_NDX: Tensor, frames: PackedFrames
) -> tuple[Tensor, State]:
    """Run `step` over the time steps of a packed batch, all directions at once.

    step: (inputs [n, D, X], state, n) -> state; n sequences are alive at this time step.
    state: tensors [B, D, H] before the first frame; the first of them is what the layer outputs.
    inputs_NDX: feed-forward terms [N, D, X], each direction in its own order of time
    (`order_directions`).
    Returns the first state tensor at every frame [N, D, H], in the order of `inputs_NDX`, and the
    state after the last time step.
    """
    if torch.compiler.is_exporting():
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
        if len(weights) == 1:
            terms = h @ weights[0]
        elif torch.compiler.is_exporting():  # matrices can be quantised, batches of them cannot
            terms = torch.stack([h[:, d] @ matrix for d, matrix in enumerate(weights)], 1)
        else:
            terms = torch.bmm(h.transpose(0, 1), weights).transpose(0, 1)
        return terms.unflatten(2, (-1, cell.gate_size))

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


def order_directions(x_NSX: Tensor, frames: PackedFrames, backwards: Sequence[bool]) -> Tensor:
    """Give each direction its own order of time: [N, S, X] -> [N, D, X].

    backwards: for each direction, whether it reads time backwards; such a direction starts at the
    last real frame of each sequence. S is D, or 1 where the directions read the same. With S = D,
    applied twice it changes nothing.
    """
    sets = x_NSX.shape[1]
    if sets == len(backwards) and not any(backwards):
        return x_NSX
    # As rows [N*S, X], one gather serves all directions.
    rows = x_NSX.flatten(0, 1).index_select(0, frames.rows(backwards, sets))
    return rows.unflatten(0, (-1, len(backwards)))

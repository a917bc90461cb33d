"""The recurrence of a cell frame by frame, from a state to the state after."""

from typing import cast

import torch
from torch import Tensor

from bayes_asr.nn.frames import PackedFrames
from bayes_asr.nn.layer import State
from bayes_asr.nn.scan import scan
from bayes_asr.nn.units.cell import Cell


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

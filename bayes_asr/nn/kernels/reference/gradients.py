"""Gradients of a recurrence over all frames at once: of a cell's parameters, and of V."""

import copy
from collections.abc import Sequence

import torch
from torch import Tensor

from bayes_asr.nn.frames import PackedFrames
from bayes_asr.nn.units.cell import Cell


def keep_buffers(cell: Cell) -> Cell:
    """Return a cell of the same parameters that keeps its running means; `observe` moves those."""
    twin = copy.copy(cell)
    vars(twin).update({name: mean.clone() for name, mean in cell.named_buffers(recurse=False)})
    return twin


def parameter_gradients(
    cell: Cell,
    gates: Tensor,
    previous: Sequence[Tensor],
    mask_NDH: Tensor | None,
    by_state: Sequence[Tensor],
) -> list[Tensor | None]:
    """Gradients of all parameters of a cell, from those that reach its states after each frame.

    previous: the states before each frame.
    """
    parameters = [p for p in cell.parameters() if p.requires_grad]
    by_parameter: dict[Tensor, Tensor | None] = {}
    if parameters:
        with torch.enable_grad():
            pairs = zip(cell(gates, tuple(previous), mask_NDH), by_state, strict=True)
            # Parameters may be those of another method than `forward`, such as `hand_on`.
            trained = [(state, by) for state, by in pairs if state.requires_grad]
            if trained:
                states, by = zip(*trained, strict=True)
                gradients = torch.autograd.grad(states, parameters, by, allow_unused=True)
                by_parameter = dict(zip(parameters, gradients, strict=True))
    return [by_parameter.get(p) for p in cell.parameters()]


def delay(state_NDH: Tensor, initial_BDH: Tensor, frames: PackedFrames) -> Tensor:
    """A state before every frame [N, D, H]: the initial one, then that after the frame before."""
    previous = torch.empty_like(state_NDH)
    # The first B rows are the first time step; the others read the row of the frame before.
    initial, later = previous.split([len(initial_BDH), len(previous) - len(initial_BDH)])
    initial.copy_(initial_BDH)
    torch.index_select(state_NDH, 0, frames.previous, out=later)
    return previous


def weight_gradient(
    previous_NDH: Tensor, restored_NDH: Tensor | None, da_NDX: Tensor, V: Tensor
) -> Tensor:
    """Gradient of V: one product over all frames for each of the factors of V.

    previous: h before every frame; restored: what V multiplied for the last gate instead, if any.
    """
    if restored_NDH is None:
        return _outer(previous_NDH, da_NDX, V)
    H = V.shape[1]
    by_gates = _outer(previous_NDH, da_NDX[..., :-H].contiguous(), V)
    return torch.cat((by_gates, _outer(restored_NDH, da_NDX[..., -H:], V)), dim=2)


def _outer(h_NDH: Tensor, da_NDX: Tensor, V: Tensor) -> Tensor:
    """Sum over frames, and over directions that share V, of h_i da_j."""
    if V.shape[0] == 1:
        return (h_NDH.flatten(0, 1).T @ da_NDX.flatten(0, 1)).unsqueeze(0)
    return torch.bmm(h_NDH.permute(1, 2, 0), da_NDX.transpose(0, 1))

"""The recurrence in torch's operations, all time steps of a bucket in one CUDA graph.

It computes what `fused` does, without the time that a processor takes to launch each operation.
"""

import copy
from collections.abc import Hashable, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from bayes_asr.nn.kernels.cuda.recurrence import unroll_static
from bayes_asr.nn.kernels.cuda.static import Shape
from bayes_asr.nn.kernels.reference.fused import (
    Gradients,
    add_recurrent_terms,
    reset_partials,
    through_block,
)
from bayes_asr.nn.kernels.reference.gradients import parameter_gradients
from bayes_asr.nn.kernels.reference.scan import Recurrence, unroll_shifted
from bayes_asr.nn.units.cell import Cell, LogDomainCell

BLOCK = 1024  # frames whose partial derivatives are computed at once

COMPILED = False


def supports(cell: Cell, weights: Tensor) -> bool:
    """Whether it computes a cell with such weights: on a GPU, unless `step` is its own, or it has
    numbers beside parameters [sets, H], which are all that a program is given.
    """
    return cell.can_fuse and weights.is_cuda and _has_parameters_alone(cell)


def _has_parameters_alone(cell: Cell) -> bool:
    """Whether all numbers of a cell are parameters [sets, H]."""
    # The mean of dropped candidates is in the terms.
    known = {"dropped"} if isinstance(cell, LogDomainCell) else set[str]()
    buffers = {name for name, _ in cell.named_buffers()}
    rows = (cell.sets, cell.gate_size)
    return buffers <= known and all(p.shape == rows for p in cell.parameters())


def unroll(recurrence: Recurrence) -> Tensor:
    """Return the states h [N, D, H] of a recurrence, in the order of time."""
    program, parameters = CellProgram(recurrence.cell), tuple(recurrence.cell.parameters())
    coefficients = torch.stack(parameters, 1) if parameters else None
    return unroll_shifted(recurrence, lambda shifted: unroll_static(program, shifted, coefficients))


class CellProgram:
    """A program of the operations of a cell; its coefficients are the parameters of the cell.

    Programs of cells that differ in numbers alone are equal. The buffers `terms`, which become
    pre-activations, and `others` [states - 1, T, B, D, H], the states behind h, are saved.
    """

    saved: ClassVar[tuple[str, ...]] = ("terms", "others")

    def __init__(self, cell: Cell) -> None:
        self._described, self._kind = cell, _describe(cell)

    def __hash__(self) -> int:
        return hash(self._kind)

    def __eq__(self, program: object) -> bool:
        return isinstance(program, CellProgram) and self._kind == program._kind

    @cached_property
    def _cell(self) -> Cell:
        """A cell with numbers of its own, at addresses that stay."""
        cell = copy.deepcopy(self._described).requires_grad_()
        if isinstance(cell, LogDomainCell):
            cell.dropped_candidate = "zero"  # the rest of dropout is in the terms
        return cell

    def allocate(self, shape: Shape) -> dict[str, Tensor]:
        """Return empty buffers."""
        T, B, D, H, sets, dtype, device = shape
        cell, P = self._described, len(list(self._described.parameters()))
        X, state = cell.gates * H, (B, D, H)
        sizes = {
            "terms": (T, B, D, X),
            "mask": state,
            "initial": (cell.states, *state),
            "h": (T, *state),
            "others": (cell.states - 1, T, *state),
            "arriving": (T, *state),
            "da": (T, B, D, X),
            "by_initial": (cell.states, *state),
        }
        if cell.recurrent:
            sizes["V"] = (sets, H, X)
        if cell.resets:
            sizes["restored"] = (T, *state)
        if P:
            sizes |= {"coefficients": (sets, P, H), "by_coefficients": (B, D, P, H)}
        buffers = {n: torch.empty(size, dtype=dtype, device=device) for n, size in sizes.items()}
        return {"sizes": torch.empty(T, dtype=torch.int32, device=device), **buffers}

    def forward(self, buffers: dict[str, Tensor]) -> None:
        """Compute all states."""
        cell, gates = self._prepare(buffers)
        spare, V, mask = _find_spare(buffers), buffers.get("V"), buffers["mask"]
        states = buffers["h"], *buffers["others"]
        state = tuple(buffers["initial"])
        for ended, a, *new in zip(spare, gates, *states, strict=True):
            if V is not None:
                add_recurrent_terms(cell, a, state[0], V)
            computed = cell.forward(a, state, mask)
            for s, old, value in zip(new, state, computed, strict=True):
                torch.where(ended, old, value, out=s)
            state = tuple(new)
        if cell.resets:
            for steps in _blocks(buffers):
                previous = _delay(buffers["h"], buffers["initial"][0], steps)
                buffers["restored"][steps] = cell.reset(gates[steps, ..., :-1, :], previous)

    def backward(self, buffers: dict[str, Tensor]) -> None:
        """Compute all gradients but that of V."""
        cell, gates = self._prepare(buffers)
        spare, V = _find_spare(buffers), buffers.get("V")
        V_T = None if V is None else V.transpose(1, 2)
        states, initial = (buffers["h"], *buffers["others"]), buffers["initial"]
        by_h = buffers["arriving"].masked_fill_(spare, 0)
        da = buffers["da"].view_as(gates)
        g_BDH = buffers["by_initial"].zero_().unbind()
        by_parameters = buffers["by_coefficients"].zero_() if "by_coefficients" in buffers else None
        for steps in reversed(_blocks(buffers)):
            # The derivatives of spare frames are finite where their numbers are 0, and gradients
            # stay 0.
            clear = spare[steps]
            a = gates[steps].masked_fill(clear.unsqueeze(-1), 0).flatten(0, 1)
            previous, new = (
                [s.masked_fill(clear, 0).flatten(0, 1) for s in parts]
                for parts in (
                    [_delay(s, s_0, steps) for s, s_0 in zip(states, initial, strict=True)],
                    [s[steps] for s in states],
                )
            )
            mask = buffers["mask"].repeat(len(clear), 1, 1)
            by_state = [] if by_parameters is None else [torch.empty_like(s) for s in new]
            through_block(
                [len(spare[0])] * len(clear),
                cell.partials(a, previous, new, mask),
                reset_partials(cell, a, previous[0]) if cell.resets else (),
                V_T,
                g_BDH,
                Gradients(by_h[steps].flatten(0, 1), da[steps].flatten(0, 1), by_state),
            )
            if by_parameters is not None:
                gradients = parameter_gradients(cell, a, previous, mask, by_state)
                pairs = zip(cell.parameters(), gradients, strict=True)
                by_parameter = [torch.zeros_like(p) if by is None else by for p, by in pairs]
                # The sum over sequences and directions stands where the first of them do.
                by_set = torch.stack(by_parameter, 1)
                by_parameters[0, : len(by_set)] += by_set

    def _prepare(self, buffers: dict[str, Tensor]) -> tuple[Cell, Tensor]:
        """The cell with the parameters of the buffers, and pre-activations [T, B, D, G, H]."""
        cell = self._cell
        with torch.no_grad():
            for number, parameter in enumerate(cell.parameters()):
                parameter.copy_(buffers["coefficients"][:, number])
        return cell, buffers["terms"].unflatten(-1, (cell.gates, -1))


def _describe(module: nn.Module) -> Hashable:
    """All of a module but the numbers of its tensors."""
    # Modules of this package compute the same in training and in evaluation.
    known = {"training"} if type(module).__module__.startswith("bayes_asr.") else set[str]()
    options = {n: v for n, v in vars(module).items() if n not in known and not n.startswith("_")}
    parameters = [
        (name, p.shape, p.dtype, p.device) for name, p in module.named_parameters(recurse=False)
    ]
    parts = map(_describe, module.children())
    return type(module), _freeze(options), tuple(parameters), tuple(parts)


def _freeze(value: Any) -> Hashable:
    """A value of an option that can be hashed; of two objects that cannot, no two are equal."""
    if isinstance(value, Mapping):
        return frozenset((key, _freeze(item)) for key, item in value.items())
    if isinstance(value, list | tuple):
        return type(value), tuple(map(_freeze, value))
    if isinstance(value, set):
        return frozenset(value)
    return value if isinstance(value, Hashable) else id(value)  # which the program keeps alive


def _find_spare(buffers: dict[str, Tensor]) -> Tensor:
    """Whether a row of a time step is spare [T, B, 1, 1]."""
    sizes, rows = buffers["sizes"], len(buffers["mask"])
    spare = torch.arange(rows, device=sizes.device) >= sizes[:, None]
    return spare[..., None, None]


def _blocks(buffers: dict[str, Tensor]) -> Sequence[slice]:
    """Runs of time steps of about `BLOCK` frames."""
    T, B = buffers["h"].shape[:2]
    steps = max(1, BLOCK // B)
    return [slice(t, min(t + steps, T)) for t in range(0, T, steps)]


def _delay(state_TBDH: Tensor, initial_BDH: Tensor, steps: slice) -> Tensor:
    """A state before each of some time steps."""
    if steps.start:
        return state_TBDH[steps.start - 1 : steps.stop - 1]
    return torch.cat((initial_BDH.unsqueeze(0), state_TBDH[: steps.stop - 1]))

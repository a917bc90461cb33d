"""The recurrence by compiled code: the function of `scan`, for the cells that have a kernel.

One call runs all frames of all sequences in both directions. The forward pass saves the derivatives
of each new state by pre-activations and old state, so that the backward pass is the same loop for
every cell; gradients of pre-activations take the place of the derivatives.
"""

from collections.abc import Sequence
from functools import reduce
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx, once_differentiable

from bayes_asr.nn.frames import PackedFrames
from bayes_asr.nn.kernels.cpu import library
from bayes_asr.nn.kernels.reference.scan import Recurrence, unroll_shifted
from bayes_asr.nn.linear import product
from bayes_asr.nn.units.cell import Cell, Kernel, name_kernel

WORK = 2**17  # multiplications of a time step that are worth a thread
AS_ROWS = 32  # rows of weights that take as long as the elementwise work of a unit
COMPILED = True


class KernelCall(NamedTuple):
    """A kernel over all frames of a packed batch.

    backwards: for each direction, whether it reads time backwards; keep: whether there will be a
    backward pass.
    """

    kernel: Kernel
    frames: PackedFrames
    backwards: Sequence[bool]
    keep: bool


def find_kernel(cell: Cell, weights: Tensor) -> Kernel | None:
    """Return the kernel for a cell and such weights, None where there is none."""
    if weights.dtype != torch.float32 or not library.runs_on(weights.device):
        return None
    kernel = name_kernel(cell)
    return kernel if kernel and kernel.activation in library.activations() else None


def supports(cell: Cell, weights: Tensor) -> bool:
    """Whether there is a kernel for a cell and such weights."""
    return find_kernel(cell, weights) is not None


def unroll(recurrence: Recurrence) -> Tensor:
    """Return the states h [N, D, H] of a recurrence, in the order of time."""
    return unroll_shifted(recurrence, _unroll)


def _unroll(recurrence: Recurrence) -> Tensor:
    cell, frames, backwards, terms_NSX, V, mask_BDH, initial_BDH = recurrence
    kernel = cast(Kernel, find_kernel(cell, initial_BDH[0]))
    coefficients = cell.coefficients()
    tensors = initial_BDH if coefficients is None else (*initial_BDH, coefficients)
    call = KernelCall(kernel, frames, backwards, keep=torch.is_grad_enabled())
    return CompiledRecurrence.apply(call, terms_NSX, V, mask_BDH, *tensors)


class CompiledRecurrence(torch.autograd.Function):
    """`apply(call, terms_NSX, V, mask_BDH, *initial_BDH, coefficients_SPH)` -> states h [N, D, H].

    V: None for a unit that feeds nothing back.
    coefficients_SPH: `Cell.coefficients`, left out where the cell has none; S is 1 or D.
    The terms are float32 or bfloat16, and so are the factors of products, h and its gradient, and
    the tensors saved for the backward pass; V, mask, initial states and coefficients are float32.
    """

    @staticmethod
    def forward(
        ctx: FunctionCtx,
        call: KernelCall,
        terms_NSX: Tensor,
        V: Tensor | None,
        mask_BDH: Tensor | None,
        *tensors: Tensor,
    ) -> Tensor:
        inputs = _check_inputs(call, terms_NSX, V, mask_BDH, tensors)
        job = _job(call, inputs)
        (N, S, _), D, storage = terms_NSX.shape, len(call.backwards), terms_NSX.dtype
        unit = library.units()[call.kernel.unit]
        h = torch.empty(N, D, job["H"], dtype=storage)
        saved: dict[str, Any] = _allocate_saved(job, unit, N, storage) if call.keep else {}
        for name in {"slopes", "before"} & saved.keys():
            job[f"{name}_frame"], job[f"{name}_direction"] = saved[name].stride()[:2]
        terms = inputs["terms"]
        _run(
            "forward",
            **job,
            **saved,
            **inputs,
            terms_frame=terms.stride(0),
            terms_direction=terms.stride(1) if S == D else 0,  # 0: every direction reads set 0
            h=h,
        )
        weights = inputs["V"], inputs["coefficients"]
        ctx.save_for_backward(*weights, *saved.values())
        ctx.job, ctx.names, ctx.shares_terms = job, list(saved), S < D  # type: ignore[attr-defined]
        ctx.states = unit.states  # type: ignore[attr-defined]
        return h

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, grad_NDH: Tensor) -> tuple[Tensor | None, ...]:
        job: dict[str, Any] = ctx.job  # type: ignore[attr-defined]
        V, coefficients, *tensors = ctx.saved_tensors  # type: ignore[attr-defined]
        saved = dict(zip(ctx.names, tensors, strict=True))  # type: ignore[attr-defined]
        if not job:
            raise RuntimeError("gradients overwrote what they were computed from: run forward anew")
        # The library writes da over the slopes: a second backward pass would read gradients there.
        ctx.job = {}  # type: ignore[attr-defined]
        da, (B, D, P, H) = saved["slopes"], (job[name] for name in "BDPH")
        by_initial = [torch.empty(B, D, H) for _ in range(ctx.states)]  # type: ignore[attr-defined]
        by_row = torch.zeros(B, D, P, H)
        _run(
            "backward",
            **job,
            **saved,
            V=V,
            coefficients=coefficients,
            arriving=library.require("gradient", grad_NDH, (len(da), D, H), da.dtype),
            by_initial=tuple(by_initial),
            by_coefficients=by_row,
        )
        is_trained = ctx.needs_input_grad[2]  # type: ignore[attr-defined]
        by_V = _by_weights(saved, H, job["sets"]) if is_trained else None
        shares_terms = ctx.shares_terms  # type: ignore[attr-defined]
        by_terms = reduce(torch.add, da.split(1, 1)) if shares_terms else da.contiguous()
        shape = (job["sets"], -1, P, H)
        # Sequences and directions that share coefficients are added up.
        by_coefficients = [by_row.sum(0).view(shape).sum(1)] if P else []
        return None, by_terms, by_V, None, *by_initial, *by_coefficients


def _check_inputs(
    call: KernelCall,
    terms_NSX: Tensor,
    V: Tensor | None,
    mask_BDH: Tensor | None,
    tensors: Sequence[Tensor],
) -> dict[str, Any]:
    """Inputs of the forward pass by members of `library.Job`; ValueError for what does not fit.

    tensors: initial states, and coefficients where there are some.
    """
    kernel, frames, backwards, _ = call
    unit = library.units()[kernel.unit]
    P = unit.coefficients + library.activations()[kernel.activation].coefficients
    (_, S, X), D = terms_NSX.shape, len(backwards)
    sizes = B, _, H = len(frames.lengths), D, X // unit.gates
    initial_BDH, coefficients_SPH = tensors[: unit.states], tensors[unit.states :]
    if not B:
        raise ValueError("there are no sequences")
    if (V is not None, len(coefficients_SPH)) != (unit.recurs, bool(P)):
        raise ValueError(f"{kernel} has {unit.recurs} V and {P} coefficients")
    # Weights and terms are those of each direction, or shared by both.
    sets = _sets(V, *coefficients_SPH)
    for number, what in ((sets, "weights"), (S, "terms")):
        if number not in (1, D):
            raise ValueError(f"there are {number} sets of {what} for {D} directions")
    require, shape = library.require, (sum(frames.lengths), S, X)
    return {
        "V": None if V is None else require("V", V, (sets, H, X)),
        "coefficients": require("coefficients", coefficients_SPH[0], (sets, P, H)) if P else None,
        "terms": require("terms", terms_NSX, shape, *library.STORAGES),
        "mask": None if mask_BDH is None else require("mask", mask_BDH, sizes),
        "initial": tuple(require("initial", s, sizes) for s in initial_BDH),
    }


def _sets(*weights: Tensor | None) -> int:
    """The number of sets of recurrent weights and coefficients; 1 where a unit has neither."""
    return next((len(tensor) for tensor in weights if tensor is not None), 1)


def _job(call: KernelCall, inputs: dict[str, Any]) -> dict[str, Any]:
    """Arguments of the library in both passes: the path, and members of `library.Job`."""
    kernel, frames, backwards, _ = call
    terms, V, coefficients = inputs["terms"], inputs["V"], inputs["coefficients"]
    unit = library.units()[kernel.unit]
    B, D, H = len(frames.lengths), len(backwards), terms.shape[2] // unit.gates
    P = 0 if coefficients is None else coefficients.shape[1]
    # Multiplications of a time step. A unit without V still computes its equation.
    work = B * D * H * unit.gates * (H if unit.recurs else AS_ROWS)
    members = {name: getattr(frames, name) for name in ("sizes", "starts", "lengths")}
    return {
        "path": library.path(),
        "unit": list(library.units()).index(kernel.unit),
        "activation": list(library.activations()).index(kernel.activation),
        "storage": library.STORAGES.index(terms.dtype),
        "threads": min(torch.get_num_threads(), 1 + work // WORK),
        "B": B,
        "T": len(frames.sizes),
        "D": D,
        "H": H,
        "G": unit.gates,
        "P": P,
        "E": P + unit.extras,
        "sets": _sets(V, coefficients),
        "backwards": torch.tensor(backwards, dtype=torch.int64),
        **{name: torch.tensor(values, dtype=torch.int64) for name, values in members.items()},
    }


def _run(direction: str, path: str, **members: Any) -> None:
    """Run `forward` or `backward` of a path for members of `Job`, tensors by their addresses."""
    job = library.Job()
    for name, value in members.items():
        if isinstance(value, tuple):  # an array of pointers, one a state of the cell
            for i, tensor in enumerate(value):
                getattr(job, name)[i] = library.address(tensor)
        elif isinstance(value, Tensor):
            setattr(job, name, library.address(value))
        elif value is not None:
            setattr(job, name, value)
    library.run(direction, path, job, f"the recurrence on its way {direction}")


def _allocate_saved(
    job: dict[str, Any], unit: library.UnitRow, N: int, storage: torch.dtype
) -> dict[str, Tensor]:
    """Empty tensors that the forward pass fills for the backward pass, by members of `Job`."""
    D, H, sets = (job[name] for name in ("D", "H", "sets"))
    widths = {"slopes": unit.gates * H}
    if unit.recurs:
        widths["before"] = H
    if unit.resets:
        widths["restored"] = H
    saved = {name: _rows(N, D, width, sets, storage) for name, width in widths.items()}
    return {**saved, "extras": torch.empty(N, D, job["E"], H, dtype=storage)}


def _rows(N: int, D: int, width: int, sets: int, dtype: torch.dtype) -> Tensor:
    """An empty tensor [N, D, width] in which rows for the same weights follow one another."""
    if sets == 1:
        return torch.empty(N, D, width, dtype=dtype)
    return torch.empty(D, N, width, dtype=dtype).transpose(0, 1)


def _by_weights(saved: dict[str, Tensor], H: int, sets: int) -> Tensor:
    """The gradient of V [sets, H, X], from the tensors that the backward pass has filled."""
    da, previous = saved["slopes"], saved["before"]
    if "restored" not in saved:
        return _outer(previous, da, sets)
    # The last gate multiplied the state that was reset, the others the state itself.
    by_gates = _outer(previous, da[..., :-H], sets)
    return torch.cat((by_gates, _outer(saved["restored"], da[..., -H:], sets)), 2)


def _outer(h_NDH: Tensor, da_NDX: Tensor, sets: int) -> Tensor:
    """Sum over frames, and over directions that share V, of h_i da_j [sets, H, X]."""
    if sets == 1:
        return _sum_frames(h_NDH.flatten(0, 1), da_NDX.flatten(0, 1)).unsqueeze(0)
    return torch.stack(list(map(_sum_frames, h_NDH.unbind(1), da_NDX.unbind(1))))


def _sum_frames(h_NH: Tensor, da_NX: Tensor) -> Tensor:
    """Sum over frames of h_i da_j [H, X] in float32."""
    return product(h_NH.T, da_NX, dtype=torch.float32)

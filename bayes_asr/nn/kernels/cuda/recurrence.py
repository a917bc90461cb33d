"""The recurrence by a program on static buffers: packed frames in, packed frames out.

Buffers are shared by all recurrences of a device. So what a backward pass needs is copied out of
them at the end of the forward pass, and in again.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, cast

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx, once_differentiable

from bayes_asr.nn.frames import PackedFrames
from bayes_asr.nn.kernels.cuda.capture import workspace
from bayes_asr.nn.kernels.cuda.static import Program, Shape, find_rows, pack, round_up, unpack
from bayes_asr.nn.kernels.reference.gradients import weight_gradient
from bayes_asr.nn.kernels.reference.scan import Recurrence


class StaticCall(NamedTuple):
    """A program over all frames of a packed batch.

    backwards: for each direction, whether it reads time backwards; keep: whether there will be a
    backward pass.
    """

    program: Program
    frames: PackedFrames
    backwards: Sequence[bool]
    keep: bool


def unroll_static(program: Program, recurrence: Recurrence, coefficients: Tensor | None) -> Tensor:
    """States h [N, D, H] of a recurrence by a program; coefficients [sets, P, H]."""
    _, frames, backwards, terms_NSX, V, mask_BDH, initial_BDH = recurrence
    call = StaticCall(program, frames, backwards, keep=torch.is_grad_enabled())
    return StaticRecurrence.apply(call, terms_NSX, V, mask_BDH, coefficients, *initial_BDH)


class StaticRecurrence(torch.autograd.Function):
    """`apply(call, terms_NSX, V, mask_BDH, coefficients_SPH, *initial_BDH)` -> states h [N, D, H].

    The terms are float32, float64 or bfloat16, and so is h; V and the others are float32, or
    float64 where the terms are. V: None for a unit that feeds nothing back.
    """

    @staticmethod
    def forward(
        ctx: FunctionCtx,
        call: StaticCall,
        terms_NSX: Tensor,
        V: Tensor | None,
        mask_BDH: Tensor | None,
        coefficients: Tensor | None,
        *initial_BDH: Tensor,
    ) -> Tensor:
        program, frames, backwards, keep = call
        B, T = round_up(len(frames.lengths), len(frames.sizes))
        _, D, H = initial_BDH[0].shape
        weights = coefficients if V is None else V
        sets = 1 if weights is None else len(weights)
        shape = Shape(T, B, D, H, sets, terms_NSX.dtype, terms_NSX.device)
        passes = workspace(shape.device).find(program, shape, keep=keep)
        buffers = passes.buffers
        initial = torch.stack(initial_BDH)
        _fill(buffers, frames, V=V, mask=mask_BDH, initial=initial, coefficients=coefficients)
        rows = find_rows(frames, backwards, B)
        pack(terms_NSX, rows, buffers["terms"])
        passes.forward()
        if keep:
            names = list({"h", "restored", *program.saved} & buffers.keys())
            saved = [buffers[name].clone() for name in names]
            ctx.save_for_backward(rows, V, mask_BDH, initial, coefficients, *saved)  # type: ignore[arg-type]
            ctx.call, ctx.shape, ctx.names = call, shape, names  # type: ignore[attr-defined]
            ctx.shares_terms = terms_NSX.shape[1] < D  # type: ignore[attr-defined]
        return unpack(buffers["h"], rows)

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, grad_NDH: Tensor) -> tuple[Tensor | None, ...]:
        program, frames, *_ = ctx.call  # type: ignore[attr-defined]
        shape: Shape = ctx.shape  # type: ignore[attr-defined]
        rows, V, mask, initial, coefficients, *saved = ctx.saved_tensors  # type: ignore[attr-defined]
        passes = workspace(shape.device).find(program, shape, keep=True)
        buffers = passes.buffers
        _fill(buffers, frames, V=V, mask=mask, initial=initial, coefficients=coefficients)
        for name, tensor in zip(ctx.names, saved, strict=True):  # type: ignore[attr-defined]
            buffers[name].copy_(tensor)
        pack(grad_NDH, rows, buffers["arriving"])
        cast(Callable[[], None], passes.backward)()
        by_terms = unpack(buffers["da"], rows)
        by_V = None
        if V is not None and ctx.needs_input_grad[2]:  # type: ignore[attr-defined]
            previous = torch.cat((buffers["initial"][:1].to(shape.dtype), buffers["h"][:-1]))
            restored = unpack(buffers["restored"], rows) if "restored" in buffers else None
            by_V = weight_gradient(unpack(previous, rows), restored, by_terms, V)
        if ctx.shares_terms:  # type: ignore[attr-defined]
            by_terms = by_terms.sum(1, keepdim=True)
        by_coefficients = None
        if "by_coefficients" in buffers:
            # Sequences and directions that share coefficients are added up.
            by_set = buffers["by_coefficients"].sum(0).unflatten(0, (shape.sets, -1))
            by_coefficients = by_set.sum(1)
        by_initial = buffers["by_initial"][:, : len(frames.lengths)].clone()
        return None, by_terms, by_V, None, by_coefficients, *by_initial


def _fill(buffers: dict[str, Tensor], frames: PackedFrames, **tensors: Tensor | None) -> None:
    """Copy tensors of a batch into the buffers of their names."""
    alive = torch.ones_like(frames.time, dtype=torch.int32)
    buffers["sizes"].zero_().index_add_(0, frames.time, alive)
    buffers["mask"].fill_(1)
    for name, tensor in tensors.items():
        if tensor is not None:
            # The bucket may have more sequences; they stand before the last two dimensions.
            buffers[name][..., : tensor.shape[-3], :, :].copy_(tensor)

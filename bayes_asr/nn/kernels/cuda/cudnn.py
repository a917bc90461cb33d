"""LSTM and GRU by the functions of torch.nn, which run cuDNN on a GPU.

cuDNN multiplies inputs by weights of its own. Here they are feed-forward terms, products of a layer
that are normalised already, so that these weights are the identity.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx, once_differentiable

from bayes_asr.nn.kernels.reference import fused, scan
from bayes_asr.nn.kernels.reference.scan import Recurrence
from bayes_asr.nn.units.cell import Cell
from bayes_asr.nn.units.conventional import LSTM, TorchGRU, TorchLSTM

COMPILED = True
DIRECTIONS = ((False,), (False, True))  # of a torch.nn.LSTM


def supports(cell: Cell, weights: Tensor) -> bool:
    """Whether cuDNN has the equations of a cell, and works in the type of its weights."""
    if getattr(cell, "peepholes", False):
        return False
    return type(cell) in (LSTM, TorchLSTM, TorchGRU) and weights.dtype == torch.float32


def unroll(recurrence: Recurrence) -> Tensor:
    """Return the states h [N, D, H] of a recurrence, in the order of time.

    cuDNN has no dropout inside a recurrence: one with a mask is left to the reference.
    """
    cell, _, backwards, terms_NSX, V, mask_BDH, initial_BDH = recurrence
    if mask_BDH is not None or tuple(backwards) not in DIRECTIONS or V is None:
        reference = fused if cell.can_fuse else scan
        in_full = recurrence._replace(terms_NSX=terms_NSX.to(initial_BDH[0].dtype))
        return reference.unroll(in_full).to(terms_NSX.dtype)
    return _InFullPrecision.apply(recurrence, terms_NSX, V, *initial_BDH, *cell.parameters())


class _InFullPrecision(torch.autograd.Function):
    """`apply(recurrence, terms_NSX, V, *initial_BDH, *parameters)` -> states h [N, D, H].

    TensorFloat-32, to which cuDNN rounds factors by default, is off both ways; parameters: those of
    the cell.
    """

    @staticmethod
    def forward(ctx: FunctionCtx, recurrence: Recurrence, *tensors: Tensor) -> Tensor:
        needs_gradient = ctx.needs_input_grad[1:]  # type: ignore[attr-defined]
        leaves = [
            t.detach().requires_grad_(needed)
            for t, needed in zip(tensors, needs_gradient, strict=True)
        ]
        with torch.set_grad_enabled(any(needs_gradient)), _without_tf32():
            h = _run(recurrence, *leaves)
        ctx.h, ctx.leaves = h, leaves  # type: ignore[attr-defined]
        return h.detach()

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, grad_NDH: Tensor) -> tuple[Tensor | None, ...]:
        leaves: list[Tensor] = ctx.leaves  # type: ignore[attr-defined]
        trained = [t for t in leaves if t.requires_grad]
        with _without_tf32():
            by_trained = torch.autograd.grad(ctx.h, trained, grad_NDH)  # type: ignore[attr-defined]
        gradients = iter(by_trained)
        return None, *(next(gradients) if t.requires_grad else None for t in leaves)


@contextmanager
def _without_tf32() -> Iterator[None]:
    """Multiply factors in float32 as they are."""
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False), warnings.catch_warnings():
        # It copies weights that do not lie side by side, which takes little beside the products.
        warnings.filterwarnings("ignore", message="RNN module weights are not part of single")
        yield


def _run(recurrence: Recurrence, terms_NSX: Tensor, V_SHX: Tensor, *tensors: Tensor) -> Tensor:
    """States h [N, D, H]; tensors: initial states and parameters of the cell."""
    cell, frames, D = recurrence.cell, recurrence.frames, len(recurrence.backwards)
    dtype = terms_NSX.dtype
    # Directions stand in front: [B, D, H] -> [D, B, H].
    initial = [s.to(dtype).transpose(0, 1).contiguous() for s in tensors[: cell.states]]
    width = terms_NSX.shape[2]
    # With terms of each direction side by side, direction d reads its own: rows d of the identity.
    identity = torch.eye(terms_NSX.shape[1] * width, dtype=dtype, device=terms_NSX.device)
    W = identity.split(width)
    V_SXH = V_SHX.transpose(1, 2).to(dtype).contiguous()  # a copy that `to` makes keeps the strides
    biases = _biases(cell, tensors[cell.states :], dtype)
    weights = [
        w
        for d in range(D)
        for w in (W[d % len(W)], V_SXH[d % len(V_SXH)], *biases[d % len(biases)])
    ]
    call: Callable[..., Sequence[Tensor]] = torch.gru if cell.states == 1 else torch.lstm
    how: dict[str, Any] = {
        "has_biases": bool(biases[0]),
        "num_layers": 1,
        "dropout": 0.0,
        "train": torch.is_grad_enabled(),  # cuDNN keeps what the way back reads
        "bidirectional": D == 2,
    }
    sizes = torch.tensor(frames.sizes)  # on the CPU, as cuDNN reads them
    state = initial[0] if cell.states == 1 else initial
    h_NX, *_ = call(terms_NSX.flatten(1), sizes, state, weights, **how)
    return h_NX.unflatten(1, (D, -1))


def _biases(
    cell: Cell, parameters: Sequence[Tensor], dtype: torch.dtype
) -> list[tuple[Tensor, ...]]:
    """The biases of inputs and of the recurrence for each set of weights, or no biases."""
    if not parameters:
        return [()]
    (recurrent_SH,) = parameters  # of the candidate, the last of the gates of a GRU
    zeros = recurrent_SH.new_zeros(len(recurrent_SH), 2 * cell.gate_size)
    recurrent_SX = torch.cat((zeros, recurrent_SH), 1).to(dtype)
    return [(torch.zeros_like(b), b) for b in recurrent_SX]

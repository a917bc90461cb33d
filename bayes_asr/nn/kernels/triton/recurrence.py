"""The recurrence by Triton kernels, all time steps of a bucket in one CUDA graph."""

import os
from typing import cast

import torch
from torch import Tensor

from bayes_asr.nn.kernels.cuda.recurrence import unroll_static
from bayes_asr.nn.kernels.cuda.static import Program
from bayes_asr.nn.kernels.reference.scan import Recurrence, unroll_shifted
from bayes_asr.nn.kernels.triton.functions import ACTIVATIONS
from bayes_asr.nn.kernels.triton.program import CHAINS, UNITS, ChainKernel, StepKernels
from bayes_asr.nn.units.cell import Cell, Kernel, name_kernel

COMPILED = True


def supports(cell: Cell, weights: Tensor) -> bool:
    """Whether there are kernels for a cell and such weights, on a GPU or by the interpreter."""
    runs = weights.is_cuda or os.environ.get("TRITON_INTERPRET") == "1"
    return runs and weights.dtype == torch.float32 and _program_of(cell) is not None


def unroll(recurrence: Recurrence) -> Tensor:
    """Return the states h [N, D, H] of a recurrence, in the order of time."""
    program = cast(Program, _program_of(recurrence.cell))
    coefficients = recurrence.cell.coefficients()
    return unroll_shifted(recurrence, lambda shifted: unroll_static(program, shifted, coefficients))


def find_program(kernel: Kernel) -> Program | None:
    """Return the program of an equation; None where there is none."""
    if kernel.unit in CHAINS:
        return ChainKernel(kernel.unit)
    if kernel.unit not in UNITS or kernel.activation not in ACTIVATIONS:
        return None
    return StepKernels(*kernel, tf32=torch.backends.cuda.matmul.allow_tf32)


def _program_of(cell: Cell) -> Program | None:
    kernel = name_kernel(cell)
    return None if kernel is None else find_program(kernel)

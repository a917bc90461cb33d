"""The backend that unrolls a recurrence: the fastest code that computes its cell where it lies.

A backend is a module in the folder of what it runs on. `reference.scan` computes any cell anywhere
and says what all others return. On a GPU, a path names the backend that is asked first. Of
products, losses and dropout masks there are torch's form and that of `cpu`, which is taken where
`cpu.library.runs_on` says so.
"""

from importlib import import_module
from typing import Protocol, cast

from torch import Tensor

from bayes_asr.config.catalogue import GPU_PATHS
from bayes_asr.nn.kernels.cpu import recurrence as cpu
from bayes_asr.nn.kernels.reference import associative, fused, scan
from bayes_asr.nn.kernels.reference.scan import Recurrence
from bayes_asr.nn.linear import is_exporting
from bayes_asr.nn.units.cell import Cell


class Backend(Protocol):
    """A module that unrolls recurrences.

    COMPILED: whether it reads terms in the type of factors of products (`factor_type`), of which
    its states are then too.
    """

    COMPILED: bool

    def supports(self, cell: Cell, weights: Tensor) -> bool:
        """Whether it computes a cell on the device and in the type of its weights."""

    def unroll(self, recurrence: Recurrence) -> Tensor:
        """Return the states h [N, D, H] of a recurrence, in the order of time."""


BACKENDS: tuple[Backend, ...] = (  # the fastest first
    cpu,  # compiled C++, for cells that have a kernel
    associative,  # a parallel scan over time, for Markov chains away from a CPU
    fused,  # torch's operations and a backward pass by hand, on any device
    scan,  # torch's operations and autograd, for every cell, and what is exported
)


def choose_backend(cell: Cell, weights: Tensor, *, fused: bool, path: str = "eager") -> Backend:
    """The first backend that computes a cell on the device and in the type of its weights.

    fused: take others than the reference. path: one of `GPU_PATHS`.
    """
    if not fused or is_exporting():
        return scan
    module = GPU_PATHS[path]
    preferred = (cast(Backend, import_module(module)),) if module else ()
    backends = (*preferred, *BACKENDS)
    return next(backend for backend in backends if backend.supports(cell, weights))

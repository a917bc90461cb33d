"""The names of kernels, and the dropout that they do not know: of the kernels of every device."""

from collections.abc import Callable
from typing import NamedTuple, cast

from torch import Tensor

from bayes_asr.nn.kernels.reference.scan import Recurrence
from bayes_asr.nn.units.activations import FIXED, find_name
from bayes_asr.nn.units.cell import Cell


class Kernel(NamedTuple):
    """The equation of a cell: its unit and its activation."""

    unit: str
    activation: str = "tanh"


def name_kernel(cell: Cell) -> Kernel | None:
    """Return the equation of a cell; None where its class has no kernel."""
    unit = vars(type(cell)).get("kernel")  # who inherits a cell has an equation of its own
    activation = find_name(getattr(cell, "activation", FIXED["tanh"]))
    if unit is None or activation is None:
        return None
    return Kernel(unit + "-peepholes" * getattr(cell, "peepholes", False), activation)


def unroll_shifted(recurrence: Recurrence, unroll: Callable[[Recurrence], Tensor]) -> Tensor:
    """States h [N, D, H] of a recurrence by an `unroll` whose dropout is a mask alone.

    Kernels multiply a candidate c by its mask m and know no other dropout. A cell with a
    `drop_offset` s has m c + s where they have m c. Its state mixes old states with candidates, so
    that h - s follows the kernel's equation; V reads h, that is, s more.
    """
    shift_BDH = recurrence.cell.drop_offset(recurrence.mask_BDH)
    if shift_BDH is None:
        return unroll(recurrence)
    # V (h - s) lacks V s, which is the same at every frame of a sequence: it goes into the terms.
    fed_BDX = (shift_BDH.transpose(0, 1) @ cast(Tensor, recurrence.V)).transpose(0, 1)
    terms, sequence = recurrence.terms_NSX, recurrence.frames.sequence
    h = unroll(
        recurrence._replace(
            terms_NSX=(terms + fed_BDX[sequence]).to(terms.dtype),
            initial_BDH=tuple(state - shift_BDH for state in recurrence.initial_BDH),
        )
    )
    return (h + shift_BDH[sequence]).to(h.dtype)

"""The names of kernels, the same for every device."""

from typing import NamedTuple

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

"""The arguments of kernels, in groups: constants, and the buffers that a pass reads and fills.

Buffers are described in `program`; a group has None for those that a unit has not. Triton compiles
a kernel anew where a number in a group is no multiple of 16 or is 1: t, T and B are in none.
"""

from typing import NamedTuple

from torch import Tensor


class Problem(NamedTuple):
    """The constants of a recurrence: D directions, H units, W units with those that fill them up, G
    gates, of which SUMMED are in the product of h, SETS of weights, STATES, P coefficients, and the
    names of its equation.
    """

    D: int
    H: int
    W: int
    G: int
    SUMMED: int
    SETS: int
    STATES: int
    P: int
    UNIT: str
    ACTIVATION: str


class Tiling(NamedTuple):
    """The share of a program, ROWS and UNITS, and its way to multiply: STRIPS of DEPTH factors at
    once, each by warps of its own, float32 in a PRECISION.

    OVERLAP: begin before the kernel before has ended.
    """

    ROWS: int
    UNITS: int
    STRIPS: int
    DEPTH: int
    PRECISION: str
    OVERLAP: bool


class ForwardInputs(NamedTuple):
    """The buffers that time steps read."""

    sizes: Tensor
    terms: Tensor
    weights: Tensor
    candidate_weights: Tensor
    mask: Tensor
    coefficients: Tensor


class ForwardCarry(NamedTuple):
    """The buffers, of `padded` rows, by which a kernel hands states on to the next one."""

    state: Tensor
    fed: Tensor
    gates: Tensor
    inner: Tensor
    padded: int


class ForwardOutputs(NamedTuple):
    """The buffers that time steps fill for the caller and the way back."""

    h: Tensor
    restored: Tensor
    slopes: Tensor
    extras: Tensor


class BackwardInputs(NamedTuple):
    """The buffers that the way back reads."""

    sizes: Tensor
    weights: Tensor
    candidate_weights: Tensor
    slopes: Tensor
    extras: Tensor
    arriving: Tensor


class BackwardCarry(NamedTuple):
    """The buffers, of `padded` rows, by which a kernel hands gradients on to the next one."""

    fed_back: Tensor
    inner_back: Tensor
    gradient: Tensor
    waiting: Tensor
    padded: int


class BackwardOutputs(NamedTuple):
    """The buffers that the way back fills for the caller."""

    da: Tensor
    by_initial: Tensor
    by_coefficients: Tensor


class ChainInputs(NamedTuple):
    """The buffers that a chain reads."""

    sizes: Tensor
    terms: Tensor
    mask: Tensor
    coefficients: Tensor
    initial: Tensor


class ChainOutputs(NamedTuple):
    """The buffers that a chain fills for the caller and the way back."""

    h: Tensor
    chain: Tensor


class ChainBackwardInputs(NamedTuple):
    """The buffers that the way back of a chain reads."""

    sizes: Tensor
    mask: Tensor
    coefficients: Tensor
    arriving: Tensor
    chain: Tensor

"""The recurrences of `nn/units` by Triton kernels: one or two for each time step, or one for all.

They are programs of `cuda.static`. Beside the buffers named there, `StepKernels` has in float32, or
where it is said in the type of terms:

- `weights` [sets, W, W, g], of terms: V of the g gates that are multiplied together, with units
  filled up to W; the gates of a unit lie side by side, so that a program loads all of them at once;
  `candidate_weights` [sets, W, W], of terms: V of the last gate of a unit that resets;
- `state` [states, rows, W]; rows are those of [B, D], filled up to whole blocks; `fed` [2, rows,
  W], of terms: h as a factor, after odd and even steps;
- `slopes` [T, B, D, g, H], of terms: derivatives by pre-activations of the state on which each
  acts, and `extras` [T, B, D, P + E, H], of terms: by coefficients and by old states;
- `fed_back` [2, rows, W, g], of terms: da as a factor; `gradient` [rows, W]: that which a state
  hands back;
- of a unit that resets, from one kernel of a step to the other: `gates` [g, rows, W], `waiting`
  [rows, W], and, of terms, `inner` and `inner_back` [rows, W] (`resetting`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from inspect import get_annotations
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor
from triton import cdiv
from triton.language import constexpr

from bayes_asr.nn.kernels.cuda.static import Shape
from bayes_asr.nn.kernels.triton.chains import backward_chain, forward_chain
from bayes_asr.nn.kernels.triton.gated_chains import backward_gated_chain, forward_gated_chain
from bayes_asr.nn.kernels.triton.lstm import backward_lstm, forward_lstm
from bayes_asr.nn.kernels.triton.plain import backward_plain, backward_start, forward_plain
from bayes_asr.nn.kernels.triton.resetting import (
    backward_candidate,
    backward_gates,
    forward_candidate,
    forward_gates,
)

STRIPS = 8  # of factors that are multiplied at once, each by a warp of its own: 1, 2, 4 or 8
DEPTH = 16  # factors of a strip, the fewest that tensor cores multiply
BYTES = 4  # of the factors of a strip, for each of DEPTH, where there are many factors
STAGES = 10  # blocks of factors that are on their way at once, and one more, as far as they fit
SHARED = 96 * 2**10  # bytes of shared memory for them
PROGRAMS = 60  # of a launch, rather than fewer with more columns
OVERLAP = True  # begin a kernel before the one before has ended: from compute capability 9.0 on
CHAIN_UNITS, CHAIN_WARPS = 64, 2

Buffers = dict[str, Tensor]
Sizes = dict[str, tuple[int, ...]]


class Launch(NamedTuple):
    """A kernel, its grid of programs, its arguments but the time step, and options of Triton.

    overlaps: it may begin before the kernel before has ended.
    """

    kernel: Any
    grid: tuple[int, ...]
    arguments: dict[str, Any]
    options: dict[str, int]
    overlaps: bool = False


class Unit(NamedTuple):
    """The sizes and the kernels of a unit.

    extras: derivatives beside those by pre-activations and coefficients.
    """

    gates: int
    states: int
    extras: int
    forward: Sequence[Any]
    backward: Sequence[Any]

    @property
    def resets(self) -> bool:
        """Whether the last gate has a product of its own."""
        return len(self.forward) > 1

    @property
    def summed(self) -> int:
        """The number of gates in the product of h."""
        return self.gates - self.resets


PLAIN = [forward_plain], [backward_plain]
LSTM = [forward_lstm], [backward_lstm]
RESETTING = [forward_gates, forward_candidate], [backward_candidate, backward_gates]
UNITS = {
    "rnn": Unit(1, 1, 0, *PLAIN),
    "mixing": Unit(2, 1, 1, *PLAIN),
    "li-bru": Unit(2, 1, 1, *PLAIN),
    "log-li-bru": Unit(2, 1, 1, *PLAIN),
    "harmonic-li-bru": Unit(2, 1, 1, *PLAIN),
    "lstm": Unit(4, 2, 2, *LSTM),
    "lstm-peepholes": Unit(4, 2, 2, *LSTM),
    "gru": Unit(3, 1, 3, *RESETTING),
    "mgu": Unit(2, 1, 3, *RESETTING),
    "minimal-gru": Unit(2, 1, 3, *RESETTING),
}


class ChainUnit(NamedTuple):
    """The sizes and the kernels of a unit that feeds nothing back.

    saved: numbers of each frame and unit that the way back reads.
    """

    gates: int
    states: int
    coefficients: int
    saved: int
    forward: Any
    backward: Any


CHAINS = {
    "ubru": ChainUnit(1, 1, 3, 1, forward_chain, backward_chain),
    "ubru-later": ChainUnit(1, 2, 3, 1, forward_chain, backward_chain),
    "ubru-gates": ChainUnit(3, 1, 0, 3, forward_gated_chain, backward_gated_chain),
    "ubru-gates-later": ChainUnit(3, 2, 0, 3, forward_gated_chain, backward_gated_chain),
}
COEFFICIENTS = {"p-sigmoid": 3, "p-relu": 2, "lstm-peepholes": 3}


@dataclass(frozen=True)
class StepKernels:
    """A program of one or two kernels a time step, each of which computes all directions.

    tf32: multiply float32 in tf32.
    """

    unit: str
    activation: str = "tanh"
    tf32: bool = False
    saved: ClassVar[tuple[str, ...]] = ("slopes", "extras")

    @property
    def _coefficients(self) -> int:
        return COEFFICIENTS.get(self.unit, 0) or COEFFICIENTS.get(self.activation, 0)

    def allocate(self, shape: Shape) -> Buffers:
        """Return empty buffers."""
        T, B, D, H, sets, *_ = shape
        unit, P, W = UNITS[self.unit], self._coefficients, _fill_up(H)
        G, g, rows = unit.gates, unit.summed, _split_rows(B, D, sets)
        padded = rows.blocks * rows.size * sets
        floats = {
            "mask": (B, D, H),
            "initial": (unit.states, B, D, H),
            "by_initial": (unit.states, B, D, H),
            "state": (unit.states, padded, W),
            "gradient": (padded, W),
        }
        factors = {
            "V": (sets, H, G * H),
            "terms": (T, B, D, G * H),
            "h": (T, B, D, H),
            "arriving": (T, B, D, H),
            "da": (T, B, D, G * H),
            "weights": (sets, W, W, g),
            "fed": (2, padded, W),
            "fed_back": (2, padded, W, g),
            "slopes": (T, B, D, 2 if unit.resets else G, H),
            "extras": (T, B, D, P + unit.extras, H),
        }
        if P:
            floats |= {"coefficients": (sets, P, H), "by_coefficients": (B, D, P, H)}
        if unit.resets:
            floats |= {"gates": (g, padded, W), "waiting": (padded, W)}
            factors["candidate_weights"] = (sets, W, W)
            factors["restored"] = (T, B, D, H)
            factors |= dict.fromkeys(("inner", "inner_back"), (padded, W))
        return _allocate(shape, floats, factors)

    def forward(self, buffers: Buffers) -> None:
        """Compute all states."""
        self._fill_weights(buffers)
        initial = buffers["initial"].flatten(1, 2)
        rows, H = initial.shape[1:]
        _clear(buffers, "state", "fed", "inner")
        for name, values in (("state", initial), ("fed", initial[:1])):
            buffers[name][: len(values), :rows, :H].copy_(values)
        unit = UNITS[self.unit]
        launches = [
            self._launch(kernel, buffers, columns=gates, depth=1)
            for kernel, gates in zip(unit.forward, (unit.summed, 1), strict=False)
        ]
        T = len(buffers["sizes"])
        _run([(launch, {"t": t}) for t in range(T) for launch in launches])

    def backward(self, buffers: Buffers) -> None:
        """Compute all gradients but that of V."""
        self._fill_weights(buffers)
        _clear(buffers, "fed_back", "inner_back", "gradient", "by_coefficients")
        unit = UNITS[self.unit]
        launches = [
            self._launch(kernel, buffers, columns=1, depth=gates)
            for kernel, gates in zip(unit.backward, (unit.summed, 1), strict=False)
        ]
        start = self._launch(backward_start, buffers, columns=1, depth=unit.summed)
        steps = reversed(range(len(buffers["sizes"])))
        _run([*((launch, {"t": t}) for t in steps for launch in launches), (start, {})])

    def _fill_weights(self, buffers: Buffers) -> None:
        """Copy V to where kernels read it."""
        unit, (sets, H, _) = UNITS[self.unit], buffers["V"].shape
        # V of each unit, gate and unit [sets, H, G, H] becomes that of unit, unit and gate.
        V = buffers["V"].view(sets, H, unit.gates, H).transpose(2, 3)
        _clear(buffers, "weights", "candidate_weights")
        buffers["weights"][:, :H, :H].copy_(V[..., : unit.summed])
        if unit.resets:
            buffers["candidate_weights"][:, :H, :H].copy_(V[..., -1])

    def _launch(self, kernel: Any, buffers: Buffers, columns: int, depth: int) -> Launch:
        """The launch of a kernel whose product has as many columns and factors for each unit.

        ValueError for 3 gates in a product: Triton's blocks have powers of 2.
        """
        if (gates := max(columns, depth)) & (gates - 1):
            raise ValueError(f"{self.unit} has {gates} gates in a product, not 1, 2, 4 or 8")
        unit, V = UNITS[self.unit], buffers["V"]
        (B, D, H), (padded, W) = buffers["mask"].shape, buffers["gradient"].shape
        rows = _split_rows(B, D, len(V))
        programs = rows.blocks * len(V)
        width = next((n for n in (64, 32, 16) if programs * cdiv(H, n // columns) >= PROGRAMS), 8)
        deep = DEPTH * min(depth, max(1, BYTES // V.itemsize))
        block = (rows.size + width) * STRIPS * deep * V.itemsize
        overlap = OVERLAP and _can_overlap(V.device)
        constants = {
            "D": D,
            "H": H,
            "W": W,
            "G": unit.gates,
            "SUMMED": unit.summed,
            "SETS": len(V),
            "STATES": unit.states,
            "P": self._coefficients,
            "UNIT": self.unit,
            "ACTIVATION": self.activation,
            "ROWS": rows.size,
            "UNITS": width // columns,
            "STRIPS": STRIPS,
            "DEPTH": deep,
            "PRECISION": "tf32" if self.tf32 else "tf32x3",  # three products of TF32 are as exact
            "OVERLAP": overlap,
        }
        arguments = _bind(kernel, {**buffers, "B": B, "padded": padded}, constants)
        options = {"num_warps": STRIPS, "num_stages": max(1, min(STAGES, SHARED // block))}
        grid = (cdiv(H, width // columns), rows.blocks, len(V))
        return Launch(kernel, grid, arguments, options, overlap)


@dataclass(frozen=True)
class ChainKernel:
    """A program of one kernel for all frames, of a unit that feeds nothing back."""

    unit: str
    saved: ClassVar[tuple[str, ...]] = ("chain",)

    def allocate(self, shape: Shape) -> Buffers:
        """Return empty buffers."""
        T, B, D, H, sets, *_ = shape
        unit = CHAINS[self.unit]
        floats = {
            "mask": (B, D, H),
            "initial": (unit.states, B, D, H),
            "by_initial": (unit.states, B, D, H),
            "chain": (T, B, D, unit.saved * H),
        }
        if unit.coefficients:
            floats["coefficients"] = (sets, unit.coefficients, H)
            floats["by_coefficients"] = (B, D, unit.coefficients, H)
        factors: Sizes = dict.fromkeys(("h", "arriving"), (T, B, D, H))
        factors |= dict.fromkeys(("terms", "da"), (T, B, D, unit.gates * H))
        return _allocate(shape, floats, factors)

    def forward(self, buffers: Buffers) -> None:
        """Compute all states."""
        _run([(self._launch(CHAINS[self.unit].forward, buffers), {})])

    def backward(self, buffers: Buffers) -> None:
        """Compute all gradients."""
        _run([(self._launch(CHAINS[self.unit].backward, buffers), {})])

    def _launch(self, kernel: Any, buffers: Buffers) -> Launch:
        T, B, D, H = buffers["h"].shape
        constants = {
            "D": D,
            "H": H,
            "SETS": len(buffers.get("coefficients", ())),
            "STATES": CHAINS[self.unit].states,
            "UNITS": CHAIN_UNITS,
        }
        arguments = _bind(kernel, {**buffers, "T": T, "B": B}, constants)
        options = {"num_warps": CHAIN_WARPS, "num_stages": 1}
        return Launch(kernel, (cdiv(H, CHAIN_UNITS), B * D), arguments, options)


class _Rows(NamedTuple):
    """The blocks of rows that have the same weights."""

    blocks: int
    size: int


def _split_rows(B: int, D: int, sets: int) -> _Rows:
    """The blocks of rows of each set of weights; tensor cores multiply 16 rows or more."""
    size = 32 if B * D >= 64 else 16
    return _Rows(cdiv(B * D // sets, size), size)


def _fill_up(H: int) -> int:
    """The units that fill up whole strips."""
    return cdiv(H, STRIPS * DEPTH) * STRIPS * DEPTH


def _allocate(shape: Shape, floats: Sizes, factors: Sizes) -> Buffers:
    """Empty buffers of given sizes, in float32 and in the type of terms, and `sizes`."""
    empty = partial(torch.empty, device=shape.device)
    return {
        "sizes": empty(shape.T, dtype=torch.int32),
        **{name: empty(size) for name, size in floats.items()},
        **{name: empty(size, dtype=shape.dtype) for name, size in factors.items()},
    }


def _clear(buffers: Buffers, *names: str) -> None:
    """Fill those of some buffers that a program has with zeros."""
    for name in buffers.keys() & names:
        buffers[name].zero_()


def _bind(kernel: Any, values: dict[str, Any], constants: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a kernel, whose groups have None for what is not there."""
    values = {**values, **{name: constexpr(value) for name, value in constants.items()}}
    kinds = get_annotations(kernel.fn)
    groups = {name: kind._make(map(values.get, kind._fields)) for name, kind in kinds.items()}
    return {**groups, **{name: values[name] for name in kernel.arg_names if name in values}}


def _run(steps: Iterable[tuple[Launch, dict[str, int]]]) -> None:
    """Launch kernels, some of them with a time step."""
    for number, ((kernel, grid, arguments, options, overlaps), step) in enumerate(steps):
        # The leading kernel follows copies, which announce no end.
        early = {"launch_pdl": True} if number and overlaps else {}
        kernel[grid](**arguments, **step, **options, **early)


def _can_overlap(device: torch.device) -> bool:
    """Whether a kernel may begin before the one before has ended."""
    return device.type == "cuda" and torch.cuda.get_device_capability(device) >= (9, 0)

"""Recurrent cells: their interface, and cells whose states are log-probabilities.

A cell gets the pre-activations a_t = W x_t + V h_{t-1} + b of its G gates and returns the next
state; h, which V feeds back and the layer hands on, is the first tensor of the state. What
surrounds the equation (input products, normalisation, time, directions) is in `nn/recurrent.py` and
`nn/kernels`.

Shapes: pre-activations [n, D, G, H], or [n, D, G, B] where B blocks of units have a gate each;
states and mask [n, D, H], where n is a number of sequences or of frames. `mask` is the dropout mask
of the candidate, one for all frames of a sequence; None: no dropout. Parameters of cells:
[sets, H], where there is one set of weights for each direction, or one for both.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from bayes_asr.base.errors import ExternalError
from bayes_asr.config.catalogue import EXTERNAL, check_unit, find
from bayes_asr.nn.frames import PackedFrames
from bayes_asr.nn.layer import State
from bayes_asr.nn.norm import MOMENTUM, AllReduce
from bayes_asr.nn.units.activations import FIXED, build_activation, find_name, softplus
from bayes_asr.nn.units.external import find_external

Product = Callable[[Tensor, slice], Tensor]
"""(h [n, D, H], some of the gates) -> h V of these gates [n, D, g, H]."""
Partials = tuple[list[Tensor], list[list[Tensor | None]]]


class Cell(nn.Module):
    """The interface of cells to `recurrent`.

    units, sets: H and the number of sets of weights; gate_size: numbers of a gate, H unless several
    units share it.
    """

    gates: int = 1
    states: ClassVar[int] = 1
    recurrent: ClassVar[bool] = True  # False: no V
    resets: ClassVar[bool] = False  # V multiplies `reset` instead of h for the last gate
    fusible: ClassVar[bool] = True  # False: a `step` or `reset` of its own, or gates of blocks
    probabilistic: ClassVar[bool] = False  # h says how probable something is
    kernel: ClassVar[str | None] = None  # name of this class in the library, not of its heirs

    def __init__(self, units: int, sets: int) -> None:
        super().__init__()
        self.gate_size, self.sets = units, sets

    def __init_subclass__(cls) -> None:
        """Forget what base classes know of an equation that a class replaces."""
        super().__init_subclass__()
        if not cls.knows("partials", "forward", "drop"):
            cls.partials = Cell.partials  # type: ignore[method-assign]
        if not cls.knows("fusible", "step", "reset"):
            cls.fusible = False

    @classmethod
    def knows(cls, what: str, *equations: str) -> bool:
        """Whether an attribute is of a class that has the methods it is about, as they are."""
        owner, *owners = (
            next(base for base in cls.__mro__ if name in vars(base)) for name in (what, *equations)
        )
        return all(issubclass(owner, each) for each in owners)

    @property
    def can_fuse(self) -> bool:
        """Whether `partials` say all that the backward pass needs: `fusible`, and elementwise."""
        return self.fusible and self._elementwise

    @cached_property
    def _elementwise(self) -> bool:
        """Whether no number of `forward` depends on those of another unit or row.

        Those of this package do not. Others are tried: one may normalise over its units.
        """
        names = ("forward", "drop", "read")
        methods = [method for name in names if (method := getattr(type(self), name, None))]
        if all(method.__module__.startswith("bayes_asr.") for method in methods):
            return True
        like = next(self.parameters(), torch.empty(0))
        count = 2 * self.sets * self.gates * self.gate_size
        a = torch.linspace(-1, 1, count, dtype=like.dtype, device=like.device)
        a = a.view(2, self.sets, self.gates, -1)
        theta, fixed = torch.zeros_like(a[:, :, 0]), torch.ones_like(a[:, :, 0], dtype=torch.bool)
        fixed[0, ..., 0] = False
        with torch.no_grad():
            outputs = self(a, (self.start(theta),) * self.states, None)
            a[0, ..., 0], theta[0, ..., 0] = 2, 0.5
            moved = self(a, (self.start(theta),) * self.states, None)
        same = (((x == y) | (x.isnan() & y.isnan())) for x, y in zip(outputs, moved, strict=True))
        return all(bool(equal[fixed].all()) for equal in same)

    def forward(self, a: Tensor, state: State, mask: Tensor | None) -> State:
        """Return the state after a frame."""
        raise NotImplementedError

    def step(self, x: Tensor, state: State, product: Product, mask: Tensor | None) -> State:
        """Return the state after a frame from the feed-forward terms x = W x_t + b [n, D, G, H]."""
        a = x
        if self.resets:
            # The candidate, the last gate, reads states that the other gates have reset.
            gates = x[..., :-1, :] + product(state[0], slice(0, -1))
            candidate = x[..., -1:, :] + product(self.reset(gates, state[0]), slice(-1, None))
            a = torch.cat((gates, candidate), dim=-2)
        elif self.recurrent:
            a = x + product(state[0], slice(None))
        return tuple(self(a, state, mask))

    @property
    def projections(self) -> int:
        """Vectors of weights W of each unit, of whose products `expansion` makes the gates."""
        return self.gates

    def expansion(self) -> nn.Module | None:
        """Return a module from W x + b [..., projections, H] to the terms of gates [..., G, H].

        None where they are the same. It reads no state, so that it has frames all at once.
        """
        return None

    def drop(self, candidate: Tensor, mask: Tensor | None) -> Tensor:
        """Return the candidate with dropout."""
        offset, masked = self.drop_offset(mask), apply_mask(candidate, mask)
        return masked if offset is None else masked + offset

    def drop_offset(self, mask: Tensor | None) -> Tensor | None:
        """Return the summand of `drop` beside a masked candidate [n, D, H]; None for 0."""
        return None

    def observe(self, h: Tensor, mask: Tensor | None, frames: PackedFrames) -> None:
        """Update running means by the states of a batch of training [N, D, H]; mask: [B, D, H]."""

    def reset(self, a: Tensor, h: Tensor) -> Tensor:
        """Return the factor of V for the last gate, given the other gates a [n, D, G-1, H]."""
        raise NotImplementedError

    def start(self, theta: Tensor) -> Tensor:
        """Return the state before the first frame for any number; 0 is the fixed choice."""
        return theta

    def probability(self, h: Tensor) -> Tensor:
        """Return the probabilities that h stands for, in probabilistic cells."""
        raise NotImplementedError

    def coefficients(self) -> Tensor | None:
        """Return the trained numbers of each unit that a kernel reads [sets, P, H], perhaps none.

        They stand in the order of `csrc/cells.h`.
        """
        return None

    def hand_on(self, h: Tensor) -> Tensor:
        """Return the inputs of the next layer, by default."""
        return h

    def backward_message(self) -> "Cell | None":
        """Return the cell whose h, computed from the last frame to the first, is added to h."""
        return None

    def partials(
        self, a: Tensor, previous: Sequence[Tensor], state: Sequence[Tensor], mask: Tensor | None
    ) -> Partials:
        """Return the derivatives of `forward`, with which `fused` runs the backward pass.

        The first list has, for each new state, its derivatives by the pre-activations [n, D, G, H];
        the second, for each new state, those by each old state at fixed pre-activations [n, D, H],
        None for 0. By automatic differentiation, unless a cell knows them in closed form.
        """
        with torch.enable_grad():
            inputs = [t.detach().requires_grad_() for t in (a, *previous)]
            outputs = self(inputs[0], tuple(inputs[1:]), mask)
            # Cells are elementwise: the gradient of the sum is the derivative of each number.
            by = [
                torch.autograd.grad(
                    s, inputs, torch.ones_like(s), retain_graph=True, allow_unused=True
                )
                for s in outputs
            ]
        return [torch.zeros_like(a) if d[0] is None else d[0] for d in by], [
            list(d[1:]) for d in by
        ]


class ActivatedCell(Cell):
    """A cell with an activation that the user may choose, perhaps parameterised."""

    def __init__(
        self,
        units: int,
        sets: int,
        *,
        activation: str,
        activation_trains: Sequence[str] | None = None,
    ) -> None:
        super().__init__(units, sets)
        self.activation = build_activation(activation, units, sets, activation_trains)

    def coefficients(self) -> Tensor | None:
        """Return the coefficients of the activation."""
        return self.activation.coefficients()


class MixingCell(ActivatedCell):
    r"""A cell that mixes its candidate, the last gate, with the old state.

    h_t = z \tilde h + (1 - z) h_{t-1} with z = \sigma of the first gate.
    """

    def forward(self, a: Tensor, state: State, mask: Tensor | None) -> State:
        """Return the state after a frame."""
        candidate = self.drop(self.activation(a.select(-2, -1)), mask)
        return (torch.lerp(state[0], candidate, a.select(-2, 0).sigmoid()),)

    def partials(
        self, a: Tensor, previous: Sequence[Tensor], state: Sequence[Tensor], mask: Tensor | None
    ) -> Partials:
        """Return the derivatives of `forward`."""
        z = a.select(-2, 0).sigmoid()
        candidate = self.drop(self.activation(a.select(-2, -1)), mask)
        by_gate = torch.zeros_like(a)
        torch.mul(z * (1 - z), candidate - previous[0], out=by_gate.select(-2, 0))
        slope = self.activation.derivative(a.select(-2, -1))
        torch.mul(apply_mask(z, mask), slope, out=by_gate.select(-2, -1))
        return [by_gate], [[1 - z]]


class LogDomainCell(Cell):
    r"""A cell whose state is \pm\log p of probabilities p, with the values of dropped candidates.

    A candidate c, a logarithm too, becomes d + m (c - d) by its mask m. dropped_candidate chooses
    d: `zero`, the logarithm of 1, so that the mask multiplies c and nothing else; `half`, that
    of 1/2; `mean`, the mean of the unit's states in training where it was not dropped, a
    running one as that of batch normalisation, which begins at `half`.

    dropped: that mean [sets, H], or None.
    all_reduce: set where several processes share each batch: it adds a tensor up over all of them,
    in place.
    """

    probabilistic = True
    all_reduce: AllReduce | None = None
    dropped: Tensor | None

    def __init__(
        self, units: int, sets: int, *, dropped_candidate: str = "zero", **options: Any
    ) -> None:
        super().__init__(units, sets, **options)
        self.dropped_candidate = dropped_candidate
        # A scalar on the CPU: on the device meta torch would import its compiler for it.
        half = self.start(torch.zeros((), device="cpu")).item()
        mean = torch.full((sets, units), half) if dropped_candidate == "mean" else None
        self.register_buffer("dropped", mean)

    def drop_offset(self, mask: Tensor | None) -> Tensor | None:
        """Return the summand of `drop` beside a masked candidate [n, D, H]; None for 0."""
        if mask is None or self.dropped_candidate == "zero":
            return None
        half = self.start(mask.new_zeros(()))  # the state of p = 1/2
        return (1 - mask) * (half if self.dropped is None else self.dropped)

    @torch.no_grad()
    def observe(self, h: Tensor, mask: Tensor | None, frames: PackedFrames) -> None:
        """Move the mean towards that of h [N, D, H] where a unit is not dropped."""
        if self.dropped is None or mask is None:
            return
        keep = (mask > 0).to(self.dropped.dtype)
        lengths = torch.tensor(frames.lengths, dtype=keep.dtype, device=keep.device)
        by_sequence = torch.zeros_like(keep).index_add_(0, frames.sequence, h.to(keep.dtype))
        # The sum of h and the number of frames, over the sequences that keep the unit [2, D, H].
        sums = torch.stack((keep * by_sequence, keep * lengths[:, None, None])).sum(1)
        if len(self.dropped) == 1:  # both directions have one set of units
            sums = sums.sum(1, keepdim=True)
        if self.all_reduce:
            self.all_reduce(sums)
        total, count = sums
        mean = torch.where(count > 0, total / count.clamp(min=1), self.dropped)
        self.dropped += MOMENTUM * (mean - self.dropped)


class LogProbability(LogDomainCell):
    """A cell whose state is l = log p of probabilities p; the next layer reads l."""

    def start(self, theta: Tensor) -> Tensor:
        """Without knowledge, p_0 = 1/2."""
        return logsigmoid(theta)

    def probability(self, h: Tensor) -> Tensor:
        """Return e^l, at most 1 in spite of rounding."""
        return h.exp().clamp(max=1)


class NegativeLogProbability(LogDomainCell):
    """A cell whose state is h = -log p of probabilities p, the range of softplus."""

    def start(self, theta: Tensor) -> Tensor:
        """Without knowledge, p_0 = 1/2."""
        return softplus(theta)

    def probability(self, h: Tensor) -> Tensor:
        """Return e^{-h}, at most 1 in spite of rounding."""
        return torch.exp(-h).clamp(max=1)


def apply_mask(x: Tensor, mask: Tensor | None) -> Tensor:
    """Apply a dropout mask where there is one."""
    return x if mask is None else x * mask


def find_cell(unit: str, options: Mapping[str, Any]) -> type[Cell]:
    """Return the class of a unit with these options; InputError for what is not known."""
    entry = check_unit(unit, options)
    path = entry.forms.get(options.get("form", ""), entry.cell)
    path = entry.transitions.get(options.get("transitions", ""), path)
    if options.get("cells_per_block", 1) > 1:
        path = entry.blocks
    cell: Any = find_external(path) if EXTERNAL.fullmatch(unit) else find(path)
    if not (isinstance(cell, type) and issubclass(cell, Cell)):
        raise ExternalError(f"unit is {unit}, which is no subclass of bayes_asr.nn.units.cell.Cell")
    return cell


def build_cell(unit: str, units: int, sets: int, options: Mapping[str, Any]) -> Cell:
    """Return the cell `unit` with its options, for `units` units and `sets` sets of weights."""
    cell = find_cell(unit, options)
    excluded = ("form", "transitions")  # which have chosen the class
    arguments = {name: value for name, value in options.items() if name not in excluded}
    if arguments.get("cells_per_block") == 1:  # each has gates of its own
        del arguments["cells_per_block"]
    activations = check_unit(unit, options).activations
    if activations:
        arguments.setdefault("activation", activations[0])
    try:
        return cell(units, sets, **arguments)
    except TypeError as error:
        if not EXTERNAL.fullmatch(unit):
            raise
        raise ExternalError(f"unit is {unit}, whose class takes units and sets: {error}") from error


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

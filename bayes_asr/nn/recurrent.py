"""A recurrent layer: input products, normalisation, both directions, the recurrence."""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from bayes_asr.base.errors import InputError
from bayes_asr.nn.dropout import frame_keys, keep_mask
from bayes_asr.nn.first_weights import draw_as_pytorch_kaldi, draw_by_units
from bayes_asr.nn.frames import PackedFrames
from bayes_asr.nn.kernels.cpu import library
from bayes_asr.nn.kernels.dispatch import Backend, choose_backend
from bayes_asr.nn.kernels.reference.scan import Recurrence, step_through
from bayes_asr.nn.layer import Layer, State
from bayes_asr.nn.linear import Linear, factor_type, has_product, is_exporting
from bayes_asr.nn.norm import build_norm
from bayes_asr.nn.units.cell import Cell, LogDomainCell, build_cell, find_cell

SHORTEST_RUN = 10  # frames of a chunk that are worth packing V for a kernel


class RecurrentLayer(Layer):
    """A layer of `units` cells in one or both directions of time.

    The feed-forward term W x is computed for all frames at once and normalised over the real frames
    of the batch, separately for every gate (and direction, where directions are not tied); the
    recurrent term is not normalised.

    units: cells per direction.
    unit, options: name of the cell, its own options and its form (`catalogue.UNITS`).
    bidirectional: ignored by feed-forward layers, which have no direction.
    tied_directions: both directions share W, V and the normalisation, as in pytorch-kaldi.
    norm: one of `norm.NORMS`; `none` has a bias instead.
    dropout: probability with which a candidate is dropped, for a whole sequence where cells have
    states, else for a frame.
    dropout_scaling: `inverted` scales the other candidates up in training; `pytorch-kaldi` scales
    all of them down in evaluation.
    input_dropout: likewise for an input; the others are scaled up.
    initial_state: `fixed` (`Cell.start` of 0), `zero` (0 itself) or `trained`.
    hand_on: outputs of units that compute probabilities, `log` or `prob`.
    input_init: `xavier` or `uniform` (torch's default) weights W of each gate; V is orthogonal for
    each gate; or W, V and biases as in `first_weights`: `uniform-units`, `pytorch-kaldi`.
    bias: a bias also in front of a norm.
    fused: use compiled code or the hand-written backward pass where there is one; `False` runs the
    same equations through `scan`.
    """

    activation_prefixes: ClassVar = ("cell.activation.",)
    path = "eager"  # of a GPU (`catalogue.GPU_PATHS`)

    def __init__(
        self,
        inputs: int,
        number: int,
        *,
        units: int,
        unit: str,
        options: Mapping[str, Any],
        bidirectional: bool,
        tied_directions: bool,
        norm: str,
        dropout: float,
        dropout_scaling: str,
        input_dropout: float,
        initial_state: str,
        hand_on: str,
        input_init: str,
        bias: bool = False,
        fused: bool = True,
    ) -> None:
        super().__init__()
        self.unit, self.units, self.number, self.fused = unit, units, number, fused
        self.dropout, self.input_dropout = dropout, input_dropout
        self.inverted = dropout_scaling == "inverted"
        self.directions = 2 if bidirectional and find_cell(unit, options).states else 1
        self.outputs = self.directions * units
        sets = 1 if tied_directions else self.directions
        self.cell = build_cell(unit, units, sets, options)
        if hand_on == "prob" and not self.cell.probabilistic:
            raise InputError(f"hand_on is prob, but {unit} computes no probabilities; use log")
        self.as_probability = hand_on == "prob"
        self.expansion = self.cell.expansion()
        width = self.cell.projections * self.cell.gate_size
        self.W = Linear(inputs, sets * width, bias=bias or norm == "none")
        self.norm = build_norm(norm, sets, self.cell.projections, self.cell.gate_size)
        if not self.cell.states:
            self._leave_to_activation()
        self._draw_weights(input_init, sets)
        self.starts_at_zero = initial_state == "zero"
        # As theta of `Cell.start`, for every state of the cell, set of weights and unit.
        self.initial = (
            nn.Parameter(torch.zeros(self.cell.states, sets, units))
            if initial_state == "trained"
            else None
        )

    @property
    def looks_ahead(self) -> bool:  # type: ignore[override]
        """Whether outputs depend on later frames."""
        return self.directions > 1 or self.cell.backward_message() is not None

    @property
    def unrolled(self) -> bool:  # type: ignore[override]
        """Whether there is a recurrence."""
        return self.cell.states > 0

    @property
    def compiled(self) -> bool:  # type: ignore[override]
        """Whether compiled code computes its recurrence."""
        return self._backend(self.cell).COMPILED

    @property
    def batch_invariant(self) -> bool:  # type: ignore[override]
        """Whether compiled code computes all of it, and in chunks where nothing looks ahead."""
        # Kernels hand back h alone: in chunks, a cell with a second state goes frame by frame.
        return (
            self.compiled
            and self.expansion is None  # which torch computes
            and library.runs_on(self.W.weight.device)
            and has_product(torch.float32)
            and (self.looks_ahead or self.cell.states == 1)
            # torch rounds the product that dropout adds, and sigmoids, by the number of rows.
            and self.cell.drop_offset(self._mask(PackedFrames(()), None)) is None
            and (not self.as_probability or isinstance(self.cell, LogDomainCell))
        )

    def runs_on(self, path: str) -> bool:
        """Whether a path of a GPU has other code for its recurrence than the eager one."""
        preferred, eager = (
            choose_backend(self.cell, self.W.weight, fused=self.fused, path=each)
            for each in (path, "eager")
        )
        return preferred is not eager

    def forward(self, x_NF: Tensor, frames: PackedFrames, keys_B: Tensor | None = None) -> Tensor:
        """Return the outputs of all directions side by side [N, D*H]."""
        keys = keys_B if keys_B is None or self.cell.states else frame_keys(keys_B, frames)
        if keys is not None and self.input_dropout:
            # Streams 2 l and 2 l + 1 are the masks of candidates and of inputs of layer l.
            mask = keep_mask(keys, 2 * self.number + 1, x_NF.shape[1:], self.input_dropout)
            mask = mask / (1 - self.input_dropout)
            x_NF = x_NF * (mask[frames.sequence] if self.cell.states else mask)
        terms = self._terms(x_NF)
        candidate_mask = self._mask(frames, keys)
        device = terms.device.type  # programs of torch.export that enter autocast cannot be saved
        reduced = torch.is_autocast_enabled(device)
        with torch.autocast(device, enabled=False) if reduced else nullcontext():
            return self._hand_on(self._states(terms, candidate_mask, frames))

    def begin(self) -> State:
        """Return each state before the first frame [1, D, H]; a unit of frames alone has none."""
        return self._initial(self.cell, 1) if self.cell.states else ()

    def advance(self, x_TF: Tensor, frames: PackedFrames, state: State) -> tuple[Tensor, State]:
        """Outputs [T, H] of the next frames of one sequence, and the state after them."""
        terms = self._terms(x_TF)
        mask = self._mask(frames, None)
        if not self.cell.states:
            return self._hand_on(self._states(terms, mask, frames)), ()
        state = state or self.begin()
        exporting = is_exporting()
        if (
            self.cell.states == 1
            and not exporting
            and (self.W.batch_invariant or len(x_TF) >= SHORTEST_RUN)
        ):
            recurrence = Recurrence(self.cell, frames, (False,), terms, self.V, mask, state)
            h = self._unroll(recurrence)
            return self._hand_on(h), (h[-1:],)
        h, state = step_through(self.cell, terms, self.V, mask, frames, state)
        return self._hand_on(h), state

    def _draw_weights(self, input_init: str, sets: int) -> None:
        """Draw W and V of each gate."""
        if input_init == "xavier":
            # Each gate is a matrix of its own: its bounds follow from its own size.
            for gate in self.W.weight.data.view(-1, self.cell.gate_size, self.W.in_features):
                nn.init.xavier_uniform_(gate)
        self.V = self._draw_recurrent_weights(sets) if self.cell.recurrent else None
        if input_init == "uniform-units":
            draw_by_units(self.W, self.V, self.units)
        elif input_init == "pytorch-kaldi":
            draw_as_pytorch_kaldi(self.unit, self.W, self.V, self.units)

    def _draw_recurrent_weights(self, sets: int) -> nn.Parameter:
        """V [sets, H, G*H], orthogonal for each gate."""
        V = torch.empty(sets, self.units, self.cell.gates * self.cell.gate_size)
        for gate in V.split(self.cell.gate_size, dim=2):
            for direction in gate:
                direction.copy_(nn.init.orthogonal_(torch.empty(direction.shape)))
        return nn.Parameter(V)

    def _leave_to_activation(self) -> None:
        """Keep 1 and 0 as scale and shift of the norm where gamma and theta do the same."""
        trained = dict(self.cell.named_parameters())
        for name, parameter in self.norm.named_parameters():
            twin = {"weight": "gamma", "bias": "theta"}[name.rpartition(".")[2]]
            parameter.requires_grad_(f"activation.{twin}" not in trained)

    def _terms(self, x_NF: Tensor) -> Tensor:
        """The normalised feed-forward terms [N, S, G*H], in the type of factors for a kernel."""
        like = self.W.weight
        dtype = factor_type(like.device.type) if self.compiled else like.dtype
        terms = self.norm(self.W(x_NF)).unflatten(
            1, (-1, self.cell.projections, self.cell.gate_size)
        )
        if self.expansion is not None:
            terms = self.expansion(terms)
        return terms.flatten(2).to(dtype)

    def _hand_on(self, h_NDH: Tensor) -> Tensor:
        """The inputs of the next layer [N, D*H]."""
        convert = self.cell.probability if self.as_probability else self.cell.hand_on
        return convert(h_NDH).flatten(1)

    def _states(self, terms_NSX: Tensor, mask: Tensor | None, frames: PackedFrames) -> Tensor:
        """States h [N, D, H], in the order of time, for feed-forward terms [N, S, G*H]."""
        if not frames.lengths:  # there are statistics alone, of the frames of other processes
            nothing = terms_NSX[:, :, : self.units].expand(-1, self.directions, -1)
            if self.training:
                self.cell.observe(nothing, mask, frames)
            return nothing
        if not self.cell.states:
            a = terms_NSX.unflatten(-1, (self.cell.gates, -1))
            return self.cell(a, (), mask)[0]
        backwards = (False, True)[: self.directions]
        B = len(frames.lengths)
        initial = self._initial(self.cell, B)
        recurrence = Recurrence(self.cell, frames, backwards, terms_NSX, self.V, mask, initial)
        h = self._unroll(recurrence)
        if self.training:  # nor is torch.export to see that no gradient is wanted there
            self.cell.observe(h, mask, frames)
        message = self.cell.backward_message()
        if message is None:
            return h
        # Smoothing adds a recurrence over the same terms in the other order of time.
        forwards = tuple(not back for back in backwards)
        initial = self._initial(message, B)
        return h + self._unroll(
            recurrence._replace(cell=message, backwards=forwards, initial_BDH=initial)
        )

    def _unroll(self, recurrence: Recurrence) -> Tensor:
        """States h [N, D, H] of a recurrence, by the fastest code for it."""
        return self._backend(recurrence.cell).unroll(recurrence)

    def _backend(self, cell: Cell) -> Backend:
        """The fastest code for a cell."""
        return choose_backend(cell, self.W.weight, fused=self.fused, path=self.path)

    def _initial(self, cell: Cell, sequences: int) -> State:
        """Each state before the first frame [B, D, H]."""
        theta = self.W.weight.new_zeros(cell.states, 1, self.units)
        if self.initial is not None and cell is self.cell:
            theta = self.initial
        shape = (sequences, self.directions, self.units)
        states = theta if self.starts_at_zero and cell is self.cell else map(cell.start, theta)
        return tuple(state.expand(shape).contiguous() for state in states)

    def _mask(self, frames: PackedFrames, keys: Tensor | None) -> Tensor | None:
        """The dropout mask of candidates [B, D, H], or [N, D, H] where cells have no states.

        0 or 1 with keys, otherwise the mean of that.

        By default not scaled by 1 / (1 - dropout) in training, as in pytorch-kaldi: candidates that
        are linear for large inputs feed back on themselves, and a gain above 1 in that loop grows
        without bound over a few hundred frames.
        """
        shape = (self.directions, self.units)
        if not self.dropout or (keys is None and self.inverted):
            return None
        if keys is None:
            count = len(frames.lengths) if self.cell.states else 1
            return self.W.weight.new_full((count, *shape), 1 - self.dropout)
        mask = keep_mask(keys, 2 * self.number, shape, self.dropout)
        return (mask / (1 - self.dropout) if self.inverted else mask).to(self.W.weight.dtype)


class FeedForwardLayer(RecurrentLayer):
    """f(norm(W x)): the unit `mlp` alone, with dropout that is scaled in training.

    units, activation, activation_trains, norm, bias, dropout, input_init: as of `RecurrentLayer`.
    """

    def __init__(
        self,
        inputs: int,
        number: int,
        *,
        units: int,
        activation: str,
        activation_trains: Sequence[str] = (),
        norm: str,
        bias: bool = False,
        dropout: float,
        input_init: str = "xavier",
    ) -> None:
        options: dict[str, Any] = {"activation": activation}
        if activation_trains:
            options["activation_trains"] = list(activation_trains)
        super().__init__(
            inputs,
            number,
            units=units,
            unit="mlp",
            options=options,
            bidirectional=False,
            tied_directions=False,
            norm=norm,
            dropout=dropout,
            dropout_scaling="inverted",
            input_dropout=0.0,
            initial_state="fixed",
            hand_on="log",
            input_init=input_init,
            bias=bias,
        )

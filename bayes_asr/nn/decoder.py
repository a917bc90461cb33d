"""The decoder of an encoder-decoder network: it writes the labels of an utterance one by one."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from bayes_asr.nn.attention import Attention, AttentionOutput, Memory
from bayes_asr.nn.dropout import drop, frame_keys
from bayes_asr.nn.frames import PackedFrames
from bayes_asr.nn.layer import State
from bayes_asr.nn.pooling import Pool
from bayes_asr.nn.scan import step_through
from bayes_asr.nn.units.cell import build_cell

END = 0
"""The label that ends a sequence; read as the label before the first one, it begins it."""


@dataclass(frozen=True)
class DecoderTargets:
    """The right labels of a batch, packed as frames are, so that a decoder can be told them.

    labels_N: of each utterance its labels and END; steps: where they lie; order: the place in the
    batch of each of its sequences [B]; forced_N: which of them are told to the step behind them,
    which reads what the decoder would have written where they are not; None: all.
    """

    labels_N: Tensor
    steps: PackedFrames
    order: list[int]
    forced_N: Tensor | None = None


class DecoderState(NamedTuple):
    """The state of a decoder after a label: that of its cell [n, 1, H] each, and what it saw."""

    cell: State
    attended: AttentionOutput | None


class AttentionDecoder(nn.Module):
    r"""P(y_l | y_1 ... y_{l-1}, frames) of labels y_l, from the vectors h_t of an encoder.

    s_l = f([e(y_{l-1}), c_{l-1}], s_{l-1}) by a recurrent unit f, without normalisation;
    c_l = \sum_t a_{lt} h_t, what `Attention` sees for s_l, c_0 = 0;
    P(y_l) = softmax(O [s_l, c_l] + o).
    Without attention there is no c, and s_0 = start(A h + b) is all that is known of an utterance,
    of the encoder's last state h, of both directions each one's own (Sutskever, Vinyals & Le 2014).
    With it, s_0 = start(b), as Chan et al. (2016): what is known comes by looking.

    inputs: size of h_t; directions: those of the encoder's last layer; number: of the decoder among
    the layers, which tells its dropout masks apart; size: how many labels there are, END included.
    dropout: probability to drop a number of what f or O reads; others are scaled up in training.
    labels_per_frame: of the features, how many it writes at most: one that looks nowhere may never
    write END.
    """

    def __init__(
        self,
        inputs: int,
        directions: int,
        number: int,
        size: int,
        *,
        unit: str,
        units: int,
        embedding: int,
        attention: str,
        attention_units: int,
        dropout: float,
        labels_per_frame: float = 1.0,
    ) -> None:
        super().__init__()
        self.out_features, self.number, self.dropout = size, number, dropout
        self.labels_per_frame = labels_per_frame
        self.last = Pool(
            inputs, number, of="last", segment=0, shift=1, units=1, directions=directions
        )
        self.attention = (
            Attention(attention, inputs, units, attention_units) if attention != "none" else None
        )
        context = inputs if self.attention else 0
        self.embedding = nn.Embedding(size, embedding)
        self.cell = build_cell(unit, units, 1, {})
        self.b = nn.Parameter(torch.zeros(self.cell.states * units))
        self.A = None if self.attention else nn.Linear(inputs, len(self.b), bias=False)
        self.W = nn.Linear(embedding + context, self.cell.gates * units)
        gates = [nn.init.orthogonal_(torch.empty(units, units)) for _ in range(self.cell.gates)]
        self.V = nn.Parameter(torch.cat(gates, 1)[None]) if self.cell.recurrent else None
        for gate in self.W.weight.data.split(units):
            nn.init.xavier_uniform_(gate)
        self.O = nn.Linear(units + context, size)

    def max_length(self, frames: int) -> int:
        """How many labels it may write of so many frames of the features, END left out."""
        return math.ceil(self.labels_per_frame * frames)

    def begin(self, encoded_NH: Tensor, frames: PackedFrames) -> tuple[Memory | None, DecoderState]:
        """What there is to look at, and the state before the first label, of packed frames."""
        known = self.A(self.last(encoded_NH, frames)) if self.A else 0
        theta = self.b.expand(len(frames.lengths), -1) + known
        shape = (self.cell.states, 1, -1)
        state = tuple(self.cell.start(one) for one in theta.unflatten(1, shape).unbind(1))
        if self.attention is None:
            return None, DecoderState(state, None)
        memory = self.attention.build_memory(encoded_NH, frames)
        return memory, DecoderState(state, self.attention.begin(memory))

    def step(
        self,
        before_n: Tensor,
        memory: Memory | None,
        state: DecoderState,
        keys_n: Tensor | None = None,
    ) -> tuple[Tensor, DecoderState]:
        """What O reads [n, X], and the state after the next label.

        before_n: the labels before; keys_n: one integer each, from which dropout masks are made.
        """
        reads = self.embedding(before_n)
        if state.attended:
            reads = torch.cat((reads, state.attended.context_nH), 1)
        reads = drop(reads, keys_n, 2 * self.number, self.dropout)
        at = PackedFrames((1,) * len(before_n), before_n.device)
        h, cell = step_through(self.cell, self.W(reads)[:, None], self.V, None, at, state.cell)
        top = self.cell.hand_on(h).flatten(1)
        if self.attention is None or memory is None or state.attended is None:
            return top, DecoderState(cell, None)
        seen = self.attention(top, memory, state.attended)
        return torch.cat((top, seen.context_nH), 1), DecoderState(cell, seen)

    def read_out(self, x_nX: Tensor, keys_n: Tensor | None = None) -> Tensor:
        """The logits of labels [n, P]."""
        logits: Tensor = self.O(drop(x_nX, keys_n, 2 * self.number + 1, self.dropout))
        return logits

    def forward(
        self,
        encoded_NH: Tensor,
        frames: PackedFrames,
        told: DecoderTargets,
        keys_B: Tensor | None = None,
    ) -> Tensor:
        """Return the logits [N, P] at each of the labels that are told.

        frames: where the encoder's vectors lie; keys_B: one integer an utterance of the batch.
        """
        if not told.order:  # other processes have all utterances
            return self.O(encoded_NH.new_zeros(0, self.O.in_features))
        memory, state = self.begin(encoded_NH, frames)
        memory, state = _order(memory, state, told.order)
        keys_N = None if keys_B is None else frame_keys(keys_B[told.order], told.steps)
        reads: list[Tensor] = []
        before = torch.full((told.steps.sizes[0],), END, device=encoded_NH.device)
        for start, n in zip(told.steps.starts, told.steps.sizes, strict=True):
            rows = slice(start, start + n)
            keys = None if keys_N is None else keys_N[rows]
            state = _first(state, n)
            x, state = self.step(before[:n], memory and memory.first(n), state, keys)
            reads.append(x)
            before = self._choose_next(x, told, rows, keys)
        return self.read_out(torch.cat(reads), keys_N)

    def _choose_next(
        self, x_nX: Tensor, told: DecoderTargets, rows: slice, keys: Tensor | None
    ) -> Tensor:
        """What the next step reads as the label before [n]: the right one, or the most probable."""
        right = told.labels_N[rows]
        if told.forced_N is None or bool(told.forced_N[rows].all()):
            return right
        with torch.no_grad():
            own = self.read_out(x_nX, keys).argmax(1)
        return torch.where(told.forced_N[rows], right, own)


def _first(state: DecoderState, n: int) -> DecoderState:
    """The state of the first n sequences."""
    return _map(state, lambda x: x[:n])


def take_rows(state: DecoderState, rows: list[int]) -> DecoderState:
    """The state of some sequences."""
    return _map(state, lambda x: x[rows])


def _map(state: DecoderState, change: Any) -> DecoderState:
    seen = state.attended and AttentionOutput(*map(change, state.attended))
    return DecoderState(tuple(map(change, state.cell)), seen)


def _order(
    memory: Memory | None, state: DecoderState, order: list[int]
) -> tuple[Memory | None, DecoderState]:
    """Both in another order of utterances."""
    taken = memory and Memory(
        memory.frames_BTH[order], memory.keys_BTU[order], memory.inside_BT[order]
    )
    return taken, take_rows(state, order)

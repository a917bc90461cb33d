"""The decoder of an encoder-decoder network: it writes the labels of an utterance one by one."""

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from bayes_asr.nn.attention import Attention, AttentionOutput, Memory
from bayes_asr.nn.dropout import drop, frame_keys
from bayes_asr.nn.frames import END, DecoderTargets, PackedFrames
from bayes_asr.nn.kernels.reference.scan import step_through
from bayes_asr.nn.layer import State
from bayes_asr.nn.pooling import Pool
from bayes_asr.nn.units.cell import build_cell


class DecoderState(NamedTuple):
    """The state of a decoder after a label: that of its cell [n, 1, H] each, and its attention."""

    cell: State
    attended: AttentionOutput | None  # None without attention


class AttentionDecoder(nn.Module):
    r"""P(y_l | y_1 ... y_{l-1}, frames) of labels y_l, from the vectors h_t of an encoder.

    s_l = f([e(y_{l-1}), c_{l-1}], s_{l-1}) by a recurrent unit f, without normalisation;
    c_l = \sum_t a_{lt} h_t, the context of s_l by `Attention`, c_0 = 0;
    P(y_l) = softmax(O [s_l, c_l] + o).
    Without attention there is no c, and the decoder knows an utterance by s_0 = start(A h + b)
    alone, where h is the encoder's last state, of each direction in its own order of time
    (Sutskever, Vinyals & Le 2014). With attention s_0 = start(b), as Chan et al. (2016).

    inputs: size of h_t; directions: those of the encoder's last layer; number: of the decoder among
    the layers, which tells its dropout masks apart; size: number of labels, END included.
    dropout: probability to drop an input of f or O; the others are scaled up in training.
    labels_per_frame: the most labels that it writes for each frame of the features: a decoder
    without attention may never write END.
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
        # The rows of W are those of each gate in turn, initialised as a matrix of its own.
        for gate in self.W.weight.data.split(units):
            nn.init.xavier_uniform_(gate)
        self.O = nn.Linear(units + context, size)

    def max_length(self, frames: int) -> int:
        """The most labels that it may write for so many frames of the features, without END."""
        return math.ceil(self.labels_per_frame * frames)

    def begin(self, encoded_NH: Tensor, frames: PackedFrames) -> tuple[Memory | None, DecoderState]:
        """The memory of packed frames, and the state before the first label."""
        encoded = self.A(self.last(encoded_NH, frames)) if self.A else 0
        theta = self.b.expand(len(frames.lengths), -1) + encoded
        shape = (self.cell.states, 1, -1)  # each state of the cell, in one direction
        state = tuple(self.cell.start(x) for x in theta.unflatten(1, shape).unbind(1))
        if self.attention is None:
            return None, DecoderState(state, None)
        memory = self.attention.build_memory(encoded_NH, frames)
        return memory, DecoderState(state, self.attention.begin(memory))

    def step(
        self,
        previous_n: Tensor,
        memory: Memory | None,
        state: DecoderState,
        keys_n: Tensor | None = None,
    ) -> tuple[Tensor, DecoderState]:
        """The inputs of O [n, X], and the state after the next label.

        previous_n: the labels before; keys_n: one integer each, from which dropout masks are made.
        """
        reads = self.embedding(previous_n)
        if state.attended:
            reads = torch.cat((reads, state.attended.context_nH), 1)
        reads = drop(reads, keys_n, 2 * self.number, self.dropout)
        # Each sequence has one frame here: its next label.
        step = PackedFrames((1,) * len(previous_n), previous_n.device)
        h, cell = step_through(self.cell, self.W(reads)[:, None], self.V, None, step, state.cell)
        top = self.cell.hand_on(h).flatten(1)
        if self.attention is None or memory is None or state.attended is None:
            return top, DecoderState(cell, None)
        attended = self.attention(top, memory, state.attended)
        return torch.cat((top, attended.context_nH), 1), DecoderState(cell, attended)

    def read_out(self, x_nX: Tensor, keys_n: Tensor | None = None) -> Tensor:
        """The logits of labels [n, P]."""
        logits: Tensor = self.O(drop(x_nX, keys_n, 2 * self.number + 1, self.dropout))
        return logits

    def forward(
        self,
        encoded_NH: Tensor,
        frames: PackedFrames,
        targets: DecoderTargets,
        keys_B: Tensor | None = None,
    ) -> Tensor:
        """Return the logits [N, P] at each of the labels `targets`.

        frames: the layout of the encoder's vectors; keys_B: one integer an utterance of the batch.
        """
        if not targets.order:  # other processes have all utterances, and sum over the backward pass
            return self.O(encoded_NH.new_zeros(0, self.O.in_features)) + 0 * encoded_NH.sum()
        memory, state = self.begin(encoded_NH, frames)
        memory, state = _order(memory, state, targets.order)
        keys_N = None if keys_B is None else frame_keys(keys_B[targets.order], targets.steps)
        # Label l of every utterance at once; sequences are sorted by length, so that those that
        # have label l are the first n. Logits are computed for all labels together at the end.
        reads: list[Tensor] = []
        previous = torch.full((targets.steps.sizes[0],), END, device=encoded_NH.device)
        for start, n in zip(targets.steps.starts, targets.steps.sizes, strict=True):
            rows = slice(start, start + n)
            keys = None if keys_N is None else keys_N[rows]
            state = _first(state, n)
            x, state = self.step(previous[:n], memory and memory.first(n), state, keys)
            reads.append(x)
            previous = self._choose_next(x, targets, rows, keys)
        return self.read_out(torch.cat(reads), keys_N)

    def _choose_next(
        self, x_nX: Tensor, targets: DecoderTargets, rows: slice, keys: Tensor | None
    ) -> Tensor:
        """The label before for the next step [n]: the right one, or the most probable one."""
        right = targets.labels_N[rows]
        if targets.forced_N is None or bool(targets.forced_N[rows].all()):
            return right
        # Scheduled sampling (Bengio et al. 2015). The choice has no gradient.
        with torch.no_grad():
            guesses = self.read_out(x_nX, keys).argmax(1)
        return torch.where(targets.forced_N[rows], right, guesses)


def _first(state: DecoderState, n: int) -> DecoderState:
    """The state of the first n sequences."""
    return _map(state, lambda x: x[:n])


def select_rows(state: DecoderState, rows: list[int]) -> DecoderState:
    """The state of some sequences."""
    return _map(state, lambda x: x[rows])


def _map(state: DecoderState, change: Any) -> DecoderState:
    """The state with `change` applied to each of its tensors."""
    attended = state.attended and AttentionOutput(*map(change, state.attended))
    return DecoderState(tuple(map(change, state.cell)), attended)


def _order(
    memory: Memory | None, state: DecoderState, order: list[int]
) -> tuple[Memory | None, DecoderState]:
    """Memory and state in another order of utterances."""
    ordered = memory and Memory(
        memory.frames_BTH[order], memory.keys_BTU[order], memory.inside_BT[order]
    )
    return ordered, select_rows(state, order)

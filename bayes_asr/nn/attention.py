"""Attention of a decoder to the frames of an utterance."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from bayes_asr.nn.frames import PackedFrames


@dataclass(frozen=True)
class Memory:
    """The encoded frames of B utterances that a decoder attends to, padded with zeros.

    frames_BTH: outputs of the encoder; keys_BTU: their keys, from which scores are computed;
    inside_BT: whether it is a frame or padding, whose weight is exactly 0.
    """

    frames_BTH: Tensor
    keys_BTU: Tensor
    inside_BT: Tensor

    def first(self, n: int) -> "Memory":
        """The memory of the first n utterances."""
        return Memory(self.frames_BTH[:n], self.keys_BTU[:n], self.inside_BT[:n])

    def repeat(self, n: int) -> "Memory":
        """The memory of one utterance, for n hypotheses of it."""
        parts = (self.frames_BTH, self.keys_BTU, self.inside_BT)
        return Memory(*(part.expand(n, *part.shape[1:]) for part in parts))


class AttentionOutput(NamedTuple):
    """The mean of the frames by their weights [n, H], and these weights [n, T]."""

    context_nH: Tensor
    weights_nT: Tensor


class Attention(nn.Module):
    r"""The mean of the frames h_t of an utterance by weights a_t = \exp(e_t) / \sum_i \exp(e_i).

    Scores e_t depend on the decoder's state s. kind:
    `lecture`: e_t = u_t . (Q s) with u_t = \tanh(W h_t + b): the lecture's, with the query Q s in
    place of its u_l, which is the same for all utterances;
    `dot`: e_t = (W h_t) . (Q s) (Luong, Pham & Manning 2015);
    `additive`: e_t = v . \tanh(W h_t + Q s + b) (Bahdanau, Cho & Bengio 2015);
    `location`: e_t = v . \tanh(W h_t + Q s + b + L f_t), where f is a convolution of the weights of
    the label before with FILTERS filters of 2 REACH + 1 frames (Chorowski et al. 2015).

    inputs: size of h_t; state: size of s; units: size of keys and queries.
    """

    FILTERS, REACH = 10, 15

    def __init__(self, kind: str, inputs: int, state: int, units: int) -> None:
        super().__init__()
        self.kind, self.inputs = kind, inputs
        self.W = nn.Linear(inputs, units, bias=kind != "dot")
        self.Q = nn.Linear(state, units, bias=False)
        if kind in ("additive", "location"):
            self.v = nn.Parameter(torch.empty(units).uniform_(-1, 1) / units**0.5)
        if kind == "location":
            width = 2 * self.REACH + 1
            self.F = nn.Conv1d(1, self.FILTERS, width, padding=self.REACH, bias=False)
            self.L = nn.Linear(self.FILTERS, units, bias=False)

    def build_memory(self, encoded_NH: Tensor, frames: PackedFrames) -> Memory:
        """The memory of packed frames, in their order of utterances."""
        keys_NU = self.W(encoded_NH)
        if self.kind == "lecture":
            keys_NU = torch.tanh(keys_NU)
        shape = (len(frames.lengths), max(frames.lengths, default=0))
        inside = torch.zeros(shape, dtype=torch.bool, device=encoded_NH.device)
        positions = (frames.sequence, frames.time)
        inside[positions] = True

        def unpack(x_NX: Tensor) -> Tensor:
            return x_NX.new_zeros(*shape, x_NX.shape[1]).index_put(positions, x_NX)

        return Memory(unpack(encoded_NH), unpack(keys_NU), inside)

    def begin(self, memory: Memory) -> AttentionOutput:
        """The output before the first label: zeros."""
        B, T, _ = memory.frames_BTH.shape
        return AttentionOutput(
            memory.frames_BTH.new_zeros(B, self.inputs), memory.frames_BTH.new_zeros(B, T)
        )

    def forward(
        self, state_nS: Tensor, memory: Memory, previous: AttentionOutput
    ) -> AttentionOutput:
        """The attention of a state; previous: that of the label before."""
        scores = self._score(self.Q(state_nS), memory, previous.weights_nT)
        weights = scores.masked_fill(~memory.inside_BT, -torch.inf).softmax(1)
        return AttentionOutput(torch.bmm(weights[:, None], memory.frames_BTH).squeeze(1), weights)

    def _score(self, query_nU: Tensor, memory: Memory, weights_nT: Tensor) -> Tensor:
        """The scores [n, T]."""
        if self.kind in ("lecture", "dot"):
            return torch.bmm(memory.keys_BTU, query_nU[:, :, None]).squeeze(2)
        sums = memory.keys_BTU + query_nU[:, None]
        if self.kind == "location":
            # Conv1d wants [n, channels, T]; L reads the filters of each frame [n, T, FILTERS].
            sums = sums + self.L(self.F(weights_nT[:, None]).transpose(1, 2))
        return torch.tanh(sums) @ self.v

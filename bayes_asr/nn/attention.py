"""Attention of a decoder: which frames of an utterance it looks at before it writes a label."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from bayes_asr.nn.frames import PackedFrames


@dataclass(frozen=True)
class Memory:
    """What a decoder may look at: the frames of B utterances, with zeros behind shorter ones.

    frames_BTH: what the encoder made of them; keys_BTU: what scores are computed from; inside_BT:
    which are frames. Those that are not weigh exactly 0.
    """

    frames_BTH: Tensor
    keys_BTU: Tensor
    inside_BT: Tensor

    def first(self, n: int) -> "Memory":
        """Those of the first n utterances."""
        return Memory(self.frames_BTH[:n], self.keys_BTU[:n], self.inside_BT[:n])

    def repeat(self, n: int) -> "Memory":
        """Those of one utterance for n hypotheses of it."""
        parts = (self.frames_BTH, self.keys_BTU, self.inside_BT)
        return Memory(*(part.expand(n, *part.shape[1:]) for part in parts))


class AttentionOutput(NamedTuple):
    """What a decoder saw: the mean of the frames by their weights [n, H], and these [n, T]."""

    context_nH: Tensor
    weights_nT: Tensor


class Attention(nn.Module):
    r"""The mean of the frames h_t of an utterance by weights a_t = \exp(e_t) / \sum_i \exp(e_i).

    Scores e_t depend on the decoder's state s. kind:
    `lecture`: e_t = u_t . (Q s) with u_t = \tanh(W h_t + b): the lecture's, whose u_l, the same for
    all, is here what the state asks for;
    `dot`: e_t = (W h_t) . (Q s) (Luong, Pham & Manning 2015);
    `additive`: e_t = v . \tanh(W h_t + Q s + b) (Bahdanau, Cho & Bengio 2015);
    `location`: e_t = v . \tanh(W h_t + Q s + b + L f_t), where f is a convolution of the weights of
    the label before with FILTERS filters of 2 REACH + 1 frames (Chorowski et al. 2015).

    inputs: size of h_t; state: size of s; units: size of what is compared.
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
        places = (frames.sequence, frames.time)
        inside[places] = True

        def lay_out(x_NX: Tensor) -> Tensor:
            return x_NX.new_zeros(*shape, x_NX.shape[1]).index_put(places, x_NX)

        return Memory(lay_out(encoded_NH), lay_out(keys_NU), inside)

    def begin(self, memory: Memory) -> AttentionOutput:
        """What was seen before the first label: nothing."""
        B, T, _ = memory.frames_BTH.shape
        return AttentionOutput(
            memory.frames_BTH.new_zeros(B, self.inputs), memory.frames_BTH.new_zeros(B, T)
        )

    def forward(self, state_nS: Tensor, memory: Memory, before: AttentionOutput) -> AttentionOutput:
        """What a state sees; before: what was seen for the label before."""
        scores = self._score(self.Q(state_nS), memory, before.weights_nT)
        weights = scores.masked_fill(~memory.inside_BT, -torch.inf).softmax(1)
        return AttentionOutput(torch.bmm(weights[:, None], memory.frames_BTH).squeeze(1), weights)

    def _score(self, asked_nU: Tensor, memory: Memory, weights_nT: Tensor) -> Tensor:
        """The scores [n, T]."""
        if self.kind in ("lecture", "dot"):
            return torch.bmm(memory.keys_BTU, asked_nU[:, :, None]).squeeze(2)
        compared = memory.keys_BTU + asked_nU[:, None]
        if self.kind == "location":
            compared = compared + self.L(self.F(weights_nT[:, None]).transpose(1, 2))
        return torch.tanh(compared) @ self.v

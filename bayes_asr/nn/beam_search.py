"""Which sequence of labels a decoder finds most probable."""

from typing import NamedTuple

import torch
from torch import Tensor

from bayes_asr.nn.decoder import END, AttentionDecoder, DecoderState, take_rows
from bayes_asr.nn.frames import PackedFrames


class BeamHypothesis(NamedTuple):
    """Labels that a decoder may write, END left out, and what it looked at for each, END included.

    log_probability: of all of them and END; weights_LT: of the frames, for each label and END; no
    columns where the decoder has no attention.
    """

    labels: tuple[int, ...]
    log_probability: float
    weights_LT: Tensor

    def score(self, length_penalty: float) -> float:
        r"""\log P / L^\alpha of the L labels, END included; 0: none is longer than another."""
        return self.log_probability / (len(self.labels) + 1) ** length_penalty


class _Prefix(NamedTuple):
    """The beginning of a hypothesis, whose state is row `row` of those of its length."""

    labels: tuple[int, ...]
    log_probability: float
    weights: tuple[Tensor, ...]
    row: int


@torch.no_grad()
def search(
    decoder: AttentionDecoder,
    encoded_TH: Tensor,
    *,
    width: int,
    max_length: int,
    length_penalty: float,
) -> BeamHypothesis:
    """The best hypothesis for one utterance, by `Hypothesis.score`.

    The `width` most probable beginnings of each length go on; one that ends keeps its place among
    them. The search ends when all have ended or none can become better than the best that has. A
    hypothesis has up to `max_length` labels. A width of all beginnings gives the best of all.
    """
    memory, state = decoder.begin(encoded_TH, PackedFrames((len(encoded_TH),), encoded_TH.device))
    alive, ended = [_Prefix((), 0.0, (), 0)], list[BeamHypothesis]()
    while alive and len(ended) < width:
        before = [prefix.labels[-1] if prefix.labels else END for prefix in alive]
        state = take_rows(state, [prefix.row for prefix in alive])
        x, state = decoder.step(
            torch.tensor(before, device=encoded_TH.device),
            memory and memory.repeat(len(alive)),
            state,
        )
        log_probs = torch.log_softmax(decoder.read_out(x), 1)
        if len(alive[0].labels) == max_length:  # nothing but the end may follow
            log_probs[:, END + 1 :] = -torch.inf
        grown = _grow(alive, log_probs, state, width - len(ended))
        alive = []
        for prefix in grown:
            if prefix.labels[-1] == END:
                weights = torch.stack(prefix.weights)
                ended.append(BeamHypothesis(prefix.labels[:-1], prefix.log_probability, weights))
            else:
                alive.append(prefix)
        if ended and alive:
            # What a beginning loses by further labels, the length penalty may make up for at most.
            best = max(prefix.log_probability for prefix in alive)
            reached = max(one.score(length_penalty) for one in ended)
            if best / (max_length + 1) ** length_penalty <= reached:
                break
    return max(ended, key=lambda one: one.score(length_penalty))


def _grow(
    alive: list[_Prefix], log_probs_nP: Tensor, state: DecoderState, places: int
) -> list[_Prefix]:
    """The most probable of all beginnings with one label more, best first."""
    known = log_probs_nP.new_tensor([prefix.log_probability for prefix in alive])
    total = (known[:, None] + log_probs_nP).flatten()
    possible = int(torch.isfinite(total).sum())
    best = total.topk(min(places, possible))
    none = log_probs_nP.new_zeros(len(alive), 0)
    weights = state.attended.weights_nT if state.attended else none
    grown = []
    for value, place in zip(best.values.tolist(), best.indices.tolist(), strict=True):
        row, label = divmod(place, log_probs_nP.shape[1])
        prefix = alive[row]
        grown.append(_Prefix((*prefix.labels, label), value, (*prefix.weights, weights[row]), row))
    return grown


@torch.no_grad()
def search_greedily(
    decoder: AttentionDecoder, encoded_NH: Tensor, frames: PackedFrames, longest: list[int]
) -> list[list[int]]:
    """The most probable label after the ones before, for each of several utterances until its END.

    encoded_NH: packed; longest: how many labels each has at most. END is left out.
    """
    memory, state = decoder.begin(encoded_NH, frames)
    before = torch.full((len(longest),), END, device=encoded_NH.device)
    most = torch.tensor(longest, device=encoded_NH.device)
    going, steps = most > 0, list[Tensor]()
    while going.any():
        x, state = decoder.step(before, memory, state)
        before = decoder.read_out(x).argmax(1)
        going = going & (before != END) & (most > len(steps))
        steps.append(before.masked_fill(~going, END))
    written = torch.stack(steps, 1).tolist() if steps else [[] for _ in longest]
    return [[label for label in labels if label != END] for labels in written]

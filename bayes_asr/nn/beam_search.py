"""Beam search: the sequence of labels that a decoder finds most probable."""

from typing import NamedTuple

import torch
from torch import Tensor

from bayes_asr.nn.decoder import AttentionDecoder, DecoderState, select_rows
from bayes_asr.nn.frames import END, PackedFrames


class BeamHypothesis(NamedTuple):
    """Labels that a decoder may write, END left out.

    log_probability: of all of them and END; weights_LT: attention of each label, and of END, on
    the frames; no columns where the decoder has no attention.
    """

    labels: tuple[int, ...]
    log_probability: float
    weights_LT: Tensor

    def score(self, length_penalty: float) -> float:
        r"""\log P / L^\alpha of the L labels, END included; \alpha = 0 ignores the length."""
        return self.log_probability / (len(self.labels) + 1) ** length_penalty


class _Prefix(NamedTuple):
    """The beginning of a hypothesis; row: of its state among those of all prefixes."""

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
    """The best hypothesis for one utterance, by `BeamHypothesis.score`.

    The `width` most probable prefixes of each length go on; one that ends keeps its place among
    them. The search ends when all have ended or none can become better than the best that has. A
    hypothesis has up to `max_length` labels. With a width of all prefixes, the search is exact.
    """
    memory, state = decoder.begin(encoded_TH, PackedFrames((len(encoded_TH),), encoded_TH.device))
    alive, ended = [_Prefix((), 0.0, (), 0)], list[BeamHypothesis]()
    while alive and len(ended) < width:
        previous = [prefix.labels[-1] if prefix.labels else END for prefix in alive]
        state = select_rows(state, [prefix.row for prefix in alive])
        x, state = decoder.step(
            torch.tensor(previous, device=encoded_TH.device),
            memory and memory.repeat(len(alive)),
            state,
        )
        log_probs = torch.log_softmax(decoder.read_out(x), 1)
        if len(alive[0].labels) == max_length:  # nothing but the end may follow
            log_probs[:, END + 1 :] = -torch.inf
        extended = _extend(alive, log_probs, state, width - len(ended))
        alive = []
        for prefix in extended:
            if prefix.labels[-1] == END:
                weights = torch.stack(prefix.weights)
                ended.append(BeamHypothesis(prefix.labels[:-1], prefix.log_probability, weights))
            else:
                alive.append(prefix)
        if ended and alive:
            # No label has a positive log-probability: a prefix that lost none up to the greatest
            # length would have the best score that it can reach.
            best = max(prefix.log_probability for prefix in alive)
            best_score = max(hypothesis.score(length_penalty) for hypothesis in ended)
            if best / (max_length + 1) ** length_penalty <= best_score:
                break
    return max(ended, key=lambda hypothesis: hypothesis.score(length_penalty))


def _extend(
    alive: list[_Prefix], log_probs_nP: Tensor, state: DecoderState, count: int
) -> list[_Prefix]:
    """The `count` most probable of all prefixes with one label more, best first."""
    scores = log_probs_nP.new_tensor([prefix.log_probability for prefix in alive])
    total = (scores[:, None] + log_probs_nP).flatten()
    possible = int(torch.isfinite(total).sum())
    best = total.topk(min(count, possible))
    no_weights = log_probs_nP.new_zeros(len(alive), 0)
    weights = state.attended.weights_nT if state.attended else no_weights
    extended = []
    for score, index in zip(best.values.tolist(), best.indices.tolist(), strict=True):
        row, label = divmod(index, log_probs_nP.shape[1])
        prefix = alive[row]
        labels, attended = (*prefix.labels, label), (*prefix.weights, weights[row])
        extended.append(_Prefix(labels, score, attended, row))
    return extended


@torch.no_grad()
def search_greedily(
    decoder: AttentionDecoder, encoded_NH: Tensor, frames: PackedFrames, max_lengths: list[int]
) -> list[list[int]]:
    """Greedy search: the most probable label after the labels before, for several utterances.

    encoded_NH: packed; max_lengths: the most labels of each. Each ends before its first END.
    """
    memory, state = decoder.begin(encoded_NH, frames)
    previous = torch.full((len(max_lengths),), END, device=encoded_NH.device)
    limits = torch.tensor(max_lengths, device=encoded_NH.device)
    active, steps = limits > 0, list[Tensor]()
    # Utterances that have ended are computed on with the others, and have END from then on.
    while active.any():
        x, state = decoder.step(previous, memory, state)
        previous = decoder.read_out(x).argmax(1)
        active = active & (previous != END) & (limits > len(steps))
        steps.append(previous.masked_fill(~active, END))
    sequences = torch.stack(steps, 1).tolist() if steps else [[] for _ in max_lengths]
    return [[label for label in labels if label != END] for labels in sequences]

"""Beam search against enumeration of all sequences, scored by what the decoder is told."""

from itertools import product

import numpy as np
import pytest
import torch
from torch import Tensor

from bayes_asr.nn.beam_search import BeamHypothesis, search, search_greedily
from bayes_asr.nn.decoder import AttentionDecoder
from bayes_asr.nn.frames import END, DecoderTargets, PackedFrames, pack

SIZE, WIDTH, LONGEST = 3, 4, 4


def decoder(attention: str, seed: int = 0) -> AttentionDecoder:
    torch.manual_seed(seed)
    built = AttentionDecoder(
        WIDTH,
        1,
        0,
        SIZE,
        unit="gru",
        units=3,
        embedding=2,
        attention=attention,
        attention_units=3,
        dropout=0.0,
    ).double()
    for parameter in built.parameters():
        parameter.data.normal_(std=1.5)
    return built


def frames_of(length: int, seed: int = 1) -> Tensor:
    rng = np.random.default_rng(seed)
    return torch.from_numpy(rng.standard_normal((length, WIDTH)))


@torch.no_grad()
def log_probability(built: AttentionDecoder, h: Tensor, labels: tuple[int, ...]) -> float:
    """log P of labels and the end, by teacher forcing."""
    told = DecoderTargets(torch.tensor([*labels, END]), PackedFrames((len(labels) + 1,)), [0])
    logits = built(h, PackedFrames((len(h),)), told)
    return float(torch.log_softmax(logits, 1).gather(1, told.labels_N[:, None]).sum())


def enumerate_all(built: AttentionDecoder, h: Tensor) -> list[BeamHypothesis]:
    every = (labels for n in range(LONGEST + 1) for labels in product(range(1, SIZE), repeat=n))
    return [BeamHypothesis(one, log_probability(built, h, one), h[:0]) for one in every]


@pytest.mark.parametrize("attention", ["none", "lecture", "location"])
@pytest.mark.parametrize("seed", range(3))
def test_a_beam_of_all_beginnings_finds_the_best_of_all(attention: str, seed: int) -> None:
    built, h = decoder(attention, seed), frames_of(5)
    every = enumerate_all(built, h)
    for penalty in (0.0, 0.5, 1.0, 2.0):
        best = max(every, key=lambda one: one.score(penalty))
        found = search(built, h, width=1000, max_length=LONGEST, length_penalty=penalty)
        assert found.labels == best.labels
        assert found.log_probability == pytest.approx(best.log_probability, abs=1e-10)


def test_a_narrow_beam_finds_what_is_there_and_no_more_probable_than_a_wide_one() -> None:
    scores = []
    for width in (1, 2, 3, 1000):
        found = search(
            decoder("dot"), h := frames_of(6), width=width, max_length=9, length_penalty=0
        )
        expected = log_probability(decoder("dot"), h, found.labels)
        assert found.log_probability == pytest.approx(expected, abs=1e-10)
        scores.append(found.log_probability)
    assert max(scores) == scores[-1]


def test_the_length_penalty_is_a_power_of_the_number_of_labels() -> None:
    short, long = (
        BeamHypothesis((1,), -2.0, torch.empty(0)),
        BeamHypothesis((1, 2, 1), -3.0, torch.empty(0)),
    )
    assert [short.score(a) for a in (0, 1, 2)] == [-2.0, -1.0, -0.5]
    assert short.score(0) > long.score(0)
    assert long.score(1) == -0.75 > short.score(1)


def test_a_hypothesis_ends_after_the_longest_and_weighs_every_frame() -> None:
    built = decoder("additive")
    built.O.bias.data[END] = -1e3
    found = search(built, frames_of(5), width=2, max_length=4, length_penalty=1)
    assert len(found.labels) == 4
    assert END not in found.labels
    assert found.weights_LT.shape == (5, 5)
    torch.testing.assert_close(found.weights_LT.sum(1), torch.ones(5).double())
    built.O.bias.data[END] = 1e3
    assert search(built, frames_of(5), width=2, max_length=4, length_penalty=1).labels == ()
    none = search(decoder("none"), frames_of(5), width=1, max_length=0, length_penalty=1)
    assert (none.labels, none.weights_LT.shape) == ((), (1, 0))


@pytest.mark.parametrize("attention", ["none", "location"])
def test_greedy_search_is_a_beam_of_one_in_any_company(attention: str) -> None:
    for seed in range(4):
        built, lengths = decoder(attention, seed), (7, 2, 5)
        xs = [frames_of(n, n) for n in lengths]
        packed, frames, order = pack(xs)
        longest = [6, 5, 0]
        found = search_greedily(built, packed, frames, [longest[place] for place in order])
        for place, labels in zip(order, found, strict=True):
            alone = search(built, xs[place], width=1, max_length=longest[place], length_penalty=1)
            assert tuple(labels) == alone.labels

"""Packed batches against a loop over sequences, and against torch's own packing."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bayes_asr.nn.frames import PackedFrames, pack, unpack

LENGTHS = st.lists(st.integers(1, 7), min_size=1, max_size=5)
DECREASING = LENGTHS.map(lambda lengths: tuple(sorted(lengths, reverse=True)))


def places(lengths: tuple[int, ...]) -> list[tuple[int, int]]:
    """(time, sequence) of every frame in packed order."""
    return [(t, b) for t in range(lengths[0]) for b in range(len(lengths)) if t < lengths[b]]


@settings(deadline=None, max_examples=30)
@given(DECREASING)
def test_indices_are_those_of_a_loop_over_frames(lengths: tuple[int, ...]) -> None:
    frames, where = PackedFrames(lengths), places(lengths)
    row = {place: i for i, place in enumerate(where)}
    assert frames.sizes == [sum(n > t for n in lengths) for t in range(lengths[0])]
    assert frames.starts == [row[t, 0] for t in range(lengths[0])]
    assert frames.sequence.tolist() == [b for _, b in where]
    assert frames.previous.tolist() == [row[t - 1, b] for t, b in where if t > 0]
    assert frames.reverse.tolist() == [row[lengths[b] - 1 - t, b] for t, b in where]


@settings(deadline=None, max_examples=30)
@given(LENGTHS)
def test_unpacking_undoes_packing(lengths: list[int]) -> None:
    sequences = [torch.randn(n, 3) for n in lengths]
    packed, frames, order = pack(sequences)
    for sequence, back in zip(sequences, unpack(packed, frames, order), strict=True):
        assert torch.equal(sequence, back)
    theirs = torch.nn.utils.rnn.pack_sequence(sequences, enforce_sorted=False)
    assert torch.equal(packed, theirs.data)
    assert frames.sizes == theirs.batch_sizes.tolist()


@settings(deadline=None, max_examples=30)
@given(LENGTHS)
def test_direction_1_is_each_sequence_reversed(lengths: list[int]) -> None:
    sequences = [torch.randn(n, 2) for n in lengths]
    packed, frames, order = pack(sequences)
    both = frames.order_directions(packed.unsqueeze(1), (False, True))
    assert torch.equal(both[:, 0], packed)
    for sequence, back in zip(sequences, unpack(both[:, 1], frames, order), strict=True):
        assert torch.equal(back, sequence.flip(0))
    assert torch.equal(frames.order_directions(both, (False, True))[:, 1], packed)


def test_a_batch_may_be_empty() -> None:
    frames = PackedFrames(())
    assert (frames.sizes, frames.starts) == ([], [])
    assert torch.equal(frames.sequence, torch.empty(0, dtype=torch.long))


@pytest.mark.parametrize(
    ("lengths", "message"),
    [
        ((3, 0), r"at least one frame, got lengths \(3, 0\)"),
        ((2, 3), r"decreasing length, got \(2, 3\)"),
    ],
)
def test_impossible_lengths_are_refused(lengths: tuple[int, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PackedFrames(lengths)

"""Packed frames in the static form and back, against loops over every number."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bayes_asr.nn.frames import PackedFrames
from bayes_asr.nn.kernels.cuda.static import find_rows, pack, round_up, unpack

DIRECTIONS = [(False,), (True,), (False, True), (True, False)]


@pytest.mark.parametrize(
    ("batch", "bucket"),
    [
        ((1, 1), (1, 32)),
        ((2, 3000), (2, 3008)),
        ((3, 32), (4, 32)),
        ((5, 32), (8, 32)),
        ((8, 32), (8, 32)),
        ((9, 33), (16, 64)),
        ((17, 300), (32, 320)),
        ((64, 800), (64, 800)),
    ],
)
def test_buckets_are_few(batch: tuple[int, int], bucket: tuple[int, int]) -> None:
    assert round_up(*batch) == bucket


@given(
    st.lists(st.integers(1, 7), min_size=1, max_size=6),
    st.sampled_from(DIRECTIONS),
    st.integers(0, 3),
    st.booleans(),
)
def test_each_direction_of_each_sequence_lies_in_a_column_of_its_own(
    lengths: list[int], backwards: tuple[bool, ...], spare: int, shared: bool
) -> None:
    frames = PackedFrames(tuple(sorted(lengths, reverse=True)))
    B, T, D = len(lengths) + spare, max(lengths) + spare, len(backwards)
    x = torch.randn(frames.count, 1 if shared else D, 3)
    buffer = torch.full((T, B, D, 3), torch.nan)
    rows = find_rows(frames, backwards, B)
    pack(x, rows, buffer)
    expected = torch.full_like(buffer, torch.nan)
    for b, length in enumerate(frames.lengths):
        for t in range(length):
            for d, back in enumerate(backwards):
                frame = frames.starts[length - 1 - t if back else t] + b
                expected[t, b, d] = x[frame, 0 if shared else d]
    torch.testing.assert_close(buffer, expected, rtol=0, atol=0, equal_nan=True)
    assert torch.equal(unpack(buffer, rows), x.expand(-1, D, -1))

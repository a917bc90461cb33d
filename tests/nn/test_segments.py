"""Recurrences that begin anew in each segment, against a recurrent layer over each by itself."""

import pytest
import torch

from bayes_asr.base.errors import InputError
from bayes_asr.nn.frames import PackedFrames, pack, unpack
from bayes_asr.nn.segments import SegmentLayer
from tests.support.nn_layers import INPUTS

LENGTHS = (4, 11, 1, 7)  # in another order than they are packed


def layer(unit: str, bidirectional: bool, segment: int, shift: int) -> SegmentLayer:
    torch.manual_seed(5)
    built = SegmentLayer(
        INPUTS,
        0,
        unit=unit,
        units=3,
        bidirectional=bidirectional,
        norm="none",
        dropout=0.0,
        segment=segment,
        shift=shift,
    )
    return built.double()


@pytest.mark.parametrize(("segment", "shift"), [(4, 4), (5, 2), (3, 1), (20, 10)])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("unit", ["gru", "lstm", "li-bru"])
def test_each_segment_is_an_utterance(
    unit: str, bidirectional: bool, segment: int, shift: int
) -> None:
    net = layer(unit, bidirectional, segment, shift)
    sequences = [torch.randn(length, INPUTS, dtype=torch.float64) for length in LENGTHS]
    x, frames, order = pack(sequences)
    outputs = unpack(net(x, frames), frames.every(shift), order)
    for sequence, found in zip(sequences, outputs, strict=True):
        expected = []
        for begin in range(0, len(sequence), shift):
            part = sequence[begin : begin + segment]
            h = net.recurrent(part, PackedFrames((len(part),)))
            backwards = [h[0, 3:]] if bidirectional else []
            expected.append(torch.cat([h[-1, :3], *backwards]))
        torch.testing.assert_close(found, torch.stack(expected), rtol=0, atol=1e-12)


def test_frames_between_segments_are_refused() -> None:
    with pytest.raises(InputError, match="shift is 3 and segment 2: frames between segments"):
        layer("gru", False, 2, 3)

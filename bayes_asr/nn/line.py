"""The sequences of a packed batch one after the other, with zeros around each.

On such a line, what a frame and its neighbours have lies at fixed distances, so that a convolution
is a few large products. Beyond the ends of a sequence are zeros, as `torch.nn.Conv1d` pads.
"""

import torch
from torch import Tensor
from torch.nn.functional import pad

from bayes_asr.nn.frames import PackedFrames


def lay_out(
    x_NF: Tensor, frames: PackedFrames, before: int, after: int, stride: int = 1
) -> tuple[Tensor, Tensor | None]:
    """The line [L, F] on which window w, the rows w to w + before + after, surrounds one frame.

    Each frame has `before` rows in front of it and `after` behind it: those of its own sequence,
    or zeros. Returns the line, and which window of every `stride` surrounds each frame of
    `frames.every(stride)` [N'] in their packed order; None: the windows are those frames.
    """
    if len(frames.lengths) == 1:
        return pad(x_NF, (0, 0, before, after)) if before or after else x_NF, None
    lengths = torch.tensor(frames.lengths, dtype=torch.long, device=frames.device)
    slots = -(-(lengths + max(before, after)) // stride) * stride
    starts = slots.cumsum(0) - slots
    rows = max(int(slots.sum()), 1)  # a window of nothing where other processes have all sequences
    line = x_NF.new_zeros(rows + before + after, x_NF.shape[1])
    line = line.index_copy(0, before + starts[frames.sequence] + frames.time, x_NF)
    kept = frames.every(stride)
    return line, starts[kept.sequence] // stride + kept.time


def windows(line_LF: Tensor, taps: int, dilation: int, stride: int) -> Tensor:
    """Every `stride`th window of a line [W, taps*F]: rows 0, dilation, 2 dilation, ... of it."""
    reach = (taps - 1) * dilation
    length = line_LF.shape[0] - reach
    parts = [line_LF[k : k + length : stride] for k in range(0, reach + 1, dilation)]
    return parts[0] if taps == 1 else torch.cat(parts, 1)

"""The static form of a packed batch: buffers of few sizes, on which CUDA graphs can be replayed.

A batch of any lengths lies in the buffers of a bucket, of at least as many sequences and time
steps. Tensors are padded and time-major, and each direction is in its own order of time. `sizes`
says on the device how many sequences are alive at each step. What does not belong to the batch is
spare: it holds any numbers and changes nothing.

Legend: T, B time steps and sequences of a bucket; N, D, G, H as in `frames`; P coefficients.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from bayes_asr.nn.frames import PackedFrames

STEPS = 32  # time steps are rounded up to a multiple of this


class Shape(NamedTuple):
    """The sizes of a bucket, and the type of its terms and states h.

    sets: 1 where directions share their weights, else D.
    """

    T: int
    B: int
    D: int
    H: int
    sets: int
    dtype: torch.dtype
    device: torch.device


class Program(Protocol):
    """A computation of a recurrence on static buffers.

    Both ways neither allocate outside the pool of a CUDA graph nor read anything back from the
    device. A program is hashable; equal ones compute the same, and share their graphs.

    Buffers by their names, of the terms' type where no other is named; float: float32, or float64
    where the terms are float64:

    - read: `sizes` [T] int32, the number of sequences alive at each step, 0 at spare steps; `terms`
      [T, B, D, G*H]; `V` [sets, H, G*H], for units that have it; `mask` [B, D, H] float, ones where
      there is no dropout; `initial` [states, B, D, H] float; `coefficients` [sets, P, H] float,
      where P > 0. `forward` may overwrite the terms.
    - filled by `forward`: `h` [T, B, D, H], of which spare rows hold their state; for units that
      reset, `restored` [T, B, D, H], the factor of V for the last gate.
    - read by `backward`: `arriving` [T, B, D, H], the gradient of h; it may be overwritten.
    - filled by `backward`: `da` [T, B, D, G*H], the gradient of pre-activations, and `by_initial`
      [states, B, D, H] float, both 0 where spare; `by_coefficients` [B, D, P, H] float, summed
      over frames.

    `backward` finds what was read, `h`, `restored` and the buffers named in `saved` as `forward`
    left them, `terms` only where `saved` names them, and nothing else of an earlier call.
    """

    @property
    def saved(self) -> tuple[str, ...]:
        """The names of buffers that `forward` fills for `backward`."""

    def allocate(self, shape: Shape) -> dict[str, Tensor]:
        """Return empty buffers, also on the device `meta`."""

    def forward(self, buffers: dict[str, Tensor]) -> None:
        """Compute all states."""

    def backward(self, buffers: dict[str, Tensor]) -> None:
        """Compute all gradients but that of V."""


def round_up(sequences: int, steps: int) -> tuple[int, int]:
    """The sequences B and time steps T of the bucket of a batch."""
    # 1, 2, 4 or 8, then multiples of 8 and of 16: few sequences are long, and 8 would be large.
    multiple = min(1 << (sequences - 1).bit_length(), 8) if sequences <= 16 else 16
    return -(-sequences // multiple) * multiple, -(-steps // STEPS) * STEPS


def find_rows(frames: PackedFrames, backwards: Sequence[bool], B: int) -> Tensor:
    """The row [N*D] of each frame and direction among the T*B*D rows of a bucket."""
    # A direction that reads time backwards has frame t of L at step L - 1 - t.
    times = [frames.time[frames.reverse] if back else frames.time for back in backwards]
    rows = torch.stack([time * B + frames.sequence for time in times], 1) * len(times)
    return (rows + torch.arange(len(times), device=rows.device)).flatten()


def pack(x_NSX: Tensor, rows: Tensor, buffer: Tensor) -> None:
    """Write numbers of frames into a buffer [T, B, D, X]; S is D, or 1 where directions share."""
    x = x_NSX.expand(-1, buffer.shape[2], -1).flatten(0, 1)
    buffer.flatten(0, 2).index_copy_(0, rows, x.to(buffer.dtype))


def unpack(buffer: Tensor, rows: Tensor) -> Tensor:
    """Numbers of frames [N, D, X] out of a buffer [T, B, D, X]."""
    return buffer.flatten(0, 2).index_select(0, rows).unflatten(0, (-1, buffer.shape[2]))

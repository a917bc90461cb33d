"""Ragged batches without padding.

A batch of B sequences is sorted by decreasing length and its N = sum of lengths real frames are
stored one time step after the other, as in `torch.nn.utils.rnn.PackedSequence`: time step t holds
the frames of the first `sizes[t]` sequences. There is no padding, so nothing can
leak from it: losses, batch statistics and the backward direction see real frames only.

Legend: B batch, T time steps, N frames of a batch, F features, H hidden, G gates, D directions,
P pdfs.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

import torch
from torch import Tensor

CPU = torch.device("cpu")
WHOLE = 2**40
"""A stride that is longer than any sequence: of each there is one frame."""

END = 0
"""The label that ends a sequence; read as the label before the first one, it begins it."""


def describe_stride(stride: int) -> str:
    """A stride in words, as error messages have it."""
    return "one frame an utterance" if stride == WHOLE else f"one of {stride} frames"


@dataclass(frozen=True)
class PackedFrames:
    """The layout of a packed batch: which row holds which frame of which sequence.

    lengths: sequence lengths [B], decreasing, all positive; none where other processes have all
    sequences of a batch.
    device: where the index tensors live.
    """

    lengths: tuple[int, ...]
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))

    def __post_init__(self) -> None:
        if min(self.lengths, default=1) < 1:
            raise ValueError(f"every sequence needs at least one frame, got lengths {self.lengths}")
        if list(self.lengths) != sorted(self.lengths, reverse=True):
            raise ValueError(f"sequences must be sorted by decreasing length, got {self.lengths}")

    @property
    def count(self) -> int:
        """The number of frames, N."""
        return sum(self.lengths)

    @cached_property
    def sizes(self) -> list[int]:
        """The number of sequences alive at each time step [T], as `PackedSequence.batch_sizes`."""
        lengths = torch.tensor(self.lengths)
        steps = torch.arange(max(self.lengths, default=0))
        return (lengths[None, :] > steps[:, None]).sum(1).tolist()

    @cached_property
    def starts(self) -> list[int]:
        """Index of the first frame of each time step [T]."""
        return (torch.tensor(self.sizes).cumsum(0) - torch.tensor(self.sizes)).tolist()

    @cached_property
    def _time_and_sequence(self) -> tuple[Tensor, Tensor]:
        """Time step and sequence of every frame, two tensors [N]."""
        if len(self.lengths) == 1:  # a length that an exporter leaves open goes into no list
            return torch.arange(self.count), torch.zeros(self.count, dtype=torch.long)
        sizes, starts = (torch.tensor(n, dtype=torch.long) for n in (self.sizes, self.starts))
        # Time step t is `sizes[t]` rows, in which sequences have the same order at every step.
        time = torch.repeat_interleave(torch.arange(len(sizes)), sizes)
        return time, torch.arange(len(time)) - starts[time]

    @cached_property
    def time(self) -> Tensor:
        """The time step of each frame in its sequence [N]."""
        return self._time_and_sequence[0].to(self.device)

    @cached_property
    def sequence(self) -> Tensor:
        """The sequence to which each frame belongs [N]."""
        return self._time_and_sequence[1].to(self.device)

    @cached_property
    def _subsampled(self) -> "dict[int, PackedFrames]":
        return {}

    def every(self, stride: int) -> "PackedFrames":
        """The layout of the frames 0, stride, 2 stride, ... of each sequence, packed alone."""
        if stride == 1:
            return self
        if stride not in self._subsampled:
            lengths = tuple(-(-length // stride) for length in self.lengths)  # rounded up
            self._subsampled[stride] = PackedFrames(lengths, self.device)
        return self._subsampled[stride]

    def repeat(self, x_MX: Tensor, stride: int) -> Tensor:
        """Repeat the vector of each frame of `every(stride)` up to the next of them [N, X]."""
        if stride == 1:
            return x_MX
        # Frame t of a sequence reads the packed frame t // stride of the same sequence.
        if len(self.lengths) == 1:  # as above
            return x_MX.index_select(0, self.time // stride)
        starts = torch.tensor(self.every(stride).starts, dtype=torch.long, device=self.device)
        return x_MX.index_select(0, starts[self.time // stride] + self.sequence)

    def subsample(self, x_NX: Tensor, stride: int) -> Tensor:
        """The vectors of the frames of `every(stride)` [M, X], out of those of all frames."""
        return x_NX if stride == 1 else x_NX[self.time % stride == 0]

    @cached_property
    def reverse(self) -> Tensor:
        """Frame order of the time-reversed sequences [N]: frame t of L becomes L-1-t.

        It is its own inverse, and the reversed sequences have the same sizes and starts.
        """
        time, sequence = self._time_and_sequence
        if len(self.lengths) == 1:
            return time.flip(0).to(self.device)
        mirrored = torch.tensor(self.lengths)[sequence] - 1 - time
        return (torch.tensor(self.starts)[mirrored] + sequence).to(self.device)

    def order_directions(self, x_NSX: Tensor, backwards: Sequence[bool]) -> Tensor:
        """Give each direction its own order of time: [N, S, X] -> [N, D, X].

        backwards: for each direction, whether it reads time backwards; such a direction starts at
        the last real frame of each sequence. S is D, or 1 where the directions read the same. With
        S = D, applied twice it changes nothing.
        """
        sets = x_NSX.shape[1]
        if sets == len(backwards) and not any(backwards):
            return x_NSX
        forwards = torch.arange(self.count, device=self.device)
        orders = [self.reverse if back else forwards for back in backwards]
        # As rows [N*S, X], one gather serves all directions. Row S*n + d holds frame n of set d;
        # with one set, d % S is 0 for every direction.
        rows = torch.stack([sets * order + d % sets for d, order in enumerate(orders)], 1).flatten()
        return x_NSX.flatten(0, 1).index_select(0, rows).unflatten(0, (-1, len(backwards)))

    def blocks(self, frames: int) -> list[tuple[slice, slice]]:
        """Runs of time steps of about `frames` frames: slices of the steps and of their rows."""
        starts = [*self.starts, sum(self.lengths)]
        steps = max(1, frames // len(self.lengths))
        bounds = [*range(0, len(self.starts), steps), len(self.starts)]
        return [(slice(a, b), slice(starts[a], starts[b])) for a, b in pairwise(bounds)]

    @cached_property
    def previous(self) -> Tensor:
        """For every frame after the first time step, the index of the frame before it [N - B]."""
        time, sequence = self._time_and_sequence
        later = slice(self.sizes[0], None)  # the rows behind the first time step
        return (torch.tensor(self.starts)[time[later] - 1] + sequence[later]).to(self.device)


@dataclass(frozen=True)
class DecoderTargets:
    """The right labels of a batch, packed as frames are.

    labels_N: of each utterance its labels and END; steps: their layout; order: the position in the
    batch of each packed sequence [B]; forced_N: whether the step behind a label reads that label
    (teacher forcing, Williams & Zipser 1989) or the decoder's most probable one; None: always the
    label.
    """

    labels_N: Tensor
    steps: PackedFrames
    order: list[int]
    forced_N: Tensor | None = None


def pack(sequences: list[Tensor]) -> tuple[Tensor, PackedFrames, list[int]]:
    """Pack sequences [T_b, ...] of any order into one tensor [N, ...].

    Returns the packed frames, where they lie, and the order: `order[i]` is the position in
    `sequences` of packed sequence i.
    """
    order = sorted(range(len(sequences)), key=lambda i: -len(sequences[i]))
    packed = torch.nn.utils.rnn.pack_sequence([sequences[i] for i in order])
    lengths = tuple(len(sequences[i]) for i in order)
    return packed.data, PackedFrames(lengths, packed.data.device), order


def unpack(frames_NX: Tensor, frames: PackedFrames, order: list[int]) -> list[Tensor]:
    """Undo `pack`: the sequences [T_b, ...] in their original order."""
    by_sequence = torch.argsort(frames.sequence, stable=True)
    parts = frames_NX[by_sequence].split(list(frames.lengths))
    sequences: list[Tensor] = [parts[0]] * len(order)
    for part, position in zip(parts, order, strict=True):
        sequences[position] = part
    return sequences


def to_device(x: Tensor, device: torch.device) -> Tensor:
    """Copy to a GPU through pinned memory, asynchronously: it computes meanwhile."""
    return x if device == CPU else x.pin_memory().to(device, non_blocking=True)

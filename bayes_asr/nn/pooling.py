"""Pooling over time: the last state, the mean, or a mean by attention."""

import torch
from torch import Tensor, nn

from bayes_asr.base.errors import InputError
from bayes_asr.nn.frames import WHOLE, PackedFrames
from bayes_asr.nn.layer import Layer
from bayes_asr.nn.linear import Linear


class Pool(Layer):
    """One vector of an utterance, or of each segment of it, out of those of all frames there.

    of: `last`, the last frame; of both directions of a recurrent layer, each one's own last state:
    that of the direction backwards is at the first frame. `mean`. `attention`, the mean by weights
    that are learnt (Padi, Mohan and Ganapathy, ICASSP 2019):
    u_t = tanh(W h_t + b), a_t = exp(u_t . u_l) / sum_t exp(u_t . u_l), l = sum_t a_t h_t.

    segment: frames that are pooled into one; 0: all of the utterance. shift: frames from the
    beginning of a segment to that of the next. The last segments end with the utterance, so that
    there is one for every `shift` frames. units: size of u_t; directions: of what `last` reads.
    """

    looks_ahead = True

    def __init__(
        self,
        inputs: int,
        number: int,
        *,
        of: str,
        segment: int,
        shift: int,
        units: int,
        directions: int,
    ) -> None:
        super().__init__()
        if shift > segment > 0:
            raise InputError(
                f"shift is {shift} and segment {segment}: frames between segments would be read by"
                " none; make shift smaller"
            )
        if inputs % directions:
            raise InputError(
                f"reads {inputs} numbers, which are not those of {directions} directions; correct"
                " directions"
            )
        self.of, self.segment, self.outputs = of, segment, inputs
        self.directions = directions
        self.stride = shift if segment else WHOLE
        self.attends = of == "attention"
        if self.attends:
            self.W = Linear(inputs, units)
            self.u = nn.Parameter(torch.empty(units).uniform_(-1, 1) / units**0.5)

    def forward(self, x_NF: Tensor, frames: PackedFrames, keys_B: Tensor | None = None) -> Tensor:
        """Return one vector [M, F] for each of `frames.every(stride)`."""
        if self.of == "last":
            return self._take_last(x_NF, frames)
        rows, segments = self._members(frames)
        # Sums over many frames would lose bits in half precision.
        x = x_NF.to(torch.promote_types(x_NF.dtype, torch.float32))
        weights = self._weigh(x, frames, rows, segments)[:, None]
        sums = x.new_zeros(frames.every(self.stride).count, self.outputs)
        return sums.index_add(0, segments, weights * x.index_select(0, rows))

    def weigh(self, x_NF: Tensor, frames: PackedFrames) -> Tensor:
        """The weight of each frame in its utterance [N]: they add up to 1 in each.

        For pools over whole utterances, of mean or attention.
        """
        rows, segments = self._members(frames)
        return self._weigh(x_NF, frames, rows, segments)

    def _weigh(self, x_NF: Tensor, frames: PackedFrames, rows: Tensor, segments: Tensor) -> Tensor:
        """The weights of the frames `rows` in their `segments` [P], which add up to 1 in each."""
        count = frames.every(self.stride).count
        if not self.attends:
            counts = torch.bincount(segments, minlength=count).to(x_NF.dtype)
            return counts.reciprocal()[segments]
        u_NU = torch.tanh(self.W(x_NF)).to(x_NF.dtype)
        scores = (u_NU * self.u).sum(1).index_select(0, rows)
        # A softmax over each segment; its largest score is subtracted, so that none overflows.
        highest = scores.new_full((count,), -torch.inf)
        highest = highest.scatter_reduce(0, segments, scores.detach(), "amax")
        shares = torch.exp(scores - highest[segments])
        return shares / shares.new_zeros(count).index_add(0, segments, shares)[segments]

    def _members(self, frames: PackedFrames) -> tuple[Tensor, Tensor]:
        """Frames and the segment of each, as rows of packed batches, two tensors [P].

        A frame is there as often as there are segments that it is in.
        """
        pooled = frames.every(self.stride)
        starts = torch.tensor(pooled.starts, dtype=torch.long, device=frames.device)
        rows = torch.arange(frames.count, device=frames.device)
        # A frame at time t is in the newest segment that has begun, number t // shift, and in those
        # before it that have not ended: segment / shift, rounded up, are all that can have.
        newest = frames.time // self.stride
        members = []
        for age in range(-(-self.segment // self.stride) if self.segment else 1):
            segment = newest - age
            inside = segment >= 0
            if self.segment:
                inside &= frames.time < segment * self.stride + self.segment
            members.append((rows[inside], starts[segment[inside]] + frames.sequence[inside]))
        frame_rows, segment_rows = (torch.cat(parts) for parts in zip(*members, strict=True))
        return frame_rows, segment_rows

    def _take_last(self, x_NF: Tensor, frames: PackedFrames) -> Tensor:
        pooled = frames.every(self.stride)
        starts = torch.tensor(frames.starts, dtype=torch.long, device=frames.device)
        lengths = torch.tensor(frames.lengths, dtype=torch.long, device=frames.device)
        begin = pooled.time * self.stride  # 0 where all of the utterance is pooled
        end = lengths[pooled.sequence]
        last = torch.minimum(begin + self.segment, end) - 1 if self.segment else end - 1
        # The direction backwards has its last state where the segment begins.
        ends = (last, begin)[: self.directions]
        parts = x_NF.chunk(self.directions, 1)
        states = [
            part.index_select(0, starts[time] + pooled.sequence)
            for part, time in zip(parts, ends, strict=True)
        ]
        return torch.cat(states, 1)

"""A recurrence that begins anew in each segment of an utterance."""

from typing import ClassVar

import torch
from torch import Tensor

from bayes_asr.base.errors import InputError
from bayes_asr.nn.frames import PackedFrames
from bayes_asr.nn.layer import Layer
from bayes_asr.nn.pooling import Pool
from bayes_asr.nn.recurrent import RecurrentLayer


class SegmentLayer(Layer):
    """The last state of a recurrence over each segment (Padi, Mohan and Ganapathy, ICASSP 2019).

    segment: frames of a segment; shift: frames from its beginning to that of the next. The last
    segments end with the utterance, so that there is one for every `shift` frames. Of both
    directions, each one's own last state: that of the direction backwards is at the first frame.
    unit, units, bidirectional, norm, dropout: as of `RecurrentLayer`, whose other options are those
    of a plain network; a batch norm counts a frame as often as there are segments that it is in.
    """

    activation_prefixes: ClassVar = ("recurrent.cell.activation.",)
    looks_ahead = True
    unrolled = True
    exportable = False

    def __init__(
        self,
        inputs: int,
        number: int,
        *,
        unit: str,
        units: int,
        bidirectional: bool,
        norm: str,
        dropout: float,
        segment: int,
        shift: int,
    ) -> None:
        super().__init__()
        if shift > segment:
            raise InputError(
                f"shift is {shift} and segment {segment}: frames between segments would be read by"
                " none; make shift smaller"
            )
        self.recurrent = RecurrentLayer(
            inputs,
            number,
            units=units,
            unit=unit,
            options={},
            bidirectional=bidirectional,
            tied_directions=False,
            norm=norm,
            dropout=dropout,
            dropout_scaling="inverted",
            input_dropout=0.0,
            initial_state="fixed",
            hand_on="log",
            input_init="xavier",
        )
        self.outputs = self.recurrent.outputs
        self.segment, self.stride = segment, shift
        self.last = Pool(
            self.outputs,
            number,
            of="last",
            segment=0,
            shift=1,
            units=1,
            directions=self.recurrent.directions,
        )

    @property
    def compiled(self) -> bool:  # type: ignore[override]
        """Whether compiled code computes its recurrence."""
        return self.recurrent.compiled

    @property
    def dropout(self) -> float:
        """The probability to drop a candidate of its recurrence."""
        return self.recurrent.dropout

    @dropout.setter
    def dropout(self, dropout: float) -> None:
        self.recurrent.dropout = dropout

    @property
    def path(self) -> str:
        """The path of a GPU that computes its recurrence."""
        return self.recurrent.path

    @path.setter
    def path(self, path: str) -> None:
        self.recurrent.path = path

    def runs_on(self, path: str) -> bool:
        """Whether a path of a GPU has other code for its recurrence than the eager one."""
        return self.recurrent.runs_on(path)

    def forward(self, x_NF: Tensor, frames: PackedFrames, keys_B: Tensor | None = None) -> Tensor:
        """Return one vector [M, D*H] for each of `frames.every(stride)`."""
        segments = frames.every(self.stride)
        begin = segments.time * self.stride
        ends = torch.tensor(frames.lengths, dtype=torch.long, device=frames.device)
        lengths = (ends[segments.sequence] - begin).clamp(max=self.segment)
        # The segments are sequences of their own, the longest first: order[s] is the row of the
        # s-th of them among all segments.
        order = torch.argsort(lengths, descending=True, stable=True)
        inside = PackedFrames(tuple(lengths[order].tolist()), frames.device)
        starts = torch.tensor(frames.starts, dtype=torch.long, device=frames.device)
        owner = order[inside.sequence]
        rows = starts[begin[owner] + inside.time] + segments.sequence[owner]
        keys = None if keys_B is None else keys_B[segments.sequence[order]]
        h = self.recurrent(x_NF.index_select(0, rows), inside, keys)
        # The first `order` of what is sorted puts it back.
        return self.last(h, inside).index_select(0, torch.argsort(order))

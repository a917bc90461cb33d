"""Convolutions over time, and over time and frequency.

Beyond the first and the last frame of a sequence, and beyond the lowest and the highest frequency,
they read zeros, as torch's do with padding.

The sequences of a packed batch are laid out one after the other, with zeros around each. On such a
line, a frame and its neighbours lie at fixed distances, so that a convolution is a few large
products.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import max_pool2d, pad

from bayes_asr.base.errors import InputError
from bayes_asr.nn.dropout import drop, frame_keys
from bayes_asr.nn.frames import PackedFrames
from bayes_asr.nn.layer import Layer, State
from bayes_asr.nn.linear import Linear
from bayes_asr.nn.maps import Maps, apply_in_blocks
from bayes_asr.nn.norm import build_norm
from bayes_asr.nn.units.activations import build_activation


class WindowedLayer(Layer):
    """A layer that reads a window of frames around each frame.

    number: of the layer in its network. inputs: size of what it reads. taps: frames of a window,
    `dilation` frames apart. causal: the window ends with the frame itself, which is in its middle
    otherwise (of an even number of taps, one before the middle). stride: it computes the first
    frame of each sequence and every `stride`th after it.
    """

    def __init__(
        self, inputs: int, number: int, *, taps: int, dilation: int, stride: int, causal: bool
    ) -> None:
        super().__init__()
        self.inputs, self.number, self.stride = inputs, number, stride
        self.taps, self.dilation = taps, dilation
        reach = (taps - 1) * dilation  # frames of a window besides the frame itself
        self.left_context = reach if causal else reach // 2
        self.right_context = reach - self.left_context

    @property
    def looks_ahead(self) -> bool:  # type: ignore[override]
        """Whether it needs whole sequences: a stride would need to know where a chunk begins."""
        return self.right_context > 0 or self.stride > 1

    def convolve(self, line_LF: Tensor) -> Tensor:
        """The values of each window of a line [W, X]."""
        raise NotImplementedError

    def finish(self, y_NX: Tensor, keys_N: Tensor | None) -> Tensor:
        """Normalise, activate and drop values of the windows of frames."""
        raise NotImplementedError

    def forward(self, x_NF: Tensor, frames: PackedFrames, keys_B: Tensor | None = None) -> Tensor:
        """Return the outputs [N', outputs] of `frames.every(stride)`."""
        line, rows = lay_out(x_NF, frames, self.left_context, self.right_context, self.stride)
        y = self.convolve(line)
        y = y if rows is None else y.index_select(0, rows)
        keys = None if keys_B is None else frame_keys(keys_B, frames.every(self.stride))
        return self.finish(y, keys)

    def begin(self) -> State:
        """Return zeros in place of the frames before [1, left_context, inputs]; () for none."""
        like = next(self.parameters())
        return (like.new_zeros(1, self.left_context, self.inputs),) if self.left_context else ()

    def advance(self, x_TF: Tensor, frames: PackedFrames, state: State) -> tuple[Tensor, State]:
        """Outputs [T, outputs] of the next frames of one sequence, and the last frames of them."""
        state = state or self.begin()
        line = torch.cat((state[0].squeeze(0), x_TF)) if state else x_TF
        history = line[x_TF.shape[0] :]  # as many frames as there were
        return self.finish(self.convolve(line), None), (history.unsqueeze(0),) if state else ()


class Convolution1d(WindowedLayer):
    """f(norm(W [x_{t-l}, ..., x_{t+r}])): a convolution over time, as a layer of a TDNN.

    channels: outputs; kernel: frames that it reads, `dilation` frames apart; causal, stride: as of
    `WindowedLayer`. norm: `norm.build_norm`, or `none`, a bias; activation: `catalogue.FIXED`;
    dropout: probability that an output of a frame is dropped, the others are scaled up.
    """

    def __init__(
        self,
        inputs: int,
        number: int,
        *,
        channels: int,
        kernel: int,
        dilation: int,
        stride: int,
        causal: bool,
        norm: str,
        activation: str,
        dropout: float,
    ) -> None:
        super().__init__(
            inputs, number, taps=kernel, dilation=dilation, stride=stride, causal=causal
        )
        self.outputs, self.dropout = channels, dropout
        self.W = Linear(kernel * inputs, channels, bias=norm == "none")
        self.norm = build_norm(norm, 1, 1, channels)
        self.activation = build_activation(activation, channels, 1)

    @property
    def max_width(self) -> int:
        """Numbers of a frame with its neighbours, or behind the layer."""
        return max(self.outputs, self.W.in_features)

    def convolve(self, line_LF: Tensor) -> Tensor:
        """W applied to each window [W, channels]; its columns are those of each frame in turn."""
        return self.W(unfold(line_LF, self.taps, self.dilation, self.stride))

    def finish(self, y_NX: Tensor, keys_N: Tensor | None) -> Tensor:
        """Normalise, activate and drop."""
        return drop(self.activation(self.norm(y_NX)), keys_N, 2 * self.number, self.dropout)


class Convolution2d(WindowedLayer):
    """A convolution over time and frequency, then the largest of neighbouring frequencies.

    It reads maps [input_channels, frequencies] of each frame, the frequencies of the first channel
    first, and hands on maps [channels, Q], likewise. With one frame in its kernel it is a
    convolution over the vector of a frame, as pytorch-kaldi's `CNN`, whose order of pooling, norm,
    activation and dropout it has (`Maps`).

    kernel: frames and frequencies that it reads; dilation: of the frames; causal: as of
    `WindowedLayer`. stride: of frequencies; padding: zeros at either end of the frequencies;
    pooling: number of frequencies of which the largest is taken; those left over are not used.
    """

    def __init__(
        self,
        inputs: int,
        number: int,
        *,
        channels: int,
        input_channels: int,
        kernel: Sequence[int],
        dilation: int,
        stride: int,
        padding: int,
        pooling: int,
        causal: bool,
        norm: str,
        activation: str,
        dropout: float,
    ) -> None:
        taps, width = kernel
        super().__init__(inputs, number, taps=taps, dilation=dilation, stride=1, causal=causal)
        self.pooling, self.input_channels, self.dropout = pooling, input_channels, dropout
        if inputs % input_channels:
            raise InputError(
                f"reads {inputs} numbers, which are not input_channels = {input_channels} maps of"
                " one size; give input_channels what is read"
            )
        frequencies = inputs // input_channels
        computed = (frequencies + 2 * padding - width) // stride + 1  # as torch.nn.Conv2d
        if computed < pooling:
            raise InputError(
                f"reads {frequencies} frequencies, of which kernel {width}, stride {stride} and"
                f" padding {padding} leave {max(computed, 0)}, fewer than pooling = {pooling}; make"
                " them smaller, or the padding larger"
            )
        self.convolution = nn.Conv2d(
            input_channels,
            channels,
            (taps, width),
            (1, stride),
            (0, padding),
            (dilation, 1),
            bias=norm == "none",
        )
        self.maps = Maps(channels, computed // pooling, norm, activation, 2 * number)
        self.outputs = self.maps.size
        self.widest_map = channels * computed

    @property
    def max_width(self) -> int:
        """Numbers of a frame before pooling, or in front of the layer."""
        return max(self.widest_map, self.inputs)

    def convolve(self, line_LF: Tensor) -> Tensor:
        """The pooled maps of each window [W, channels*Q]."""
        return apply_in_blocks(
            self._pool, line_LF, self.left_context + self.right_context, self.max_width
        )

    def finish(self, y_NX: Tensor, keys_N: Tensor | None) -> Tensor:
        """Normalise, activate and drop."""
        return self.maps(y_NX, keys_N, self.dropout)

    def _pool(self, line_LF: Tensor) -> Tensor:
        # The line is one image [1, C, L, frequencies]: windows of frames are windows of its rows.
        maps = line_LF.unflatten(1, (self.input_channels, -1)).transpose(0, 1)
        pooled_CWQ = max_pool2d(self.convolution(maps.unsqueeze(0)), (1, self.pooling))[0]
        return pooled_CWQ.transpose(0, 1).flatten(1)


def lay_out(
    x_NF: Tensor, frames: PackedFrames, left_context: int, right_context: int, stride: int = 1
) -> tuple[Tensor, Tensor | None]:
    """The line [L, F] on which each frame has `left_context` rows in front of it and
    `right_context` behind it: those of its own sequence, or zeros.

    Window w, the rows from w to w + left_context + right_context, surrounds one frame. Returns the
    line, and which window of every `stride` surrounds each frame of `frames.every(stride)` [N'] in
    their packed order; None: the windows are those frames.
    """
    if len(frames.lengths) == 1:
        margins = (0, 0, left_context, right_context)
        return pad(x_NF, margins) if any(margins) else x_NF, None
    lengths = torch.tensor(frames.lengths, dtype=torch.long, device=frames.device)
    # Neighbouring sequences share the zeros between them: the larger of both margins is enough.
    # Rounded up to the stride, each slot begins at a window that `unfold` computes.
    slots = -(-(lengths + max(left_context, right_context)) // stride) * stride
    starts = slots.cumsum(0) - slots
    rows = max(int(slots.sum()), 1)  # a window of nothing where other processes have all sequences
    line = x_NF.new_zeros(rows + left_context + right_context, x_NF.shape[1])
    line = line.index_copy(0, left_context + starts[frames.sequence] + frames.time, x_NF)
    outputs = frames.every(stride)
    return line, starts[outputs.sequence] // stride + outputs.time


def unfold(line_LF: Tensor, taps: int, dilation: int, stride: int) -> Tensor:
    """Every `stride`th window of a line [W, taps*F]: rows 0, dilation, 2 dilation, ... of it."""
    reach = (taps - 1) * dilation
    length = line_LF.shape[0] - reach
    parts = [line_LF[k : k + length : stride] for k in range(0, reach + 1, dilation)]
    return parts[0] if taps == 1 else torch.cat(parts, 1)

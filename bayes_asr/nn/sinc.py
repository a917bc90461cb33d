"""SincNet: band-pass filters of a few parameters, on samples of sound (Ravanelli & Bengio 2018)."""

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import conv1d, max_pool1d

from bayes_asr.base.errors import InputError
from bayes_asr.nn.dropout import frame_keys
from bayes_asr.nn.frames import PackedFrames
from bayes_asr.nn.layer import Layer
from bayes_asr.nn.maps import Maps, apply_in_blocks

LOWEST = 30.0  # Hz: where the filters begin at first


class SincLayer(Layer):
    r"""Band-pass filters on the samples of each frame, then the largest of neighbouring values.

    g[n] = 2 f_2 sinc(2 \pi f_2 n) - 2 f_1 sinc(2 \pi f_1 n), equation 4, times a Hamming window, of
    which the largest value is 1, as pytorch-kaldi's `SincConv`. With the sample rate r,
    f_1 = min_low / r + |low| and f_2 = f_1 + min_band / r + |band| are trained; low and band begin
    as neighbours of equal width in mel from 30 Hz to r / 2 - min_low - min_band.

    It reads windows of samples [N, S], and hands on maps [channels, Q] of each, the values of the
    first filter first; beyond a window it reads nothing. channels: filters; kernel: their odd
    number of samples; sample_rate, min_low, min_band: in Hz; stride: samples from one value of a
    filter to the next; pooling: of how many values the largest is taken. The rest: `Maps`.
    """

    def __init__(
        self,
        inputs: int,
        number: int,
        *,
        channels: int,
        kernel: int,
        sample_rate: int,
        min_low: float,
        min_band: float,
        stride: int,
        pooling: int,
        norm: str,
        activation: str,
        dropout: float,
    ) -> None:
        super().__init__()
        self.kernel, self.sampling, self.pooling = kernel, stride, pooling
        self.dropout = dropout
        self.least = (min_low / sample_rate, min_band / sample_rate)
        computed = (inputs - kernel) // stride + 1
        if computed < pooling:
            raise InputError(
                f"reads {inputs} samples, of which kernel {kernel} and stride {stride} leave"
                f" {max(computed, 0)} values, fewer than pooling = {pooling}; it reads windows of"
                " sound, one for each frame"
            )
        edges = _space_by_mel(LOWEST, sample_rate / 2 - min_low - min_band, channels + 1)
        self.low = nn.Parameter((edges[:-1] / sample_rate).float())
        self.band = nn.Parameter((edges.diff() / sample_rate).float())
        self.maps = Maps(channels, computed // pooling, norm, activation, 2 * number)
        self.outputs = self.maps.size
        self.widest_map = channels * computed

    @property
    def max_width(self) -> int:
        """Numbers of a frame before pooling."""
        return self.widest_map

    def forward(self, x_NF: Tensor, frames: PackedFrames, keys_B: Tensor | None = None) -> Tensor:
        """Return the outputs [N, channels*Q] for windows of samples [N, S]."""
        filters = self.filters().unsqueeze(1)

        def pool(x: Tensor) -> Tensor:
            filtered = conv1d(x.unsqueeze(1), filters, stride=self.sampling)
            return max_pool1d(filtered, self.pooling).flatten(1)

        keys = None if keys_B is None else frame_keys(keys_B, frames)
        if not frames.lengths:  # torch pools no empty batches; the norm waits for other processes
            return self.maps(pool(x_NF.new_zeros(1, x_NF.shape[1]))[:0], keys, self.dropout)
        return self.maps(apply_in_blocks(pool, x_NF, 0, self.max_width), keys, self.dropout)

    def filters(self) -> Tensor:
        """The filters [channels, kernel]."""
        low = self.least[0] + self.low.abs()
        high = low + self.least[1] + self.band.abs()
        half = self.kernel // 2
        n = torch.arange(1, half + 1, dtype=low.dtype, device=low.device)
        # 2 f sinc(2 pi f n) = sin(2 pi f n) / (pi n), and 2 f at n = 0, where g is largest
        largest = 2 * (high - low)[:, None]
        right = [torch.sin(2 * math.pi * f[:, None] * n) / (math.pi * n) for f in (low, high)]
        side = (right[1] - right[0]) / largest
        # Filters are symmetric: the right side, mirrored, is the left one.
        impulse = torch.cat((side.flip(1), torch.ones_like(largest), side), 1)
        steps = torch.arange(-half, half + 1, dtype=low.dtype, device=low.device)
        return impulse * (0.54 + 0.46 * torch.cos(math.pi * steps / max(half, 1)))


def _space_by_mel(low: float, high: float, count: int) -> Tensor:
    """Frequencies of equal distances in mel, both ends included [count], float64."""
    # mel = 2595 log10(1 + Hz / 700), as pytorch-kaldi
    low_mel, high_mel = (2595 * math.log10(1 + hz / 700) for hz in (low, high))
    mel = torch.linspace(low_mel, high_mel, count, dtype=torch.float64)
    return 700 * (10 ** (mel / 2595) - 1)

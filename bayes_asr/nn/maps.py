"""Common parts of convolutional layers with maps [channels, frequencies] of each frame."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from bayes_asr.base.errors import InputError
from bayes_asr.nn.dropout import drop
from bayes_asr.nn.linear import is_exporting
from bayes_asr.nn.norm import LAYER_NORMS, MOMENTUM, BatchNorm
from bayes_asr.nn.units.activations import build_activation

BLOCK = 2**24  # numbers of a block that need not be stored for a backward pass


class Maps(nn.Module):
    """Norm, activation and dropout of maps [N, channels*Q], the frequencies of a channel together.

    norm: `batch` of each channel over frames and frequencies, with one scale and shift a channel;
    `layer` (`norm.LAYER_NORMS`) of each channel of a frame over its frequencies, with one scale
    and shift for each number, as pytorch-kaldi; `none`. stream: see `keep_mask`.
    """

    def __init__(
        self,
        channels: int,
        frequencies: int,
        norm: str,
        activation: str,
        stream: int,
    ) -> None:
        super().__init__()
        self.channels, self.stream = channels, stream
        self.size = channels * frequencies
        self.by_channel = norm == "batch"
        if norm in LAYER_NORMS and frequencies == 1:
            raise InputError(
                f"norm is {norm}, which is over the frequencies of a channel, but pooling leaves 1;"
                " use batch or none"
            )
        self.norm: nn.Module = nn.Identity()
        if norm in LAYER_NORMS:
            self.norm = LAYER_NORMS[norm](channels, frequencies)
        elif self.by_channel:
            self.norm = BatchNorm(channels, momentum=MOMENTUM)
        self.activation = build_activation(activation, self.size, 1)

    def forward(self, y_NX: Tensor, keys_N: Tensor | None, dropout: float) -> Tensor:
        """Return the outputs [N, channels*Q]; keys_N, dropout: see `drop`."""
        y = self._normalise_channels(y_NX) if self.by_channel else self.norm(y_NX)
        return drop(self.activation(y), keys_N, self.stream, dropout)

    def _normalise_channels(self, y_NX: Tensor) -> Tensor:
        # BatchNorm reads channels last: each frequency of a frame counts as a row.
        y_NQC = y_NX.unflatten(1, (self.channels, -1)).transpose(1, 2)
        normalised = self.norm(y_NQC.flatten(0, 1)).unflatten(0, y_NQC.shape[:2])
        return normalised.transpose(1, 2).flatten(1)


def apply_in_blocks(
    compute: Callable[[Tensor], Tensor], line_LF: Tensor, reach: int, width: int
) -> Tensor:
    """Apply `compute` to a line of windows of 1 + reach rows [W, X].

    Without a backward pass, it is computed a block at a time: the `width` numbers that it needs for
    each window are not stored for all of them at once.
    """
    exporting = is_exporting() or torch.jit.is_tracing()  # type: ignore[attr-defined]
    if exporting or torch.is_grad_enabled():
        return compute(line_LF)
    step, rows = max(1, BLOCK // width), len(line_LF) - reach
    # Neighbouring blocks share `reach` rows, so that every window lies in one of them.
    blocks = [line_LF[a : min(a + step, rows) + reach] for a in range(0, rows, step)]
    return torch.cat([compute(block) for block in blocks])

"""SpecAugment: spans of time and of frequency that a network does not see (Park et al. 2019).

Time warping, the third part of the paper, is left out: it gave least there, and `train.tempo`
changes the tempo.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

STREAM = 1  # keeps the spans apart from what else an utterance's key draws


@dataclass(frozen=True)
class Masks:
    """How many spans of an utterance are masked, and how wide they are.

    time_width: most frames of one; time_share: most frames, as a share of the utterance (p of the
    paper); frequency_width: most neighbouring features; frequency_streams: streams that have such
    spans, or all. Widths are uniform from 0 to these, places uniform over those where the span
    fits.
    """

    time_masks: int
    time_width: int
    time_share: float
    frequency_masks: int
    frequency_width: int
    frequency_streams: tuple[str, ...] = ()

    def __call__(
        self, matrices: Sequence[np.ndarray], bands: Mapping[str, int], key: int
    ) -> list[np.ndarray]:
        """Set the spans to 0, the mean of normalised features; depends on `key` only.

        matrices: the features [T, F] of an utterance in each stream. Spans of time are the same in
        all of them. bands: features of a frame in each stream, by its name, before deltas and
        context repeat them; a span of frequency is masked in every repetition, by streams apart.
        """
        rng = np.random.default_rng((key % 2**64, STREAM))
        frames = len(matrices[0])
        widest = min(self.time_width, int(self.time_share * frames))
        hidden = _draw_spans(rng, self.time_masks, widest, frames)
        changed = []
        for matrix, (stream, size) in zip(matrices, bands.items(), strict=True):
            masked = matrix.copy()
            masked[hidden] = 0
            if not self.frequency_streams or stream in self.frequency_streams:
                widest = min(self.frequency_width, size)
                bands_hidden = _draw_spans(rng, self.frequency_masks, widest, size)
                masked[:, np.resize(bands_hidden, matrix.shape[1])] = 0
            changed.append(masked)
        return changed


def _draw_spans(rng: np.random.Generator, count: int, widest: int, size: int) -> np.ndarray:
    """Which of `size` places are in one of `count` spans, bool [size]."""
    hidden = np.zeros(size, bool)
    for _ in range(count):
        width = rng.integers(widest + 1)
        begin = rng.integers(size - width + 1)
        hidden[begin : begin + width] = True
    return hidden

"""Changes of training features that are drawn anew in every epoch.

`perturb` changes tempo and adds noise. `Masks` is SpecAugment: spans of time and of frequency that
a network does not see (Park et al. 2019). Time warping, the third part of that paper, is left out:
it gave least there, and `train.tempo` changes the tempo.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

STREAM = 1  # keeps the spans apart from what else an utterance's key draws


@dataclass(frozen=True)
class Masks:
    """Numbers and widths of the spans of an utterance that are masked.

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
        # A generator takes no negative seed, and keys are signed.
        rng = np.random.default_rng((key % 2**64, STREAM))
        frames = len(matrices[0])
        widest = min(self.time_width, int(self.time_share * frames))
        hidden = _draw_spans(rng, self.time_masks, widest, frames)
        changed = []
        for matrix, (stream, size) in zip(matrices, bands.items(), strict=True):
            masked = matrix.copy()
            masked[hidden] = 0
            if not self.frequency_streams or stream in self.frequency_streams:
                # A stream may have fewer bands than the widest span.
                widest = min(self.frequency_width, size)
                bands_hidden = _draw_spans(rng, self.frequency_masks, widest, size)
                # np.resize repeats the mask of one frame over its deltas and its context.
                masked[:, np.resize(bands_hidden, matrix.shape[1])] = 0
            changed.append(masked)
        return changed


def _draw_spans(rng: np.random.Generator, count: int, widest: int, size: int) -> np.ndarray:
    """A mask of the places that lie in one of `count` random spans, bool [size]."""
    hidden = np.zeros(size, bool)
    for _ in range(count):
        width = rng.integers(widest + 1)
        begin = rng.integers(size - width + 1)
        hidden[begin : begin + width] = True
    return hidden


def perturb(
    matrices: Sequence[np.ndarray], key: int, *, noise: float, tempo: float
) -> tuple[list[np.ndarray], np.ndarray]:
    """Change the tempo of an utterance and add noise to it; depends on `key` only.

    matrices: its features [T, F] in each stream, whose frames stay together.
    tempo: the utterance becomes faster or slower by a factor drawn from 1 - tempo to 1 + tempo
    (as speed perturbation, Ko et al. 2015, but of features: values between frames are linear).
    noise: standard deviation of Gaussian noise on every value.
    Returns features [T', F] and, for each of their frames, the nearest frame before [T'].
    """
    rng = np.random.default_rng(key % 2**64)
    frames = len(matrices[0])
    # Times of the new frames, in old frames; a step above 1 is faster speech.
    # The margin of half a frame keeps rounding from adding a frame at the end.
    source = np.arange(0, frames - 0.5, 1 + rng.uniform(-tempo, tempo)).clip(0, frames - 1)
    changed = [_resample(matrix, source) if tempo else matrix for matrix in matrices]
    if noise:
        changed = [x + noise * rng.standard_normal(x.shape, dtype=np.float32) for x in changed]
    return changed, np.rint(source).astype(np.intp)


def _resample(matrix: np.ndarray, source: np.ndarray) -> np.ndarray:
    """The values [T', F] of features [T, F] at places between frames [T']."""
    lower = source.astype(np.intp)
    # The share of the upper neighbour in a linear interpolation.
    share = (source - lower)[:, None].astype(np.float32)
    upper = np.minimum(lower + 1, len(matrix) - 1)
    return (1 - share) * matrix[lower] + share * matrix[upper]

"""How much the frames of an utterance weigh, over time, above their features."""

from collections.abc import Sequence

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bayes_asr.base.errors import printable

mpl.rcParams["svg.hashsalt"] = "bayes_asr"  # the same figure is the same file
FRAMES_PER_SECOND = 100


def draw_attention(utt: str, features_TF: np.ndarray, weights_T: np.ndarray) -> Figure:
    """The weights of frames, in multiples of equal ones, above the features as a picture.

    Features of filter banks are a spectrogram. Frames are taken for 10 ms.
    """
    figure = Figure(figsize=(9, 4), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(1, 2))
    T = len(weights_T)
    time = np.arange(T) / FRAMES_PER_SECOND
    # Weights sum to 1, so T times a weight is 1 where attention is even.
    above.fill_between(time, T * weights_T, step="post", color="#4477aa")
    above.axhline(1, color="black", linewidth=0.7, linestyle=":")
    above.set_ylabel("weight / mean")
    above.set_ylim(bottom=0)
    above.set_title(printable(utt), fontsize=10)
    _draw_features(below, features_TF)
    return figure


def draw_alignment(
    utt: str, features_TF: np.ndarray, labels: Sequence[str], weights_LM: np.ndarray
) -> Figure:
    """The weights of the frames for each label and, last, for the end, above the features.

    weights_LM: of the M frames that a decoder looks at, which are T or fewer.
    """
    figure = Figure(figsize=(9, 2.5 + 0.16 * len(weights_LM)), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(0.16 * len(weights_LM), 2.0))
    L, M = weights_LM.shape
    # Division rounded up: the last frame of the decoder may stand for fewer.
    stride = -(-len(features_TF) // M)
    above.imshow(
        weights_LM,
        aspect="auto",
        cmap="Blues",
        vmin=0,
        interpolation="nearest",
        # The figure is placed in seconds, so both panels share the axis of time.
        extent=(0, M * stride / FRAMES_PER_SECOND, L, 0),
    )
    above.set_yticks(np.arange(L) + 0.5, [*map(printable, labels), "end"], fontsize=8)
    above.set_title(printable(utt), fontsize=10)
    _draw_features(below, features_TF)
    return figure


def _draw_features(axes: Axes, features_TF: np.ndarray) -> None:
    T, F = features_TF.shape
    axes.imshow(
        features_TF.T,
        origin="lower",
        aspect="auto",
        cmap="magma",
        extent=(0, T / FRAMES_PER_SECOND, 0, F),
    )
    axes.set_xlabel("time / s")
    axes.set_ylabel("feature")

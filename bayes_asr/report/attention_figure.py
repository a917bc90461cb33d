"""How much the frames of an utterance weigh, over time, above their features."""

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from bayes_asr.errors import printable

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
    above.fill_between(time, T * weights_T, step="post", color="#4477aa")
    above.axhline(1, color="black", linewidth=0.7, linestyle=":")
    above.set_ylabel("weight / mean")
    above.set_ylim(bottom=0)
    above.set_title(printable(utt), fontsize=10)
    below.imshow(
        features_TF.T,
        origin="lower",
        aspect="auto",
        cmap="magma",
        extent=(0, T / FRAMES_PER_SECOND, 0, features_TF.shape[1]),
    )
    below.set_xlabel("time / s")
    below.set_ylabel("feature")
    return figure

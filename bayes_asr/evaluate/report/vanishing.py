"""A picture of how far back the losses of networks reach, beside the sigmoid's derivative."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from bayes_asr.base.errors import printable


def draw_gradients(log_norms: Mapping[str, Sequence[float]]) -> Figure:
    """Norms [lags] of gradients, as shares of that at lag 0, by what a line is called.

    Right, the derivative of the sigmoid, whose product over many frames vanishes: at most 1/4.
    """
    figure = Figure(figsize=(9, 4), layout="constrained")
    norms, derivative = figure.subplots(1, 2, width_ratios=(3, 1))
    for i, (name, logs) in enumerate(log_norms.items()):
        style = ("-", "--", ":")[i // 10 % 3]  # there are ten colours
        # Differences of logarithms are ratios to the norm at the loss.
        norms.semilogy(np.exp(np.subtract(logs, logs[0])), style, label=printable(name))
    norms.axhline(1, color="grey", linewidth=0.5)
    norms.set_xlabel("frames between the state and the loss")
    norms.set_ylabel("norm of the gradient, relative")
    norms.legend(fontsize=8)
    a = np.linspace(-6, 6, 121)
    sigmoid = 1 / (1 + np.exp(-a))
    derivative.plot(a, sigmoid, color="grey", label="sigmoid")
    derivative.plot(a, sigmoid * (1 - sigmoid), label="its derivative")
    # The derivative of a sigmoid is at most 1/4, at 0.
    derivative.axhline(0.25, color="grey", linewidth=0.5)
    derivative.set_xlabel("pre-activation")
    derivative.legend(fontsize=8)
    for axes in (norms, derivative):
        axes.spines[["top", "right"]].set_visible(False)
    return figure

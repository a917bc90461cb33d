"""Calibration of posteriors: whether labels of probability p are right in a share p of cases.

Guo, Pleiss, Sun & Weinberger, *On Calibration of Modern Neural Networks*, ICML 2017.
"""

from typing import NamedTuple

import numpy as np
import scipy  # which imports its parts as they are used

BINS = 15
LOG_TEMPERATURES = (-3.0, 3.0)  # between which the best one is looked for


class Predictions(NamedTuple):
    """The labels decided for: their posteriors, confidences [N], and whether they are right [N]."""

    confidences: np.ndarray
    right: np.ndarray


def decide(
    log_posteriors_NC: np.ndarray, labels_N: np.ndarray, temperature: float = 1.0
) -> Predictions:
    """The most probable labels, of posteriors to the power of 1 / temperature, normalised."""
    cooled = scipy.special.log_softmax(log_posteriors_NC / temperature, axis=1)
    return Predictions(np.exp(cooled.max(axis=1)), cooled.argmax(axis=1) == labels_N)


def calibration_error(decisions: Predictions, bins: int = BINS) -> float:
    """The expected calibration error: the mean over cases of |share that is right - mean
    confidence| of their bin, of `bins` of equal width.
    """
    # A confidence of 1 is in the last bin.
    places = np.minimum((decisions.confidences * bins).astype(int), bins - 1)
    excess = decisions.confidences - decisions.right
    return float(np.abs(np.bincount(places, excess, bins)).sum() / len(excess))


def fit_temperature(log_posteriors_NC: np.ndarray, labels_N: np.ndarray) -> float:
    """Temperature at which the labels are most probable: above 1 where a network is too sure."""

    def loss(log_temperature: float) -> float:
        cooled = scipy.special.log_softmax(log_posteriors_NC * np.exp(-log_temperature), axis=1)
        return -float(np.take_along_axis(cooled, labels_N[:, None], axis=1).mean())

    # The loss is convex in 1 / T, so that it has one minimum in log T.
    return float(
        np.exp(scipy.optimize.minimize_scalar(loss, bounds=LOG_TEMPERATURES, method="bounded").x)
    )

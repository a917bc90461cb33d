"""Perceptual linear prediction (Hermansky 1990) out of mel energies, as Kaldi computes it."""

import numpy as np

from bayes_asr.base import elementary

LPC_ORDER = 12
COMPRESSION = 0.33333  # the power that makes loudness of energy
LIFTER = 22
LOWEST = 20.0  # Hz, where the first mel band begins
LEAST_SHARE = 1e-5  # of the energy, that a step of the recursion leaves
FLOAT_MIN = np.finfo(np.float32).tiny


def perceptual_cepstra(energies: np.ndarray, rate: int, count: int) -> np.ndarray:
    """The first `count` cepstra, the zeroth from the residual energy, float32 [T, count].

    energies: of the mel bands, [T, bands]; rate: Hz of the sound.
    """
    weighted = energies * equal_loudness(energies.shape[1], rate)
    loudness = elementary.power(weighted, COMPRESSION)
    # The spectrum is made to reach 0 and half the rate by its outermost bands.
    loudness = np.pad(loudness, ((0, 0), (1, 1)), "edge")
    bases = autocorrelation_bases(loudness.shape[1])
    # The order of the sum is that of the bands, whatever the processor.
    autocorrelation = np.zeros((len(energies), LPC_ORDER + 1))
    for band, basis in enumerate(bases.T):
        autocorrelation += loudness[:, band, None] * basis
    coefficients, residual = predict_linearly(autocorrelation)
    cepstra = np.zeros((len(energies), count))
    cepstra[:, 0] = np.maximum(elementary.log(np.maximum(residual, FLOAT_MIN)), FLOAT_MIN)
    # c_n = -a_n - sum over k < n of (n - k) / n a_k c_(n-k)
    for n in range(1, count):
        sums = sum((n - k) * coefficients[:, k - 1] * cepstra[:, n - k] for k in range(1, n))
        cepstra[:, n] = -coefficients[:, n - 1] - sums / n
    lifter = 1 + LIFTER / 2 * elementary.cos(np.pi * (np.arange(count) / LIFTER - 0.5))
    return (cepstra * lifter).astype(np.float32)


def equal_loudness(bands: int, rate: int) -> np.ndarray:
    """The weight of each band by the sensitivity of the ear, [bands]."""
    low, high = 1127 * elementary.log(1 + np.array([LOWEST, rate / 2]) / 700)
    centres = low + (high - low) * np.arange(1, bands + 1) / (bands + 1)
    squares = (700 * (elementary.exp(centres / 1127) - 1)) ** 2
    return (squares / (squares + 1.6e5)) ** 2 * (squares + 1.44e6) / (squares + 9.61e6)


def autocorrelation_bases(points: int) -> np.ndarray:
    """The inverse Fourier transform of an even spectrum, [LPC_ORDER + 1, points]."""
    lags, places = np.arange(LPC_ORDER + 1), np.arange(points)
    bases = elementary.cos(np.pi / (points - 1) * np.outer(lags, places)) / (points - 1)
    bases[:, [0, -1]] /= 2  # the other points stand for a negative frequency too
    return bases


def predict_linearly(autocorrelation: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Levinson's and Durbin's recursion: coefficients [T, order] of 1 + sum a_n z^-n, and what
    energy they leave, [T].

    autocorrelation: [T, order + 1].
    """
    energy = autocorrelation[:, 0].copy()
    coefficients = np.zeros((len(energy), autocorrelation.shape[1] - 1))
    with np.errstate(divide="ignore", invalid="ignore"):
        for n in range(coefficients.shape[1]):
            former = coefficients[:, :n].copy()
            products = (former * autocorrelation[:, n:0:-1]).sum(axis=1)
            reflection = (autocorrelation[:, n + 1] + products) / energy
            coefficients[:, :n] -= reflection[:, None] * former[:, ::-1]
            coefficients[:, n] = -reflection
            energy *= np.maximum(1 - reflection**2, LEAST_SHARE)
    return coefficients, energy

"""Weighted sums of outer products: a symmetric matrix for each dimension, by matrix products."""

import numpy as np

from bayes_asr.gmm.products import multiply

CHUNK = 128  # frames whose products lie in the cache together


def pack_size(dim: int) -> int:
    """Values of the upper triangle of a matrix [D, D]."""
    return dim * (dim + 1) // 2


def sum_scatters(weights: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The sums over frames of w[t, j] x[t] x[t]', upper triangles [J, D (D + 1) / 2] in float64.

    weights: [T, J]; x: [T, D]. Takes memory for a few frames.
    """
    rows, columns = np.triu_indices(x.shape[1])
    sums = np.zeros((weights.shape[1], len(rows)))
    for begin in range(0, len(x), CHUNK):
        part = x[begin : begin + CHUNK].astype(np.float64)
        products = part[:, rows] * part[:, columns]
        sums += multiply(weights[begin : begin + CHUNK].T, products)
    return sums


def unpack(packed: np.ndarray, dim: int) -> np.ndarray:
    """The symmetric matrices [J, D, D] of upper triangles [J, D (D + 1) / 2]."""
    rows, columns = np.triu_indices(dim)
    matrices = np.empty((len(packed), dim, dim))
    matrices[:, rows, columns] = matrices[:, columns, rows] = packed
    return matrices

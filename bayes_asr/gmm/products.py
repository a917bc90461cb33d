"""Products of matrices, and logarithms, to the same bits on every processor.

A BLAS adds in an order that depends on the processor, and so its results do. Here each sum is made
in the order of its terms, and each product and sum is rounded to float64.
"""

import numpy as np

from bayes_asr.base import elementary
from bayes_asr.gmm import compiled


def multiply(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The product float64 [M, N] of a [M, K] and b [K, N], by C++ where that is built."""
    a, b = (x if x.dtype == np.float32 else np.asarray(x, np.float64) for x in (a, b))
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0]:
        raise ValueError(f"no product of {list(a.shape)} and {list(b.shape)}")
    return compiled.multiply(a, b) if compiled.LIBRARY.usable else multiply_in_numpy(a, b)


def multiply_in_numpy(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The NumPy version of `multiply`, which defines its result to the bit."""
    # Outer products in the order of K: NumPy rounds each product, then each sum, to float64.
    total = np.zeros((len(a), b.shape[1]))
    for column, row in zip(a.T.astype(np.float64), b.astype(np.float64), strict=True):
        total += column[:, None] * row
    return total


def log(x: np.ndarray) -> np.ndarray:
    """Natural logarithms float64 [...] of positive, normal x [...], by C++ where that is built."""
    return compiled.log(x) if compiled.LIBRARY.usable else elementary.log(x)

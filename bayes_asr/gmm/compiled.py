"""The C++ twin of products, likelihoods of mixtures and linear algebra."""

import ctypes as c
from pathlib import Path

import numpy as np

from bayes_asr.base.shared_library import P, SharedLibrary


class MatrixView(c.Structure):
    """The struct of this name in gmm.h: a matrix of either precision, in any order."""

    _fields_ = (
        ("data", P),
        ("row", c.c_int64),
        ("column", c.c_int64),
        ("is_single", c.c_int64),
    )

    @classmethod
    def of_array(cls, x: np.ndarray) -> "MatrixView":
        """The view of an array x [M, N], float32 or float64."""
        return cls(x.ctypes.data, *x.strides, x.dtype == np.float32)


LIBRARY = SharedLibrary(
    Path(__file__).with_name("_gmm.so"),
    "gmm",
    (MatrixView,),
    {
        "take_path": (c.c_int64, [c.c_int64]),
        "multiply": (c.c_int32, [c.c_int64, c.c_int64, c.c_int64, P, P, P]),
        "score": (c.c_int32, [c.c_int64, c.c_int64, P, c.c_int64, P, P, P, P]),
        "log": (None, [c.c_int64, P, P]),
        "eliminate": (None, [c.c_int64, c.c_int64, c.c_int64, P, P]),
        "update_rows": (c.c_int32, [c.c_int64, c.c_int64, c.c_double, P, P, P, c.c_int64, P]),
        "refine": (
            c.c_int32,
            [c.c_int64, c.c_int64, c.c_double, c.c_double, c.c_int64, P, P, P, P],
        ),
    },
)


def multiply(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The C++ version of `linear_algebra.multiply`."""
    (rows, depth), columns = a.shape, b.shape[1]
    product = np.empty((rows, columns))
    # Strides travel along, so that transposed matrices need no copy.
    views = c.byref(MatrixView.of_array(a)), c.byref(MatrixView.of_array(b))
    task = f"a product of {rows} x {depth} x {columns}"
    LIBRARY.run("multiply", task, rows, columns, depth, *views, product.ctypes.data)
    return product


def score(
    x: np.ndarray, offsets: np.ndarray, slopes: np.ndarray, posteriors: np.ndarray | None = None
) -> np.ndarray:
    """The C++ version of `likelihood.score`, which also fills `posteriors` float32 [T, G]."""
    x, slopes = np.ascontiguousarray(x, np.float32), np.ascontiguousarray(slopes, np.float64)
    offsets = np.ascontiguousarray(offsets, np.int64)
    (frames, depth), pdfs = x.shape, len(offsets) - 1
    scores = np.empty((frames, pdfs), np.float32)
    inputs = frames, depth, x.ctypes.data, pdfs, offsets.ctypes.data, slopes.ctypes.data
    outputs = scores.ctypes.data, None if posteriors is None else posteriors.ctypes.data
    LIBRARY.run("score", f"the likelihoods of {frames} frames", *inputs, *outputs)
    return scores


def log(x: np.ndarray) -> np.ndarray:
    """The C++ version of `linear_algebra.log`."""
    x = np.ascontiguousarray(x, np.float64)
    logs = np.empty(x.shape)
    LIBRARY.call("log", x.size, x.ctypes.data, logs.ctypes.data)
    return logs


def eliminate(work: np.ndarray) -> np.ndarray:
    """The C++ version of `linear_algebra.eliminate`."""
    pivots = np.empty(work.shape[:2])
    LIBRARY.call("eliminate", *work.shape, work.ctypes.data, pivots.ctypes.data)
    return pivots


def update_rows(
    count: float,
    inverses: np.ndarray,
    offsets: np.ndarray | None,
    linear: np.ndarray | None,
    iterations: int,
) -> np.ndarray:
    """The C++ version of `row_updates.update_rows_in_numpy`."""
    dim, width = inverses.shape[:2]
    transform = np.eye(dim, width)
    arrays = [None if x is None else np.ascontiguousarray(x) for x in (inverses, offsets, linear)]
    status = LIBRARY.call(
        "update_rows",
        dim,
        width,
        count,
        *(None if x is None else x.ctypes.data for x in arrays),
        iterations,
        transform.ctypes.data,
    )
    # Negative: out of memory; positive: a singular matrix, as in the NumPy version.
    if status < 0:
        raise MemoryError(f"a transform [{dim}, {width}] ran out of memory")
    if status > 0:
        raise np.linalg.LinAlgError("singular matrix")
    return transform


def refine(
    points: np.ndarray,
    clusters: np.ndarray,
    assigned: np.ndarray,
    floor: float,
    constant: float,
    rounds: int,
) -> np.float32:
    """The C++ version of `clusterable.refine_in_numpy`, given the constants of `objective`."""
    (count, width), gain = points.shape, np.zeros(1, np.float32)
    inputs = count, width // 2, floor, constant, rounds, points.ctypes.data
    outputs = clusters.ctypes.data, assigned.ctypes.data, gain.ctypes.data
    LIBRARY.run("refine", f"two clusters of {count} points", *inputs, *outputs)
    return gain[0]

"""Linear and affine transforms of features: [D, F] without an offset, [D, F+1] with one."""

import numpy as np

from bayes_asr.base.errors import InputError
from bayes_asr.gmm.products import multiply


def apply_transform(matrix: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Features [T, F] mapped by `matrix` to float32 [T, D], as Kaldi's transform-feats.

    The last column of a matrix [D, F+1] is added to each frame. ValueError for any other shape.
    """
    size = x.shape[1]
    if matrix.shape[1] not in (size, size + 1):
        raise ValueError(
            f"a transform [{matrix.shape[0]}, {matrix.shape[1]}] does not fit features of {size}"
            " values"
        )
    mapped = multiply(x, matrix[:, :size].T)
    return np.asarray(mapped + matrix[:, size:].sum(1), np.float32)


def compose(second: np.ndarray, first: np.ndarray, *, affine: bool = False) -> np.ndarray:
    """The transform that applies `first` and then `second`, as Kaldi's compose-transforms.

    affine: the last column of `first` is an offset (--b-is-affine); without it, `first` is linear,
    and an offset of `second` becomes one more column. InputError where the shapes do not fit.
    """
    rows = len(first)
    if second.shape[1] == rows:
        return np.asarray(multiply(second, first), np.float32)
    if second.shape[1] != rows + 1:
        raise InputError(
            f"a transform {list(second.shape)} cannot follow one of {list(first.shape)}: it wants"
            f" {second.shape[1]} values, or one less with an offset; estimate both again"
        )
    composed = multiply(second[:, :rows], first)
    if affine:
        composed[:, -1] += second[:, rows]
    else:
        composed = np.column_stack((composed, second[:, rows]))
    return np.asarray(composed, np.float32)


def identity(dim: int) -> np.ndarray:
    """The affine transform float32 [D, D+1] that changes nothing."""
    return np.eye(dim, dim + 1, dtype=np.float32)

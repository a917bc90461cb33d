"""Linear and affine transforms of features: [D, F] without an offset, [D, F+1] with one."""

import numpy as np

from bayes_asr.base.errors import InputError
from bayes_asr.gmm.linear_algebra import multiply


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
    # Without an offset the slice matrix[:, size:] has no columns, and its sum is 0.
    mapped = multiply(x, matrix[:, :size].T)
    return np.asarray(mapped + matrix[:, size:].sum(1), np.float32)


def compose(outer: np.ndarray, inner: np.ndarray, *, affine: bool = False) -> np.ndarray:
    """The transform that applies `inner` and then `outer`, as Kaldi's compose-transforms.

    affine: the last column of `inner` is an offset (--b-is-affine); without it, `inner` is linear,
    and an offset of `outer` becomes one more column. InputError where the shapes do not fit.
    """
    rows = len(inner)
    if outer.shape[1] == rows:
        return np.asarray(multiply(outer, inner), np.float32)
    if outer.shape[1] != rows + 1:
        raise InputError(
            f"a transform {list(outer.shape)} cannot follow one of {list(inner.shape)}: it wants"
            f" {outer.shape[1]} values, or one less with an offset; estimate both again"
        )
    # outer = [A, b]: A (C x + d) + b = (A C) x + (A d + b).
    composed = multiply(outer[:, :rows], inner)
    if affine:
        composed[:, -1] += outer[:, rows]
    else:
        composed = np.column_stack((composed, outer[:, rows]))
    return np.asarray(composed, np.float32)


def identity(dim: int) -> np.ndarray:
    """The affine transform float32 [D, D+1] that changes nothing."""
    return np.eye(dim, dim + 1, dtype=np.float32)

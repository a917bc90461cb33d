"""Linear transforms that are estimated row by row, as MLLT and fMLLR do.

M. J. F. Gales, "Semi-tied covariance matrices for hidden Markov models", IEEE Transactions on
Speech and Audio Processing 7(3), 1999, (22); "Maximum likelihood linear transformations for
HMM-based speech recognition", Computer Speech and Language 12(2), 1998, (19) to (26).
"""

import math

import numpy as np

from bayes_asr.base.elementary import log_scalar
from bayes_asr.gmm import compiled
from bayes_asr.gmm.linear_algebra import dot, invert, replace_row


def update_rows(
    count: float, inverses: np.ndarray, linear: np.ndarray | None, iterations: int
) -> np.ndarray:
    """The transform float64 [D, W] that starts as the identity, each row the best for the others.

    count: frames beta; inverses: of the scatter G_i [W, W] of each dimension; linear: the k_i
    [D, W], None where they are 0. LinAlgError where a transform or a scatter is singular.
    By C++ where that is built.
    """
    implementation = compiled.update_rows if compiled.LIBRARY.usable else update_rows_in_numpy
    offsets = None if linear is None else dot(inverses, linear[:, None])
    dim = len(inverses)
    return implementation(
        count, np.ascontiguousarray(inverses[:, :, :dim]), offsets, linear, iterations
    )


def update_rows_in_numpy(
    count: float,
    inverses: np.ndarray,
    offsets: np.ndarray | None,
    linear: np.ndarray | None,
    iterations: int,
) -> np.ndarray:
    """The NumPy version of `update_rows`; inverses: their first columns, [D, W, D]."""
    dim, width = inverses.shape[:2]
    transform = np.eye(dim, width)
    for _ in range(iterations):
        # Once per iteration exactly; within it, `replace_row` follows the changes of rows.
        inverse = invert(transform[:, :dim])
        for row in range(dim):
            # Column `row` of A^-1 is the cofactors of that row, but for the determinant.
            cofactors = inverse[:, row].copy()
            direction = dot(inverses[row], cofactors)
            e1 = float(dot(direction[:dim], cofactors))
            if not e1 > 0:
                raise np.linalg.LinAlgError("singular scatter")
            if linear is None or offsets is None:
                # MLLT, (22): c G^-1 sqrt(beta / (c G^-1 c')).
                best = direction * math.sqrt(count / e1)
            else:
                # fMLLR, (19) to (26): (alpha c + k) G^-1.
                e2 = float(dot(direction, linear[row]))
                best = offsets[row] + best_step(e1, e2, count) * direction
            replace_row(inverse, row, (best - transform[row])[:dim])
            transform[row] = best
    return transform


def best_step(e1: float, e2: float, count: float) -> float:
    """The alpha with the greatest beta log |alpha e1 + e2| - 1/2 alpha^2 e1.

    The best row for the cofactors c of the others is (alpha c + k) G^-1; e1 = c G^-1 c' and
    e2 = c G^-1 k'.
    """
    # The derivative is 0 where e1 alpha^2 + e2 alpha - beta = 0: two roots, of which one is better.
    root = math.sqrt(e2 * e2 + 4 * e1 * count)
    return max(
        ((sign * root - e2) / (2 * e1) for sign in (1, -1)),
        key=lambda alpha: count * log_scalar(abs(alpha * e1 + e2)) - alpha * alpha * e1 / 2,
    )

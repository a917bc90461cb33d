"""Products, inverses, determinants and eigenvectors, to the same bits on every processor.

LAPACK works in blocks that depend on the processor. Here a matrix is eliminated row by row, and
rotated by pairs of rows, with sums, products, quotients and roots of single elements alone.
"""

import numpy as np

from bayes_asr.base import elementary
from bayes_asr.gmm import compiled

EPSILON = float(np.finfo(np.float64).eps)
CHUNK = 128  # frames whose products lie in the cache together
SWEEPS = 40  # of rotations; some ten are enough


def dot(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The sums [...] over the last axis of products."""
    return np.asarray(np.add.reduce(a * b, -1))


def invert(matrices: np.ndarray) -> np.ndarray:
    """The inverses float64 [..., D, D]; LinAlgError where one of the matrices has none."""
    size = matrices.shape[-1]
    # [A, 1] becomes [1, A^-1].
    beside = np.broadcast_to(np.eye(size), matrices.shape)
    work = np.concatenate((matrices, beside), -1).reshape(-1, size, 2 * size)
    with np.errstate(all="ignore"):  # of a matrix that has no inverse
        pivots = np.abs(eliminate(work))
    # A pivot that is rounding error of the largest element means a singular matrix.
    largest = np.abs(matrices).reshape(-1, size * size).max(1)
    if not (pivots > size * EPSILON * largest[:, None]).all():
        raise np.linalg.LinAlgError("singular matrix")
    return work[..., size:].reshape(matrices.shape).copy()


def eliminate(work: np.ndarray) -> np.ndarray:
    """The pivots [B, D] of matrices float64 [B, D, W], which then start with the unit matrix.

    Gauss and Jordan's elimination in place, the largest element of a column as the pivot. By C++
    where that is built.
    """
    implementation = compiled.eliminate if compiled.LIBRARY.usable else eliminate_in_numpy
    return implementation(work)


def eliminate_in_numpy(work: np.ndarray) -> np.ndarray:
    """The NumPy version of `eliminate`, which defines its result to the bit."""
    batch, size = np.arange(len(work)), work.shape[1]
    pivots = np.empty((len(work), size))
    for i in range(size):
        pivot_rows = i + np.abs(work[:, i:, i]).argmax(1)
        if (pivot_rows != i).any():
            work[batch, i], work[batch, pivot_rows] = work[batch, pivot_rows], work[batch, i]
        remaining = work[:, :, i:]  # the columns before are those of the unit matrix
        pivots[:, i] = remaining[:, i, 0]
        remaining[:, i] /= pivots[:, i, None]
        factors = remaining[:, :, 0].copy()
        factors[:, i] = 0  # all rows but the one of the pivot are reduced
        remaining -= factors[:, :, None] * remaining[:, None, i]
    return pivots


def log_determinant(matrix: np.ndarray) -> float:
    """The logarithm of the absolute determinant of a matrix [D, D]."""
    with np.errstate(all="ignore"):
        pivots = eliminate(np.array(matrix, np.float64, order="C")[None])
    return float(elementary.log(np.abs(pivots)).sum())


def replace_row(inverse: np.ndarray, row: int, change: np.ndarray) -> None:
    """Change an inverse [D, D] in place, as `change` [D] was added to a row of the matrix.

    The formula of J. Sherman and W. J. Morrison, 1950.
    """
    moved = np.add.reduce(change[:, None] * inverse, 0)
    inverse -= inverse[:, row, None] * (moved / (1 + moved[row]))


def cholesky(matrix: np.ndarray) -> np.ndarray:
    """The lower triangle L float64 [D, D] with L L' = matrix; LinAlgError if it is not positive."""
    remaining, lower = np.array(matrix, np.float64), np.zeros(matrix.shape)
    for i in range(len(remaining)):
        if not remaining[i, i] > 0:
            raise np.linalg.LinAlgError("the matrix is not positive definite")
        # Column i of L; its outer product leaves the Schur complement.
        lower[i:, i] = remaining[i:, i] / np.sqrt(remaining[i, i])
        remaining[i:, i:] -= lower[i:, i, None] * lower[i:, i]
    return lower


def solve_lower(lower: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The X float64 [D, N] with L X = b, for a lower triangle [D, D]."""
    x = np.array(b, np.float64)
    for i in range(len(x)):
        x[i] /= lower[i, i]
        x[i + 1 :] -= lower[i + 1 :, i, None] * x[i]
    return x


def eigh(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The eigenvalues [D] of a symmetric matrix, rising, and in columns its eigenvectors [D, D].

    Jacobi's rotations, of D / 2 disjoint pairs of rows and columns at once; in each sweep every
    pair has its turn. G. H. Golub and C. F. Van Loan, "Matrix computations", section 8.5.
    LinAlgError where that has no end, as with NaN.
    """
    size = len(matrix)
    rotated, vectors = np.array(matrix, np.float64), np.eye(size)
    for _ in range(SWEEPS):
        diagonal = np.diag(np.diag(rotated))
        if np.abs(rotated - diagonal).max(initial=0) <= size * EPSILON * np.abs(diagonal).max():
            break
        for i, j in _pair_up(size):
            cosine, sine = _rotation(rotated[i, i], rotated[i, j], rotated[j, j])
            # J' A J rotates rows, then columns; V J collects the rotations in the columns of V.
            for rows in (rotated, rotated.T, vectors.T):
                row_i, row_j = rows[i], rows[j]
                rows[i] = cosine * row_i - sine * row_j
                rows[j] = sine * row_i + cosine * row_j
    else:
        raise np.linalg.LinAlgError("the rotations have no end")
    values = np.diag(rotated)
    order = np.argsort(values, kind="stable")
    return values[order], vectors[:, order]


def _pair_up(size: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Rounds of disjoint pairs, so that each of `size` meets each other once."""
    seats = np.arange(size + size % 2)  # the last one of an odd number meets nobody
    rounds = []
    # The schedule of a round-robin tournament: the first stays, all others move on by one seat.
    for _ in range(len(seats) - 1):
        pairs = np.sort(np.stack((seats[: len(seats) // 2], seats[::-1][: len(seats) // 2])), 0)
        smaller, larger = pairs[:, pairs[1] < size]
        rounds.append((smaller, larger))
        seats = np.concatenate((seats[:1], np.roll(seats[1:], 1)))
    return rounds


def _rotation(a: np.ndarray, b: np.ndarray, d: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Cosines and sines [N, 1] of the smaller rotations that make [[a, b], [b, d]] diagonal."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        # The smaller root of t^2 + 2 t (d - a) / (2 b) - 1 = 0.
        ratio = (d - a) / (2 * b)
        tangent = np.where(ratio < 0, -1.0, 1.0) / (np.abs(ratio) + np.sqrt(ratio * ratio + 1))
    tangent = np.where(b == 0, 0.0, tangent)
    cosine = 1 / np.sqrt(tangent * tangent + 1)
    return cosine[:, None], (tangent * cosine)[:, None]


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

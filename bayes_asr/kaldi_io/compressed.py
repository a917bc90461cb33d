"""Kaldi's compressed matrices (matrix/compressed-matrix.cc), bit for bit as Kaldi expands them.

kaldiio expands them too, but rounds in another order: half of the values differ in the last bit.
"""

import numpy as np

BYTES_PER_VALUE = {b"CM": 1, b"CM2": 2, b"CM3": 1}
STEP_16BIT = np.float32(1.52590218966964e-05)  # Kaldi's constant for 1 / 65535
# CM splits a column's 256 codes at its quartiles: codes 0-64, 65-192 and 193-255.
CODES_PER_PIECE = (65, 128, 63)
FIRST_CODE = np.repeat(np.array([0, 64, 192], np.float32), CODES_PER_PIECE)
CODE_WIDTH = np.repeat([1 / 64, 1 / 128, 1 / 63], CODES_PER_PIECE)


def compressed_size(kind: bytes, rows: int, columns: int) -> int:
    """Return how many bytes follow the header of a matrix of type CM, CM2 or CM3."""
    return (8 * columns if kind == b"CM" else 0) + BYTES_PER_VALUE[kind] * rows * columns


def expand(kind: bytes, raw: bytes, shape: tuple[int, int], low: float, span: float) -> np.ndarray:
    """Return the float32 [rows, columns] matrix of the `raw` bytes after the header.

    `low` and `span` are the header's smallest value and range.
    """
    # CM2 and CM3 quantise evenly, by 16 and 8 bits; CM has levels of its own in each column.
    if kind == b"CM":
        return _expand_quartiles(raw, shape, np.float32(low), np.float32(span))
    codes = np.frombuffer(raw, "<u2" if kind == b"CM2" else "u1").reshape(shape)
    # Kaldi computes the step as float times double, rounded to float.
    step = np.float32(np.float32(span) * np.float64(1 / (65535 if kind == b"CM2" else 255)))
    return np.float32(low) + codes.astype(np.float32) * step


def _expand_quartiles(
    raw: bytes, shape: tuple[int, int], low: np.float32, span: np.float32
) -> np.ndarray:
    """Look up every code in its column's 256 levels; columns are stored one after the other."""
    rows, columns = shape
    quartiles = np.frombuffer(raw, "<u2", 4 * columns).reshape(columns, 4).astype(np.float32)
    # Four points a column: minimum, quartiles at 25 % and 75 %, maximum.
    points = low + span * STEP_16BIT * quartiles
    start = np.repeat(points[:, :3], CODES_PER_PIECE, axis=1)
    width = np.repeat(points[:, 1:] - points[:, :-1], CODES_PER_PIECE, axis=1)
    offset = width * (np.arange(256, dtype=np.float32) - FIRST_CODE)
    levels = (start + offset * CODE_WIDTH).astype(np.float32)
    codes = np.frombuffer(raw, np.uint8, offset=8 * columns).reshape(columns, rows)
    # Level c of column j is element 256 j + c of the flattened table.
    return levels.ravel().take(codes.T + np.arange(0, 256 * columns, 256))

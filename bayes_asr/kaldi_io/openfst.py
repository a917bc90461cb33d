"""The header of OpenFst files, which FSTs and lattices share (fst/fst.h, FstHeader)."""

import numpy as np

MAGIC = 2125659606
EXPANDED, MUTABLE = 1, 2  # the two property bits that every reader relies on
LARGEST = 1e30  # a cost: sums of larger ones, scaled, would leave float32
HEADER = np.dtype(
    [
        ("version", "<i4"),
        ("flags", "<i4"),
        ("properties", "<u8"),
        ("start", "<i8"),
        ("states", "<i8"),
        ("arcs", "<i8"),
    ]
)

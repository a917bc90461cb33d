"""FSTs as arrays, and the header of OpenFst files, which FSTs and lattices share.

OpenFst: fst/fst.h, FstHeader.
"""

from dataclasses import dataclass

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


@dataclass(frozen=True)
class Fst:
    """A weighted transducer of S states and A arcs, arcs sorted by source state; weights are costs.

    `final` float32 [S], infinite where a state is not final; `offsets` int64 [S + 1]: the arcs of
    state s are offsets[s]:offsets[s + 1] of `ilabel`, `olabel`, `nextstate` int32 [A] and
    `weight` float32 [A]. `start` is -1 in an FST without states.
    """

    start: int
    final: np.ndarray
    offsets: np.ndarray
    ilabel: np.ndarray
    olabel: np.ndarray
    weight: np.ndarray
    nextstate: np.ndarray

    @property
    def num_states(self) -> int:
        """The number of states S."""
        return len(self.final)

    @property
    def num_arcs(self) -> int:
        """The number of arcs A."""
        return len(self.ilabel)

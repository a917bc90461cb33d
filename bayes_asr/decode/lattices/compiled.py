"""The C++ twin of the sums over paths."""

import ctypes as c
from pathlib import Path

import numpy as np

from bayes_asr.base.shared_library import DOUBLES, INTS, LONGS, P, SharedLibrary, view_of
from bayes_asr.decode.lattices.aligned import AlignedLattice


class PathsView(c.Structure):
    """The struct of this name in expectation.cpp: sizes and columns of an `AlignedLattice`."""

    _fields_ = (
        *((name, c.c_int64) for name in ("num_states", "num_steps")),
        ("source", INTS),
        ("target", INTS),
        ("weight", DOUBLES),
        ("offsets", LONGS),
        ("cells", INTS),
    )


LIBRARY = SharedLibrary(
    Path(__file__).with_name("_lattices.so"),
    "lattices",
    (PathsView,),
    {"expect": (c.c_int32, [P, c.c_int64, P, P, P, P, P])},
)


def expect(
    lattice: AlignedLattice, score: np.ndarray, gain: np.ndarray, *results: np.ndarray
) -> None:
    """The C++ version of `expectation.expect`; results: the arrays that are filled."""
    sizes = {"num_states": lattice.num_states, "num_steps": len(lattice.source)}
    view = view_of(PathsView, lattice, **sizes)
    scores, gains = (np.ascontiguousarray(x, np.float64) for x in (score, gain))
    pointers = (x.ctypes.data for x in (scores, gains, *results))
    task = "the sums over the paths of a lattice"
    LIBRARY.run("expect", task, c.byref(view), len(lattice.frame), *pointers)

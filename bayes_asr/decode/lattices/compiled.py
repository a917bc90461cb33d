"""The C++ twins of the sums over paths and of expected errors."""

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


class TableView(c.Structure):
    """The struct of this name in mbr.h: sizes and columns of an `ArcTable`."""

    _fields_ = (
        *((name, c.c_int64) for name in ("num_nodes", "num_arcs", "num_layers")),
        ("bounds", LONGS),
        ("source", INTS),
        ("target", INTS),
        ("word", INTS),
        ("posterior", DOUBLES),
        ("begin", LONGS),
        ("end", LONGS),
    )


LIBRARY = SharedLibrary(
    Path(__file__).with_name("_lattices.so"),
    "lattices",
    (PathsView, TableView),
    {
        "expect": (c.c_int32, [P, c.c_int64, P, P, P, P, P]),
        "expected_errors": (c.c_int32, [P, P, c.c_int64, P, P, P, P]),
    },
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


def expected_errors(
    table: object, hypothesis: np.ndarray, *results: np.ndarray, **sizes: int
) -> None:
    """The C++ version of `mbr.expected_errors`; table: an `ArcTable`; results: risk [1] and the
    zeros [W, Q + 1] to which occupancy and times are added.
    """
    view = view_of(TableView, table, **sizes)
    indices = np.ascontiguousarray(hypothesis, np.int64)
    pointers = (x.ctypes.data for x in results)
    arguments = (indices.ctypes.data, len(indices), *pointers)
    LIBRARY.run("expected_errors", "the errors that a lattice expects", c.byref(view), *arguments)

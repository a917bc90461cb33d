"""The C++ twin of the sums over paths, through ctypes.

`_lattices.so` lies beside this module where a compiler was at hand at installation.
"""

import ctypes as c
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from bayes_asr.base import interface
from bayes_asr.base.errors import InputError
from bayes_asr.decode.lattices.aligned import AlignedLattice

LIBRARY = Path(__file__).with_name("_lattices.so")
INTS, LONGS, DOUBLES = (c.POINTER(kind) for kind in (c.c_int32, c.c_int64, c.c_double))


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


P = c.c_void_p
INTERFACE: tuple[str, interface.Structs, interface.Functions] = (
    "lattices",
    (PathsView,),
    {"expect": (c.c_int32, [P, c.c_int64, P, P, P, P, P])},
)
TYPES: dict[Any, Any] = {INTS: np.int32, LONGS: np.int64, DOUBLES: np.float64}


@cache
def library() -> c.CDLL | None:
    """Load the library; None where `interface` finds a fault in it."""
    with suppress(InputError):
        return interface.load(LIBRARY, *INTERFACE)
    return None


def expect(lattice: AlignedLattice, *arrays: np.ndarray) -> None:
    """Do what `expectation.expect` does; arrays: score, gain, and those that are filled."""
    loaded = library()
    if loaded is None:
        raise RuntimeError(f"{LIBRARY} is not built")
    kinds: dict[str, Any] = {name: kind for name, kind, *_ in PathsView._fields_ if kind in TYPES}
    columns = {n: np.ascontiguousarray(getattr(lattice, n), TYPES[k]) for n, k in kinds.items()}
    view = PathsView(
        num_states=lattice.num_states,
        num_steps=len(lattice.source),
        **{name: column.ctypes.data_as(kinds[name]) for name, column in columns.items()},
    )
    given = [np.ascontiguousarray(one, np.float64) for one in arrays[:2]]
    pointers = [one.ctypes.data_as(DOUBLES) for one in (*given, *arrays[2:])]
    if loaded.lattices_expect(c.byref(view), len(lattice.frame), *pointers):
        raise MemoryError("the sums over the paths of a lattice ran out of memory")

"""The C++ twin of the sums over the paths of a leaky HMM, through ctypes.

`_chain.so` lies beside this module where a compiler was at hand at installation.
"""

import ctypes as c
from contextlib import suppress
from functools import cache
from pathlib import Path

import numpy as np

from bayes_asr.base import interface
from bayes_asr.base.errors import InputError
from bayes_asr.tasks.chain.denominator_graph import DenominatorGraph

LIBRARY = Path(__file__).with_name("_chain.so")
INTS, LONGS, DOUBLES = (c.POINTER(kind) for kind in (c.c_int32, c.c_int64, c.c_double))
TYPES = {INTS: np.int32, LONGS: np.int64, DOUBLES: np.float64}


class HmmView(c.Structure):
    """The struct of this name in leaky_hmm.cpp: sizes, and arcs by either end."""

    _fields_ = (
        ("num_states", c.c_int64),
        ("num_pdfs", c.c_int64),
        ("into_offsets", LONGS),
        ("into_source", INTS),
        ("into_pdf", INTS),
        ("into_prob", DOUBLES),
        ("from_offsets", LONGS),
        ("from_target", INTS),
        ("from_pdf", INTS),
        ("from_prob", DOUBLES),
        ("initial", DOUBLES),
    )


P = c.c_void_p
INTERFACE: tuple[str, interface.Structs, interface.Functions] = (
    "chain",
    (HmmView,),
    {"sum_paths": (c.c_int32, [P, c.c_int64, P, c.c_double, P, P])},
)


@cache
def library() -> c.CDLL | None:
    """Load the library; None where `interface` finds a fault in it."""
    with suppress(InputError):
        return interface.load(LIBRARY, *INTERFACE)
    return None


class CompiledHmm:
    """A denominator graph laid out for the library: its arcs, by target and by source."""

    def __init__(self, graph: DenominatorGraph) -> None:
        loaded = library()
        if loaded is None:
            raise RuntimeError(f"{LIBRARY} is not built")
        self._sum_paths = loaded.chain_sum_paths
        # The forward sum goes over the arcs into each state, the backward sum over those from it.
        # Each state's arcs lie together, from one offset to the next, as in a CSR matrix.
        columns = {"initial": graph.initial}
        for name, ends, far_ends in (
            ("into", graph.target, ("source", graph.source)),
            ("from", graph.source, ("target", graph.target)),
        ):
            order = np.argsort(ends, kind="stable")
            counts = np.bincount(ends, minlength=graph.num_states)
            columns[f"{name}_offsets"] = np.concatenate([[0], np.cumsum(counts)])
            for column, values in (far_ends, ("pdf", graph.pdf), ("prob", graph.prob)):
                columns[f"{name}_{column}"] = values[order]
        kinds = {name: kind for name, kind in HmmView._fields_ if kind in TYPES}
        self._columns = {  # which the view points into
            name: np.ascontiguousarray(columns[name], TYPES[kind]) for name, kind in kinds.items()
        }
        pointers = {name: x.ctypes.data_as(kinds[name]) for name, x in self._columns.items()}
        self._view = HmmView(graph.num_states, graph.num_pdfs, **pointers)

    def sum_paths(self, scores: np.ndarray, leak: float) -> tuple[float, np.ndarray]:
        """Do what `LeakyHmm.sum_paths` does; other threads go on meanwhile."""
        contiguous = np.ascontiguousarray(scores, np.float64)
        share, log_total = np.zeros(scores.shape), np.zeros(1)
        scores_pointer, *result_pointers = (
            x.ctypes.data_as(DOUBLES) for x in (contiguous, share, log_total)
        )
        if self._sum_paths(
            c.byref(self._view), len(scores), scores_pointer, leak, *result_pointers
        ):
            raise MemoryError(f"the denominator of {len(scores)} frames ran out of memory")
        return float(log_total[0]), share

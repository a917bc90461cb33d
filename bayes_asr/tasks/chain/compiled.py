"""The C++ twin of the sums over the paths of a leaky HMM."""

import ctypes as c
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from bayes_asr.base.shared_library import DOUBLES, INTS, LONGS, P, SharedLibrary, view_of
from bayes_asr.tasks.chain.denominator_graph import DenominatorGraph


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


LIBRARY = SharedLibrary(
    Path(__file__).with_name("_chain.so"),
    "chain",
    (HmmView,),
    {"sum_paths": (c.c_int32, [P, c.c_int64, P, c.c_double, P, P])},
)


class CompiledHmm:
    """A denominator graph laid out for the library: its arcs, by target and by source."""

    def __init__(self, graph: DenominatorGraph) -> None:
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
        sizes = {"num_states": graph.num_states, "num_pdfs": graph.num_pdfs}
        self._view = view_of(HmmView, SimpleNamespace(**columns), **sizes)

    def sum_paths(self, scores: np.ndarray, leak: float) -> tuple[float, np.ndarray]:
        """Do what `LeakyHmm.sum_paths` does; other threads go on meanwhile."""
        contiguous = np.ascontiguousarray(scores, np.float64)
        share, log_total = np.zeros(scores.shape), np.zeros(1)
        LIBRARY.run(
            "sum_paths",
            f"the denominator of {len(scores)} frames",
            c.byref(self._view),
            len(scores),
            contiguous.ctypes.data,
            leak,
            share.ctypes.data,
            log_total.ctypes.data,
        )
        return float(log_total[0]), share

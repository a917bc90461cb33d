"""The C++ twin of the search and the determinization, through ctypes.

`_decoder.so` lies beside this module where a compiler was at hand at installation; it links to
nothing but the C++ library.
"""

import ctypes as c
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from bayes_asr.base import interface
from bayes_asr.base.errors import InputError
from bayes_asr.decode.search import options as defaults
from bayes_asr.decode.search.options import DecodeOptions
from bayes_asr.decode.search.search_graph import Arcs, DecodingGraph, GrammarArcs
from bayes_asr.kaldi_io.lattice import CompactLattice, Lattice

LIBRARY = Path(__file__).with_name("_decoder.so")
FLOATS, DOUBLES = (c.POINTER(kind) for kind in (c.c_float, c.c_double))
INTS, LONGS = (c.POINTER(kind) for kind in (c.c_int32, c.c_int64))
DTYPES = {FLOATS: np.float32, DOUBLES: np.float64, INTS: np.int32, LONGS: np.int64}


class ArcsView(c.Structure):
    """The struct of this name in lattice.h: the columns of `Arcs`."""

    _fields_ = (
        ("offsets", LONGS),
        ("ilabel", INTS),
        ("olabel", INTS),
        ("weight", FLOATS),
        ("nextstate", INTS),
    )


class GraphView(c.Structure):
    """The struct of this name in lattice.h."""

    _fields_ = (
        ("num_states", c.c_int32),
        ("start", c.c_int32),
        ("final", FLOATS),
        ("emitting", ArcsView),
        ("epsilon", ArcsView),
        ("column", INTS),
    )


class GrammarView(c.Structure):
    """The struct of this name in lattice.h: the columns of `GrammarArcs`."""

    _fields_ = (
        *((name, c.c_int32) for name in ("start", "everything")),
        ("final", FLOATS),
        ("offsets", LONGS),
        ("label", INTS),
        ("weight", FLOATS),
        ("nextstate", INTS),
        ("chance", DOUBLES),
        ("ahead", FLOATS),
        ("emitting", INTS),
        ("epsilon", INTS),
        ("set", INTS),
        ("spans", LONGS),
        ("first", INTS),
        ("last", INTS),
        ("ends", INTS),
    )


class LabelsView(c.Structure):
    """The struct of this name in lattice.h."""

    _fields_ = (
        *((name, c.c_int64) for name in ("num_labels", "num_states", "num_sets", "num_spans")),
        ("number", INTS),
        ("set", INTS),
        ("spans", LONGS),
        ("first", INTS),
        ("last", INTS),
        ("ends", INTS),
    )


class OptionsView(c.Structure):
    """The struct of this name in lattice.h."""

    _fields_ = (
        *((name, c.c_float) for name in ("beam", "lattice_beam", "beam_delta")),
        *((name, c.c_int32) for name in ("max_active", "min_active")),
        *((name, c.c_int32) for name in ("prune_interval", "allow_partial", "strict")),
    )


class LatticeView(c.Structure):
    """The struct of this name in lattice.h: sizes and columns of a `Lattice`."""

    _fields_ = (
        *((name, c.c_int64) for name in ("num_states", "num_arcs")),
        ("offsets", LONGS),
        ("ilabel", INTS),
        ("olabel", INTS),
        ("graph", FLOATS),
        ("acoustic", FLOATS),
        ("nextstate", INTS),
        ("final_graph", FLOATS),
        ("final_acoustic", FLOATS),
    )


class CompactView(c.Structure):
    """The struct of this name in lattice.h: sizes and columns of a `CompactLattice`."""

    _fields_ = (
        *((name, c.c_int64) for name in ("num_states", "num_arcs", "num_tids", "num_final_tids")),
        ("offsets", LONGS),
        ("word", INTS),
        ("graph", FLOATS),
        ("acoustic", FLOATS),
        ("nextstate", INTS),
        ("tid_offsets", LONGS),
        ("tids", INTS),
        ("final_graph", FLOATS),
        ("final_acoustic", FLOATS),
        ("final_tid_offsets", LONGS),
        ("final_tids", INTS),
    )


P = c.c_void_p
INTERFACE: tuple[str, interface.Structs, interface.Functions] = (
    "decoder",
    (ArcsView, GraphView, GrammarView, LabelsView, OptionsView, LatticeView, CompactView),
    {
        "search": (P, [P, P, P, P, c.c_int64, c.c_int64, P, P]),
        "free_lattice": (None, [P]),
        "best_arcs": (c.c_int64, [P, P, P]),
        "determinize": (P, [P, P, c.c_double, c.c_int64, P]),
        "free_words": (None, [P]),
        "number_labels": (P, [P, c.c_int32, P]),
        "free_labels": (None, [P]),
    },
)


@cache
def library() -> c.CDLL | None:
    """Load the library; None where `interface` finds a fault in it."""
    with suppress(InputError):
        return interface.load(LIBRARY, *INTERFACE)
    return None


def require_library() -> c.CDLL:
    """Return the library, which the caller has found to be there."""
    loaded = library()
    if loaded is None:
        raise RuntimeError(f"{LIBRARY} is not built")
    return loaded


def pointer(values: np.ndarray, kind: Any) -> Any:
    """Return a typed pointer to a contiguous array."""
    return values.ctypes.data_as(kind)


def columns(view: type[c.Structure]) -> dict[str, Any]:
    """Return the names of a view's columns, with the types of pointers to them."""
    return {name: kind for name, kind, *_ in view._fields_ if kind in DTYPES}


View = TypeVar("View", ArcsView, GrammarView, LatticeView)


def view_of(table: Arcs | GrammarArcs | Lattice, view: type[View], **sizes: int) -> View:
    """Return a view of sizes and of the columns of a table, each found by its name."""
    found = {name: pointer(getattr(table, name), kind) for name, kind in columns(view).items()}
    return view(**sizes, **found)


def lattice_view(lattice: Lattice) -> LatticeView:
    """Return the pointers to the lattice's columns."""
    arcs = len(lattice.nextstate)
    return view_of(lattice, LatticeView, num_states=lattice.num_states, num_arcs=arcs)


def copy_array(
    view: LatticeView | CompactView | LabelsView, counts: dict[str, int]
) -> dict[str, np.ndarray]:
    """Return copies of the columns, which belong to the library; `counts` elements of each."""
    return {
        name: np.ctypeslib.as_array(getattr(view, name), (counts[name],)).copy()
        if counts[name]
        else np.empty(0, DTYPES[kind])
        for name, kind in columns(type(view)).items()
    }


def graph_view(network: DecodingGraph) -> GraphView:
    """Return the pointers to the columns of a graph."""
    return GraphView(
        num_states=network.num_states,
        start=network.start,
        final=pointer(network.final, FLOATS),
        emitting=view_of(network.emitting, ArcsView),
        epsilon=view_of(network.epsilon, ArcsView),
        column=pointer(network.column, INTS),
    )


def number_labels(network: DecodingGraph, num_labels: int) -> dict[str, np.ndarray]:
    """Number the output labels of a graph anew, so that few spans of numbers can follow a state.

    Returns `number` [num_labels], the new label of each old one, and the columns set, spans, first,
    last and ends of `GrammarArcs`.
    """
    view = LabelsView()
    held = require_library().decoder_number_labels(
        c.byref(graph_view(network)), num_labels, c.byref(view)
    )
    if not held:
        raise MemoryError("looking ahead for the labels of a graph ran out of memory")
    counts = dict.fromkeys(("first", "last"), view.num_spans) | {
        "number": view.num_labels,
        "set": view.num_states,
        "spans": view.num_sets + 1,
        "ends": view.num_sets,
    }
    try:
        return copy_array(view, counts)
    finally:
        require_library().decoder_free_labels(held)


def search(
    network: DecodingGraph, loglikes: np.ndarray, options: DecodeOptions
) -> tuple[Lattice | None, bool]:
    """Do what `lattice.search` does: scaled log-likelihoods [T, num_pdfs] float32 to a lattice."""
    graph, grammar = graph_view(network), network.grammar
    if grammar is not None:
        grammar_view = view_of(
            grammar, GrammarView, start=grammar.start, everything=grammar.everything
        )
    chosen = OptionsView(**{name: getattr(options, name) for name, *_ in OptionsView._fields_})
    frames = np.ascontiguousarray(loglikes, np.float32)
    reached, view = c.c_int32(), LatticeView()
    held = require_library().decoder_search(
        c.byref(graph),
        None if grammar is None else c.byref(grammar_view),
        c.byref(chosen),
        pointer(frames, FLOATS),
        *frames.shape,
        c.byref(reached),
        c.byref(view),
    )
    if reached.value < 0:
        raise MemoryError("the search for a lattice ran out of memory")
    if not held:
        return None, False
    counts = dict.fromkeys(columns(LatticeView), view.num_arcs) | {
        "offsets": view.num_states + 1,
        "final_graph": view.num_states,
        "final_acoustic": view.num_states,
    }
    try:
        lattice = Lattice(**copy_array(view, counts))
    finally:
        require_library().decoder_free_lattice(held)
    return lattice, bool(reached.value)


def best_arcs(lattice: Lattice) -> tuple[np.ndarray, int]:
    """Do what `lattice.best_arcs` does."""
    arcs, last = np.empty(lattice.num_states, np.int64), c.c_int64()
    count = require_library().decoder_best_arcs(
        c.byref(lattice_view(lattice)), pointer(arcs, LONGS), c.byref(last)
    )
    if count < 0:
        raise MemoryError("the search for the best path ran out of memory")
    return arcs[:count], last.value


def determinize(lattice: Lattice, phone_start: np.ndarray, beam: float) -> CompactLattice:
    """Do what `determinize.determinize` does."""
    view = CompactView()
    held = require_library().decoder_determinize(
        c.byref(lattice_view(lattice)),
        pointer(phone_start, INTS),
        beam,
        defaults.MAX_BYTES,
        c.byref(view),
    )
    if not held:
        raise MemoryError("the determinization of a lattice ran out of memory")
    counts = dict.fromkeys(("word", "graph", "acoustic", "nextstate"), view.num_arcs) | {
        "offsets": view.num_states + 1,
        "tid_offsets": view.num_arcs + 1,
        "tids": view.num_tids,
        "final_graph": view.num_states,
        "final_acoustic": view.num_states,
        "final_tid_offsets": view.num_states + 1,
        "final_tids": view.num_final_tids,
    }
    try:
        return CompactLattice(**copy_array(view, counts))
    finally:
        require_library().decoder_free_words(held)

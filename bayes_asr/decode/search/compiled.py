"""The C++ twin of the search and the determinization."""

import ctypes as c
import weakref
from pathlib import Path
from typing import Any

import numpy as np

from bayes_asr.base.shared_library import (
    DOUBLES,
    FLOATS,
    INTS,
    LONGS,
    P,
    SharedLibrary,
    column_types,
    view_of,
)
from bayes_asr.config.decoding_keys import SearchOptions
from bayes_asr.decode.search import strings
from bayes_asr.decode.search.search_graph import (
    BestPath,
    DecodingGraph,
    GrammarArcs,
    HotwordArcs,
    LatticeChunk,
)
from bayes_asr.kaldi_io.lattice import CompactLattice, Lattice


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


class HotwordsView(c.Structure):
    """The struct of this name in lattice.h: the columns of `HotwordArcs`."""

    _fields_ = (
        ("num_classes", c.c_int64),
        ("word_class", INTS),
        ("nextstate", INTS),
        ("weight", FLOATS),
        ("final", FLOATS),
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


class ChunkView(c.Structure):
    """The struct of this name in lattice.h: sizes and columns of a `LatticeChunk`."""

    _fields_ = (
        *((name, c.c_int64) for name in ("num_entries", "num_exits")),
        ("entry", INTS),
        ("origin", INTS),
        ("exit", INTS),
        ("ahead", DOUBLES),
    )


class PathView(c.Structure):
    """The struct of this name in lattice.h: sizes and columns of a `BestPath`."""

    _fields_ = (
        *((name, c.c_int64) for name in ("num_words", "num_frames", "fixed")),
        ("word", INTS),
        ("frame", INTS),
        ("tid", INTS),
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


NO_MEMORY = "the search for a lattice ran out of memory"
LIBRARY = SharedLibrary(
    Path(__file__).with_name("_decoder.so"),
    "decoder",
    (
        *(ArcsView, GraphView, GrammarView, HotwordsView, LabelsView),
        *(OptionsView, LatticeView, ChunkView, PathView, CompactView),
    ),
    {
        "open": (P, [P, P, P, P, c.c_int32]),
        "close": (None, [P]),
        "advance": (c.c_int32, [P, P, c.c_int64, c.c_int64]),
        "trace": (c.c_int32, [P, P, P]),
        "take": (P, [P, P, P]),
        "finish": (P, [P, P, P, P]),
        "free_lattice": (None, [P]),
        "best_arcs": (c.c_int64, [P, P, P]),
        "determinize": (P, [P, P, c.c_double, c.c_int64, P]),
        "free_words": (None, [P]),
        "number_labels": (P, [P, c.c_int32, P]),
        "free_labels": (None, [P]),
    },
)


def lattice_view(lattice: Lattice) -> LatticeView:
    """Return the pointers to the lattice's columns."""
    sizes = {"num_states": lattice.num_states, "num_arcs": len(lattice.nextstate)}
    return view_of(LatticeView, lattice, **sizes)


def copy_array(
    view: LatticeView | ChunkView | PathView | CompactView | LabelsView, counts: dict[str, int]
) -> dict[str, np.ndarray]:
    """Return copies of the columns, which belong to the library; `counts` elements of each."""
    return {
        name: np.ctypeslib.as_array(getattr(view, name), (counts[name],)).copy()
        if counts[name]
        else np.empty(0, dtype)
        for name, dtype in column_types(type(view)).items()
    }


def graph_view(network: DecodingGraph) -> GraphView:
    """Return the pointers to the columns of a graph."""
    return view_of(
        GraphView,
        network,
        num_states=network.num_states,
        start=network.start,
        emitting=view_of(ArcsView, network.emitting),
        epsilon=view_of(ArcsView, network.epsilon),
    )


def grammar_view(grammar: GrammarArcs) -> GrammarView:
    """Return the pointers to the columns of a grammar."""
    return view_of(GrammarView, grammar, start=grammar.start, everything=grammar.everything)


def hotwords_view(arcs: HotwordArcs) -> HotwordsView:
    """Return the pointers to the columns of hotwords."""
    return view_of(HotwordsView, arcs, num_classes=arcs.nextstate.shape[1])


def number_labels(network: DecodingGraph, num_labels: int) -> dict[str, np.ndarray]:
    """Number the output labels of a graph anew, so that few spans of numbers can follow a state.

    Returns `number` [num_labels], the new label of each old one, and the columns set, spans, first,
    last and ends of `GrammarArcs`.
    """
    view = LabelsView()
    graph = graph_view(network)
    pointer = LIBRARY.call("number_labels", c.byref(graph), num_labels, c.byref(view))
    if not pointer:
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
        LIBRARY.call("free_labels", pointer)


class CompiledSession:
    """A `SearchSession` in C++."""

    def __init__(
        self, network: DecodingGraph, options: SearchOptions, in_pieces: bool = False
    ) -> None:
        # The views hold the columns, or copies of them, which the library reads until the end.
        self._graph = graph_view(network)
        self._grammar = None if network.grammar is None else grammar_view(network.grammar)
        self._hotwords = None if network.hotwords is None else hotwords_view(network.hotwords)
        values = {name: getattr(options, name) for name, *_ in OptionsView._fields_}
        views = (self._graph, self._grammar, self._hotwords, OptionsView(**values))
        pointers = (None if view is None else c.byref(view) for view in views)
        pointer = LIBRARY.call("open", *pointers, in_pieces)
        if not pointer:
            raise MemoryError(NO_MEMORY)
        self._pointer = pointer
        self._end = weakref.finalize(self, LIBRARY.call, "close", pointer)

    def _call(self, function: str, *arguments: Any) -> Any:
        """The result of a function of the session; ValueError behind `finish`."""
        if not self._end.alive:
            raise ValueError("the utterance is over; open a session for the next one")
        return LIBRARY.call(function, self._pointer, *arguments)

    def advance(self, loglikes: np.ndarray) -> None:
        """Search further scaled log-likelihoods [T, num_pdfs]."""
        frames = np.ascontiguousarray(loglikes, np.float32)
        if self._call("advance", frames.ctypes.data, *frames.shape) < 0:
            raise MemoryError(NO_MEMORY)

    def trace(self) -> BestPath:
        """The best path so far."""
        view = PathView()
        if self._call("trace", c.byref(self._graph), c.byref(view)) < 0:
            raise MemoryError(NO_MEMORY)
        counts = dict.fromkeys(("word", "frame"), view.num_words) | {"tid": view.num_frames}
        return BestPath(**copy_array(view, counts), fixed=view.fixed)

    def take(self) -> LatticeChunk | None:
        """The next piece of the lattice that is over."""
        view, ends = LatticeView(), ChunkView()
        pointer = self._call("take", c.byref(view), c.byref(ends))
        return copy_chunk(pointer, view, ends) if pointer else None

    def finish_piece(self) -> tuple[LatticeChunk | None, bool]:
        """End the utterance: the last piece, and whether a final state was reached."""
        reached, view, ends = c.c_int32(), LatticeView(), ChunkView()
        pointer = self._call("finish", c.byref(reached), c.byref(view), c.byref(ends))
        self._end()
        if reached.value < 0:
            raise MemoryError(NO_MEMORY)
        return (copy_chunk(pointer, view, ends), bool(reached.value)) if pointer else (None, False)

    def finish(self) -> tuple[Lattice | None, bool]:
        """End the utterance: its lattice, and whether a final state was reached."""
        piece, reached = self.finish_piece()
        return None if piece is None else piece.lattice, reached


def copy_chunk(pointer: int, view: LatticeView, ends: ChunkView) -> LatticeChunk:
    """Return a copy of a piece, and give the library its own back."""
    counts = dict.fromkeys(column_types(LatticeView), view.num_arcs) | {
        "offsets": view.num_states + 1,
        "final_graph": view.num_states,
        "final_acoustic": view.num_states,
    }
    sizes = dict.fromkeys(("entry", "origin"), ends.num_entries)
    sizes |= dict.fromkeys(("exit", "ahead"), ends.num_exits)
    try:
        return LatticeChunk(Lattice(**copy_array(view, counts)), **copy_array(ends, sizes))
    finally:
        LIBRARY.call("free_lattice", pointer)


def best_arcs(lattice: Lattice) -> tuple[np.ndarray, int]:
    """The C++ version of `search.best_arcs`."""
    arcs, last = np.empty(lattice.num_states, np.int64), c.c_int64()
    view = lattice_view(lattice)
    count = LIBRARY.call("best_arcs", c.byref(view), arcs.ctypes.data, c.byref(last))
    if count < 0:
        raise MemoryError("the search for the best path ran out of memory")
    return arcs[:count], last.value


def determinize(lattice: Lattice, phone_start: np.ndarray, beam: float) -> CompactLattice:
    """The C++ version of `determinize.determinize`."""
    view = CompactView()
    pointer = LIBRARY.call(
        "determinize",
        c.byref(lattice_view(lattice)),
        phone_start.ctypes.data,
        beam,
        strings.MAX_BYTES,
        c.byref(view),
    )
    if not pointer:
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
        LIBRARY.call("free_words", pointer)

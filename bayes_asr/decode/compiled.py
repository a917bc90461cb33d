"""The C++ twin of the search and the determinization, through ctypes.

`_decoder.so` lies beside this module where a compiler was at hand at installation; it links to
nothing but the C++ library.
"""

import ctypes as c
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from bayes_asr.decode import options as defaults
from bayes_asr.decode.options import DecodeOptions
from bayes_asr.decode.search_graph import Arcs, Network
from bayes_asr.tables.lattice import CompactLattice, Lattice

LIBRARY = Path(__file__).with_name("_decoder.so")
INTERFACE = 1  # of the structs and functions below; a library built for another is left alone
POINTER: dict[str, Any] = {
    "f": c.POINTER(c.c_float),
    "i": c.POINTER(c.c_int32),
    "l": c.POINTER(c.c_int64),
}
KIND = {"offsets": "l", "tid_offsets": "l", "final_tid_offsets": "l"} | dict.fromkeys(
    ("graph", "acoustic", "weight", "final", "final_graph", "final_acoustic"), "f"
)


def struct_of(name: str, counts: tuple[str, ...], columns: tuple[str, ...]) -> Any:
    """Return a ctypes struct of int64 counts and of pointers to the columns' elements."""
    members: list[tuple[str, Any]] = [(count, c.c_int64) for count in counts]
    members += [(column, POINTER[KIND.get(column, "i")]) for column in columns]
    return type(name, (c.Structure,), {"_fields_": members})


LATTICE = tuple(Lattice.__dataclass_fields__)
WORDS = tuple(CompactLattice.__dataclass_fields__)
ArcsView = struct_of("ArcsView", (), tuple(Arcs.__dataclass_fields__))
LatticeView = struct_of("LatticeView", ("num_states", "num_arcs"), LATTICE)
CompactView = struct_of(
    "CompactView", ("num_states", "num_arcs", "num_tids", "num_final_tids"), WORDS
)


class GraphView(c.Structure):
    """The struct Graph of lattice.h."""

    _fields_ = (
        ("num_states", c.c_int32),
        ("start", c.c_int32),
        ("final", c.POINTER(c.c_float)),
        ("emitting", ArcsView),
        ("epsilon", ArcsView),
        ("column", c.POINTER(c.c_int32)),
    )


BEAMS = ("beam", "lattice_beam", "beam_delta")
LIMITS = ("max_active", "min_active", "prune_interval", "allow_partial")


class OptionsView(c.Structure):
    """The struct Options of lattice.h."""

    _fields_ = (
        *((name, c.c_float) for name in BEAMS),
        *((name, c.c_int32) for name in LIMITS),
    )


@cache
def library() -> c.CDLL | None:
    """Load the library; None where it was not built, does not load, or is of another version."""
    try:
        loaded = c.CDLL(str(LIBRARY))
        if loaded.decoder_interface() != INTERFACE:
            return None
    except (OSError, AttributeError):
        return None
    loaded.decoder_search.restype = c.c_void_p
    loaded.decoder_determinize.restype = c.c_void_p
    loaded.decoder_best_arcs.restype = c.c_int64
    loaded.decoder_free_lattice.argtypes = [c.c_void_p]
    loaded.decoder_free_words.argtypes = [c.c_void_p]
    return loaded


def needed_library() -> c.CDLL:
    """Return the library, which the caller has found to be there."""
    loaded = library()
    if loaded is None:
        raise RuntimeError(f"{LIBRARY} is not built")
    return loaded


def pointer(values: np.ndarray, name: str = "") -> Any:
    """Return a typed pointer to a contiguous array."""
    return values.ctypes.data_as(POINTER[KIND.get(name, "i")])


def arcs_view(arcs: Arcs) -> c.Structure:
    """Return the pointers to the arcs' columns."""
    return ArcsView(*(pointer(getattr(arcs, name), name) for name in Arcs.__dataclass_fields__))


def lattice_view(lattice: Lattice) -> c.Structure:
    """Return the pointers to the lattice's columns."""
    columns = (pointer(getattr(lattice, name), name) for name in LATTICE)
    return LatticeView(lattice.num_states, len(lattice.nextstate), *columns)


def copied(view: Any, column: str, count: int) -> np.ndarray:
    """Return a copy of one column, which belongs to the library."""
    dtype = {"f": np.float32, "i": np.int32, "l": np.int64}[KIND.get(column, "i")]
    if count == 0:
        return np.empty(0, dtype)
    return np.ctypeslib.as_array(getattr(view, column), (count,)).copy()


def search(
    network: Network, loglikes: np.ndarray, options: DecodeOptions
) -> tuple[Lattice | None, bool]:
    """Do what `lattice.search` does: scaled log-likelihoods [T, num_pdfs] float32 to a lattice."""
    graph = GraphView(
        network.num_states,
        network.start,
        pointer(network.final, "final"),
        arcs_view(network.emitting),
        arcs_view(network.epsilon),
        pointer(network.column),
    )
    chosen = OptionsView(*(getattr(options, name) for name in (*BEAMS, *LIMITS)))
    frames = np.ascontiguousarray(loglikes, np.float32)
    reached, view = c.c_int32(), LatticeView()
    held = needed_library().decoder_search(
        c.byref(graph),
        c.byref(chosen),
        pointer(frames, "weight"),
        c.c_int64(frames.shape[0]),
        c.c_int64(frames.shape[1]),
        c.byref(reached),
        c.byref(view),
    )
    if reached.value < 0:
        raise MemoryError("the search for a lattice ran out of memory")
    if not held:
        return None, False
    counts = dict.fromkeys(LATTICE, view.num_arcs) | {
        "offsets": view.num_states + 1,
        "final_graph": view.num_states,
        "final_acoustic": view.num_states,
    }
    try:
        lattice = Lattice(**{name: copied(view, name, counts[name]) for name in LATTICE})
    finally:
        needed_library().decoder_free_lattice(held)
    return lattice, bool(reached.value)


def best_arcs(lattice: Lattice) -> tuple[np.ndarray, int]:
    """Do what `lattice.best_arcs` does."""
    arcs, last = np.empty(lattice.num_states, np.int64), c.c_int64()
    count = needed_library().decoder_best_arcs(
        c.byref(lattice_view(lattice)), pointer(arcs, "offsets"), c.byref(last)
    )
    if count < 0:
        raise MemoryError("the search for the best path ran out of memory")
    return arcs[:count], last.value


def determinize(lattice: Lattice, phone_start: np.ndarray, beam: float) -> CompactLattice:
    """Do what `determinize.determinize` does."""
    view = CompactView()
    held = needed_library().decoder_determinize(
        c.byref(lattice_view(lattice)),
        pointer(phone_start),
        c.c_double(beam),
        c.c_int64(defaults.MAX_BYTES),
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
        return CompactLattice(**{name: copied(view, name, counts[name]) for name in WORDS})
    finally:
        needed_library().decoder_free_words(held)

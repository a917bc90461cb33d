"""Kaldi's binary lattice archives (lat/kaldi-lattice.h)."""

import gzip
import struct
from collections.abc import Iterable, Iterator
from dataclasses import fields
from functools import partial
from pathlib import Path

import numpy as np

from bayes_asr.base.files import find_files, is_there, replacing
from bayes_asr.kaldi_io.binary import open_bytes
from bayes_asr.kaldi_io.byte_reader import ByteReader, check_name
from bayes_asr.kaldi_io.jobs import check_jobs
from bayes_asr.kaldi_io.lattice import (
    AnyLattice,
    CompactLattice,
    Lattice,
    connect,
    is_finite,
    row_offsets,
    select_states,
    topological_order,
)
from bayes_asr.kaldi_io.openfst import EXPANDED, HEADER, LARGEST, MAGIC, MUTABLE

STATE_LEVEL, WORD_LEVEL = b"lattice4", b"compactlattice44"
ARC = np.dtype(
    [
        ("ilabel", "<i4"),
        ("olabel", "<i4"),
        ("graph", "<f4"),
        ("acoustic", "<f4"),
        ("nextstate", "<i4"),
    ]
)
WORD_ARC = struct.Struct("<iiffi")  # label twice, costs, how many transition-ids follow
WEIGHT, COUNT, NEXT = struct.Struct("<ffi"), struct.Struct("<q"), struct.Struct("<i")


def write_lattices(items: Iterable[tuple[str, Lattice | CompactLattice]], path: Path) -> int:
    """Write a binary archive, gzipped if named .gz, complete or not at all; returns how many."""
    written: set[str] = set()
    with replacing(Path(path)) as temporary:
        # One gzip member per lattice; without a time stamp equal lattices are equal bytes.
        pack = partial(gzip.compress, mtime=0) if path.suffix == ".gz" else bytes
        with temporary.open("wb") as file:
            for utt, lattice in items:
                check_name(utt, written, path)
                file.write(pack(lattice_bytes(utt, lattice)))
    return len(written)


def lattice_bytes(utt: str, lattice: Lattice | CompactLattice) -> bytes:
    """Return the archive entry of one utterance as Kaldi writes it."""
    kind = STATE_LEVEL if isinstance(lattice, Lattice) else WORD_LEVEL
    header = np.zeros(1, HEADER)
    header["version"], header["properties"] = 2, EXPANDED | MUTABLE
    header["start"] = 0 if lattice.num_states else -1
    header["states"], header["arcs"] = lattice.num_states, len(lattice.nextstate)
    parts = [f"{utt} ".encode(), struct.pack("<i", MAGIC)]
    for name in (b"vector", kind):
        parts += [struct.pack("<i", len(name)), name]
    rows = _state_rows(lattice) if isinstance(lattice, Lattice) else _word_rows(lattice)
    return b"".join([*parts, header.tobytes(), *rows])


def _state_rows(lattice: Lattice) -> Iterator[bytes]:
    arcs = np.empty(len(lattice.nextstate), ARC)
    for name in ARC.names or ():
        arcs[name] = getattr(lattice, name)
    ends = np.stack([lattice.final_graph, lattice.final_acoustic], 1).astype("<f4")
    offsets = lattice.offsets.tolist()
    for state in range(lattice.num_states):
        begin, end = offsets[state : state + 2]
        yield ends[state].tobytes() + COUNT.pack(end - begin) + arcs[begin:end].tobytes()


def _word_rows(lattice: CompactLattice) -> Iterator[bytes]:
    tids, final_tids = (ids.astype("<i4").tobytes() for ids in (lattice.tids, lattice.final_tids))
    offsets, tid_at = lattice.offsets.tolist(), lattice.tid_offsets.tolist()
    final_at = lattice.final_tid_offsets.tolist()
    columns = (lattice.word, lattice.graph, lattice.acoustic, lattice.nextstate)
    arcs = list(zip(*(column.tolist() for column in columns), strict=True))
    ends = list(zip(lattice.final_graph.tolist(), lattice.final_acoustic.tolist(), strict=True))
    # CompactLatticeWeight: graph and acoustic cost, the number of transition-ids, these themselves.
    for state in range(lattice.num_states):
        begin, end = final_at[state : state + 2]
        yield WEIGHT.pack(*ends[state], end - begin) + final_tids[4 * begin : 4 * end]
        yield COUNT.pack(offsets[state + 1] - offsets[state])
        for arc in range(offsets[state], offsets[state + 1]):
            word, graph, acoustic, nextstate = arcs[arc]
            begin, end = tid_at[arc : arc + 2]
            yield WORD_ARC.pack(word, word, graph, acoustic, end - begin)
            yield tids[4 * begin : 4 * end] + NEXT.pack(nextstate)


def iter_lattices(path: Path) -> Iterator[tuple[str, Lattice | CompactLattice]]:
    """Stream (utterance, lattice) from a binary archive of either kind, gzipped if named .gz.

    States come out topologically sorted, and all lie on finite paths from the start to an end: a
    lattice without such a path has no states.  Raises InputError, naming file and utterance, where
    it is truncated, of another type, or cyclic, and for an utterance that is there twice.
    """
    with open_bytes(Path(path)) as source:
        for utt, _ in source.utterances():
            yield utt, _read_lattice(source, utt)


def _read_lattice(source: ByteReader, utt: str) -> Lattice | CompactLattice:
    if source.take(4, utt) != struct.pack("<i", MAGIC):
        raise source.fail(
            f"{utt} is no binary lattice at offset {source.position - 4}; lattice-copy makes one"
        )
    kind, arc = (source.take(NEXT.unpack(source.take(4, utt))[0], utt) for _ in range(2))
    if kind != b"vector" or arc not in (STATE_LEVEL, WORD_LEVEL):
        raise source.fail(f"{utt} is a {kind!r} FST of {arc!r} arcs, not a lattice of floats")
    # The number of arcs is not used: a stream is written before it is known.
    header = np.frombuffer(source.take(HEADER.itemsize, utt), HEADER)[0]
    start, states = int(header["start"]), int(header["states"])
    if header["flags"] or not (0 <= start < states or (start, states) == (-1, 0)):
        raise source.fail(f"{utt} starts in state {start} of {states}, flags {header['flags']}")
    if arc == STATE_LEVEL:
        return _trim(_read_states(source, utt, states), start, source, utt)
    return _trim(_read_words(source, utt, states), start, source, utt)


def _read_states(source: ByteReader, utt: str, states: int) -> Lattice:
    ends, counts, rows = [], [], []
    for _ in range(states):
        graph, acoustic, count = struct.unpack("<ffq", source.take(16, utt))
        ends.append((graph, acoustic))
        counts.append(count)
        rows.append(source.take(count * ARC.itemsize, utt))
    arcs = np.frombuffer(b"".join(rows), ARC)
    final = np.array(ends, np.float32).reshape(-1, 2)
    columns = {name: np.ascontiguousarray(arcs[name]) for name in ARC.names or ()}
    return Lattice(
        offsets=row_offsets(counts),
        final_graph=np.ascontiguousarray(final[:, 0]),
        final_acoustic=np.ascontiguousarray(final[:, 1]),
        **columns,
    )


def _read_words(source: ByteReader, utt: str, states: int) -> CompactLattice:
    ends, counts, arcs, tids, final_tids = [], [], [], [], []
    for _ in range(states):
        *weight, length = WEIGHT.unpack(source.take(WEIGHT.size, utt))
        ends.append(weight)
        final_tids.append(source.take(4 * length, utt))
        counts.append(COUNT.unpack(source.take(COUNT.size, utt))[0])
        if counts[-1] < 0:
            raise source.fail(f"{utt} has a state with {counts[-1]} arcs")
        for _ in range(counts[-1]):
            word, _, graph, acoustic, length = WORD_ARC.unpack(source.take(WORD_ARC.size, utt))
            tids.append(source.take(4 * length, utt))
            arcs.append((word, graph, acoustic, NEXT.unpack(source.take(4, utt))[0]))
    final = np.array(ends, np.float32).reshape(-1, 2)
    word, graph, acoustic, nextstate = zip(*arcs, strict=True) if arcs else ((), (), (), ())
    return CompactLattice(
        offsets=row_offsets(counts),
        word=np.array(word, np.int32),
        graph=np.array(graph, np.float32),
        acoustic=np.array(acoustic, np.float32),
        nextstate=np.array(nextstate, np.int32),
        tid_offsets=row_offsets([len(ids) // 4 for ids in tids]),
        tids=np.frombuffer(b"".join(tids), "<i4"),
        final_graph=np.ascontiguousarray(final[:, 0]),
        final_acoustic=np.ascontiguousarray(final[:, 1]),
        final_tid_offsets=row_offsets([len(ids) // 4 for ids in final_tids]),
        final_tids=np.frombuffer(b"".join(final_tids), "<i4"),
    )


def _check(lattice: Lattice | CompactLattice, source: ByteReader, utt: str) -> None:
    """Refuse numbers that no lattice holds."""
    nextstate, states = lattice.nextstate, lattice.num_states
    if len(wild := nextstate[(nextstate < 0) | (nextstate >= states)]):
        raise source.fail(f"{utt} has an arc to state {wild[0]} of {states}")
    for field in fields(lattice):
        values = getattr(lattice, field.name)
        if values.dtype.kind == "f":
            wrong = values[~((np.abs(values) <= LARGEST) | (values == np.inf))]
            if len(wrong):
                raise source.fail(f"{utt} has {wrong[0]} among its {field.name} costs")
        if values.dtype.kind == "i" and values.min(initial=0) < 0:
            raise source.fail(f"{utt} has {values.min()} among its {field.name}")
    if (np.isinf(lattice.final_graph) != np.isinf(lattice.final_acoustic)).any():
        raise source.fail(f"{utt} has a final cost of which one half is infinite")


def _trim(lattice: AnyLattice, start: int, source: ByteReader, utt: str) -> AnyLattice:
    """Return the lattice checked, its states sorted and all on paths, the start first."""
    _check(lattice, source, utt)
    # A lattice that is trim already keeps the order of its states.
    if start <= 0 and _is_trim(lattice):
        return lattice
    order = topological_order(lattice.offsets, lattice.nextstate, start)
    if order is None:
        raise source.fail(f"{utt} has a cycle; a lattice has none")
    return connect(select_states(lattice, order))


def _is_trim(lattice: Lattice | CompactLattice) -> bool:
    """Whether all arcs lead forward at a finite cost, into and out of each state but the ends."""
    states, counts = lattice.num_states, np.diff(lattice.offsets)
    forward = (lattice.nextstate > np.repeat(np.arange(states), counts)).all()
    entries = np.bincount(lattice.nextstate, minlength=states)[1:].all()
    exits = ((counts > 0) | np.isfinite(lattice.final_graph)).all()
    return bool(forward and entries and exits and is_finite(lattice).all())


def check_lattice_jobs(lattices: Iterable[Path]) -> None:
    """InputError where all `lat.N.gz` of a folder are given, but not those of all its jobs."""
    selected = {*lattices}
    for directory in {path.parent for path in selected}:
        archives = find_files(directory, "lat.*.gz")
        # Somebody who names some of the archives only wants these.
        if is_there(directory / "num_jobs") and {*archives} <= selected:
            check_jobs(directory, "lat", archives)

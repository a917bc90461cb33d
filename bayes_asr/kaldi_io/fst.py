"""Files of OpenFst: an FST alone, or archives of them.

OpenFst: fst/const-fst.h, fst/vector-fst.h. Archives hold FSTs by utterance,
such as the training graphs fsts.N.gz of Kaldi's scripts.
"""

import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

import numpy as np

from bayes_asr.base.files import replacing, writing
from bayes_asr.kaldi_io.binary import open_bytes
from bayes_asr.kaldi_io.byte_reader import DAMAGED, ByteReader, check_name
from bayes_asr.kaldi_io.openfst import EXPANDED, HEADER, LARGEST, MAGIC, MUTABLE, Fst

SYMBOLS_MAGIC = 2125658996
HAS_SYMBOLS, IS_ALIGNED = (1, 2), 4
ALIGNED_VERSION = 1  # const FSTs of this version are aligned without saying so
ALIGNMENT = 16
ARC = np.dtype([("ilabel", "<i4"), ("olabel", "<i4"), ("weight", "<f4"), ("nextstate", "<i4")])
CONST_STATE = np.dtype(
    [
        ("final", "<f4"),
        ("first", "<u4"),
        ("arcs", "<u4"),
        ("iepsilons", "<u4"),
        ("oepsilons", "<u4"),
    ]
)
VECTOR_STATE = struct.Struct("<fq")  # final weight, number of arcs
WORD = 4
GZIP_LEVEL = 1  # the fastest: graphs are written once and read in every pass
STATE_WORDS, ARC_WORDS = VECTOR_STATE.size // WORD, ARC.itemsize // WORD


def read_fst(path: Path) -> Fst:
    """Read a const (also aligned) or vector FST with standard arcs; symbol tables are skipped.

    Raises InputError where the file is truncated, of another type, or not a proper FST.
    """
    with open_bytes(Path(path)) as source:
        return parse_fst(source)


def parse_fst(source: ByteReader, alone: bool = True) -> Fst:
    """Read the FST that begins here, and no further where it is not `alone` in its file."""
    if source.take(4, "the magic number") != MAGIC.to_bytes(4, "little"):
        raise source.fail("not a binary OpenFst file; convert it")
    kind, arc = _read_string(source), _read_string(source)
    if kind not in (b"const", b"vector") or arc != b"standard":
        types = f"type {kind[:20]!r} with {arc[:20]!r} arcs"
        raise source.fail(f"an FST of {types}, not const or vector of standard; convert it")
    header = np.frombuffer(source.take(HEADER.itemsize, "the header"), HEADER)[0]
    for flag in HAS_SYMBOLS:
        if header["flags"] & flag:
            _skip_symbols(source)
    # A const FST has all states first; in a vector FST each state is followed by its arcs.
    if kind == b"const":
        final, counts, arcs = _read_const(source, header)
    else:
        body = source.read_remaining() if alone else _take_states(source, header)
        final, counts, arcs = _split_states(source, header, body)
    fst = _build_fst(int(header["start"]), final, counts, arcs)
    _check(fst, source)
    return fst


def write_fst(fst: Fst, path: Path, kind: Literal["const", "vector"] = "const") -> None:
    """Write `fst` as OpenFst and Kaldi read it, complete or not at all."""
    with replacing(Path(path)) as temporary:
        temporary.write_bytes(pack_fst(fst, kind))


def pack_fst(fst: Fst, kind: Literal["const", "vector"]) -> bytes:
    """The bytes of `fst`, as OpenFst and Kaldi read them."""
    arcs = np.empty(fst.num_arcs, ARC)
    for name in ARC.names or ():
        arcs[name] = getattr(fst, name)
    header = np.zeros(1, HEADER)
    header["version"] = 2
    header["properties"] = EXPANDED if kind == "const" else EXPANDED | MUTABLE
    header["start"], header["states"], header["arcs"] = fst.start, fst.num_states, fst.num_arcs
    head = MAGIC.to_bytes(4, "little") + _pack_string(kind) + _pack_string("standard")
    body = [_count_epsilons(fst), arcs] if kind == "const" else [_join_states(fst, arcs)]
    return b"".join([head, header.tobytes(), *(part.tobytes() for part in body)])


def write_fsts(items: Iterable[tuple[str, Fst]], ark: Path) -> int:
    """Write FSTs by utterance, complete or not at all (.gz if named so); returns how many."""
    written: set[str] = set()
    with writing(ark, level=GZIP_LEVEL) as file:
        for utt, fst in items:
            check_name(utt, written, ark)
            file.write(utt.encode() + b" " + pack_fst(fst, "vector"))
    return len(written)


def iter_fsts(ark: Path) -> Iterator[tuple[str, Fst]]:
    """Yield utterances and their FSTs, one in memory at a time.

    InputError where the archive is truncated, or holds anything but binary FSTs.
    """
    with open_bytes(ark) as source:
        for utt, _ in source.utterances():
            yield utt, parse_fst(source, alone=False)


def _join_states(fst: Fst, arcs: np.ndarray) -> np.ndarray:
    """States and arcs as they alternate in a vector FST, in words of 32 bits."""
    words = np.empty(STATE_WORDS * fst.num_states + ARC_WORDS * fst.num_arcs, np.int32)
    # State s lies behind s states and the arcs of these.
    begin = STATE_WORDS * np.arange(fst.num_states) + ARC_WORDS * fst.offsets[:-1]
    words[begin] = fst.final.astype(np.float32).view(np.int32)
    # The number of arcs is an int64: its low word, and a high word of 0.
    words[begin + 1], words[begin + 2] = np.diff(fst.offsets), 0
    words[_are_arcs(begin, len(words))] = arcs.view(np.int32)
    return words


def _are_arcs(begin: np.ndarray, words: int) -> np.ndarray:
    """The mask bool [words] of the words of arcs, where states begin at the words `begin`."""
    mask = np.ones(words, bool)
    for word in range(STATE_WORDS):
        mask[begin + word] = False
    return mask


def _count_epsilons(fst: Fst) -> np.ndarray:
    states = np.empty(fst.num_states, CONST_STATE)
    states["final"], states["first"] = fst.final, fst.offsets[:-1]
    states["arcs"] = np.diff(fst.offsets)
    for name, labels in (("iepsilons", fst.ilabel), ("oepsilons", fst.olabel)):
        # Epsilons before each arc; differences at the offsets count those of each state.
        counts = np.concatenate(([0], np.cumsum(labels == 0)))
        states[name] = np.diff(counts[fst.offsets])
    return states


def _read_const(source: ByteReader, header: np.void) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    aligned = header["flags"] & IS_ALIGNED or header["version"] == ALIGNED_VERSION
    states = _read_array(source, CONST_STATE, int(header["states"]), "the states", aligned)
    arcs = _read_array(source, ARC, int(header["arcs"]), "the arcs", aligned)
    counts = states["arcs"].astype(np.int64)
    # The first arc of a state without arcs may be anything.
    expected = np.cumsum(counts) - counts
    if counts.sum() != len(arcs) or (states["first"] != expected)[counts > 0].any():
        raise source.fail(
            f"the states own {counts.sum()} arcs, the file has {len(arcs)}: {DAMAGED}"
        )
    return states["final"], counts, arcs


def _take_states(source: ByteReader, header: np.void) -> bytes:
    """Read the states and arcs of a vector FST, whose header may or may not have their numbers."""
    states, arcs = int(header["states"]), int(header["arcs"])
    if arcs or not states:
        return source.take(states * VECTOR_STATE.size + arcs * ARC.itemsize, "states and arcs")
    # Kaldi writes archives as streams, with 0 for the number of arcs: read state by state, the arcs
    # of a state together with the head of the next one.
    parts = [source.take(VECTOR_STATE.size, "a state")]
    for remaining in range(states - 1, -1, -1):
        _, count = VECTOR_STATE.unpack(parts[-1][-VECTOR_STATE.size :])
        parts.append(
            source.take(count * ARC.itemsize + min(remaining, 1) * VECTOR_STATE.size, "arcs")
        )
    return b"".join(parts)


def _split_states(
    source: ByteReader, header: np.void, body: bytes
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Split states and arcs, which alternate: only a walk over the states finds the next one."""
    count = int(header["states"])
    fields = memoryview(body)[: len(body) // WORD * WORD].cast("i")
    # The walk looks at the numbers of arcs alone; NumPy then picks states and arcs by their places.
    begin, place = [], 0
    for state in range(count):
        begin.append(place)
        arcs = fields[place + 1] if place + 1 < len(fields) else -1
        place += STATE_WORDS + ARC_WORDS * arcs
        if arcs < 0 or place > len(fields):
            label = f"state {state} of {count}"
            ends = f"{label} ends after {WORD * place} bytes, the file has {len(body)}"
            raise source.fail(f"{ends}: {DAMAGED}")
    words, heads = np.frombuffer(body, "<i4", place), np.array(begin, np.int64)
    if len(wrong := np.flatnonzero(words[heads + 2])):  # the high words of the numbers of arcs
        raise source.fail(f"state {wrong[0]} of {count} has 2^32 arcs or more: {DAMAGED}")
    columns = words[_are_arcs(heads, place)].view(ARC)
    return words[heads].view("<f4"), words[heads + 1].astype(np.int64), columns


def _build_fst(start: int, final: np.ndarray, counts: np.ndarray, arcs: np.ndarray) -> Fst:
    columns = {name: np.ascontiguousarray(arcs[name]) for name in ARC.names or ()}
    offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)))
    return Fst(start=start, final=np.ascontiguousarray(final), offsets=offsets, **columns)


def _check(fst: Fst, source: ByteReader) -> None:
    """Refuse what a decoder would run out of bounds on."""
    states = fst.num_states
    if not (0 <= fst.start < states or (fst.start == -1 and states == 0)):
        raise source.fail(f"the start state {fst.start} is not one of {states}: {DAMAGED}")
    for name, values, limit in (
        ("next state", fst.nextstate, states),
        ("input label", fst.ilabel, 1 << 31),
        ("output label", fst.olabel, 1 << 31),
    ):
        wrong = np.flatnonzero((values < 0) | (values >= limit))
        if len(wrong):
            raise source.fail(
                f"arc {wrong[0]} has the {name} {values[wrong[0]]} of {limit}: {DAMAGED}"
            )
    for name, weights in (("arc", fst.weight), ("state", fst.final)):
        # Infinity is allowed, the cost of what is impossible; NaN and minus infinity are not.
        wrong = np.flatnonzero(~((np.abs(weights) <= LARGEST) | (weights == np.inf)))
        if len(wrong):
            message = f"{name} {wrong[0]} has the weight {weights[wrong[0]]}"
            raise source.fail(f"{message}: {DAMAGED}")


def _read_array(
    source: ByteReader, dtype: np.dtype, count: int, what: str, aligned: bool
) -> np.ndarray:
    if aligned:
        source.take(-source.position % ALIGNMENT, "padding")
    return np.frombuffer(source.take(count * dtype.itemsize, what), dtype)


def _read_string(source: ByteReader) -> bytes:
    return source.take(_read_integer(source, 4), "a name")


def _read_integer(source: ByteReader, width: int) -> int:
    return int.from_bytes(source.take(width, "a number"), "little", signed=True)


def _skip_symbols(source: ByteReader) -> None:
    if _read_integer(source, 4) != SYMBOLS_MAGIC:
        raise source.fail(f"no symbol table before offset {source.position}")
    _read_string(source)
    _read_integer(source, 8)
    for _ in range(_read_integer(source, 8)):
        _read_string(source)
        _read_integer(source, 8)


def _pack_string(text: str) -> bytes:
    return len(text).to_bytes(4, "little") + text.encode()

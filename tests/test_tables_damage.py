"""Seeded fuzzing of every table reader: damaged files are refused in one line, never a crash."""

import gzip
import random
import struct
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import kaldiio
import numpy as np
import pytest

from bayes_asr.errors import InputError
from bayes_asr.tables.ark import (
    iter_int_vectors,
    iter_matrices,
    read_scp,
    write_int_vectors,
    write_matrices,
)
from bayes_asr.tables.fst import Fst, read_fst, write_fst
from bayes_asr.tables.mdl import monophone_model, read_transition_model, write_transition_model
from bayes_asr.tables.text import read_mapping, read_symbols, read_text
from bayes_asr.tables.tree import monophone_tree, read_tree, write_tree

MEMORY = 16 << 20  # bytes that a reader may hold; the files have a few hundred
EXTREMES = (0, 1, -1, 2**31 - 1, -(2**31), 2**16, 2**24 + 1)
MATRICES = [(f"utt{i}", np.random.default_rng(i).normal(size=(9, 3))) for i in range(3)]
MDL_TEXT = b"""<TransitionModel> <Topology> <TopologyEntry> <ForPhones> 1 2 </ForPhones>
<State> 0 <PdfClass> 0 <Transition> 0 0.75 <Transition> 1 0.25 </State> <State> 1 </State>
</TopologyEntry> </Topology> <Triples> 2
1 0 0
2 0 1
</Triples> <LogProbs> [ 0 -0.28 -1.38 -0.28 -1.38 ] </LogProbs> </TransitionModel>
"""
TREE_TEXT = b"""ContextDependency 3 1 ToPdf SE 0 [ 1 2 ]
{ TE 1 3 ( NULL CE 0 CE 1 )
CE 2 }
EndContextDependency
"""


@dataclass(frozen=True)
class Format:
    """How a small sound file is made, and how it is read to its end."""

    name: str
    write: Callable[[Path], object]
    read: Callable[[Path], object]


def compressed(method: int) -> Callable[[Path], None]:
    return lambda path: kaldiio.save_ark(str(path), dict(MATRICES), compression_method=method)


def doubles(path: Path) -> None:
    kaldiio.save_ark(str(path), dict(MATRICES))


def text_matrices(path: Path) -> None:
    kaldiio.save_ark(str(path), dict(MATRICES), text=True)


def alignments(path: Path) -> None:
    write_int_vectors([("utt1", np.arange(30)), ("utt2", np.arange(20))], path)


def index(path: Path) -> None:
    write_matrices(MATRICES, path.with_name("indexed.ark"), path)


def fst(kind: str) -> Callable[[Path], None]:
    small = Fst(
        start=0,
        final=np.array([np.inf, 0, 1], np.float32),
        offsets=np.array([0, 2, 3, 3]),
        ilabel=np.array([1, 2, 0], np.int32),
        olabel=np.array([3, 0, 0], np.int32),
        weight=np.array([0.5, 1, 0], np.float32),
        nextstate=np.array([1, 0, 2], np.int32),
    )
    return lambda path: write_fst(small, path, kind)


def fst_with_symbols(path: Path) -> None:
    table = struct.pack("<ii1sqq", 2125658996, 1, b"t", 2, 2)
    table += struct.pack("<i5sq", 5, b"<eps>", 0) + struct.pack("<i1sq", 1, b"a", 1)
    raw = struct.pack("<ii6si8s", 2125659606, 6, b"vector", 8, b"standard")
    raw += struct.pack("<iiQqqq", 2, 3, 3, 0, 1, 0) + table + table
    path.write_bytes(raw + struct.pack("<fq", 0, 0))


def exhaust(reader: Callable) -> Callable[[Path], None]:
    def read(path: Path) -> None:
        for _ in reader(path):
            pass

    return read


def scp_entries(path: Path) -> None:
    read_scp(path)
    exhaust(iter_matrices)(path)


FORMATS = [
    Format("float.ark", lambda path: write_matrices(MATRICES, path), exhaust(iter_matrices)),
    Format("float.ark.gz", lambda path: write_matrices(MATRICES, path), exhaust(iter_matrices)),
    Format("double.ark", doubles, exhaust(iter_matrices)),
    Format("cm.ark", compressed(2), exhaust(iter_matrices)),
    Format("cm2.ark", compressed(3), exhaust(iter_matrices)),
    Format("cm3.ark", compressed(5), exhaust(iter_matrices)),
    Format("text.ark", text_matrices, exhaust(iter_matrices)),
    Format("feats.scp", index, scp_entries),
    Format("ali.1", alignments, exhaust(iter_int_vectors)),
    Format("ali.1.gz", alignments, exhaust(iter_int_vectors)),
    Format(
        "ali.txt", lambda path: path.write_bytes(b"u1 1 2 3\nu2 4 5\n"), exhaust(iter_int_vectors)
    ),
    Format(
        "final.mdl",
        lambda path: write_transition_model(monophone_model([1, 2]), path),
        read_transition_model,
    ),
    Format("final.txt", lambda path: path.write_bytes(MDL_TEXT), read_transition_model),
    Format("tree", lambda path: write_tree(monophone_tree({1: [0, 1], 2: [2]}), path), read_tree),
    Format("tree.txt", lambda path: path.write_bytes(TREE_TEXT), read_tree),
    Format("const.fst", fst("const"), read_fst),
    Format("vector.fst", fst("vector"), read_fst),
    Format("symbols.fst", fst_with_symbols, read_fst),
    Format("text", lambda path: path.write_text("u1 a b\nu2 ü\n"), read_text),
    Format("utt2spk", lambda path: path.write_text("u1 a\nu2 b\n"), read_mapping),
    Format("words.txt", lambda path: path.write_text("a 0\nb 1\n"), read_symbols),
]


def damaged(content: bytes, rng: random.Random) -> bytes:
    """Cut, flip bits, forge a number, remove or repeat a piece: one to three times."""
    raw = bytearray(content)
    for _ in range(rng.randint(1, 3)):
        at, length = rng.randrange(len(raw) + 1), rng.randint(1, 12)
        match rng.randrange(6):
            case 0:
                del raw[at:]
            case 1 | 2 if at < len(raw):
                raw[at] ^= 1 << rng.randrange(8)
            case 3:
                raw[at : at + 4] = struct.pack("<i", rng.choice(EXTREMES))
            case 4:
                del raw[at : at + length]
            case _:
                raw[at:at] = raw[at : at + length]
    return bytes(raw)


def fuzz(form: Format, folder: Path, seed: int, rounds: int) -> int:
    """Read `rounds` damaged files; return how many were refused. Anything else escapes."""
    path = folder / form.name
    form.write(path)
    form.read(path)
    sound, refused, rng = path.read_bytes(), 0, random.Random(f"{form.name} {seed}")
    tracemalloc.start()
    for number in range(rounds):
        if path.suffix == ".gz" and number % 2:  # below the checksum, which sees all else
            content = gzip.compress(damaged(gzip.decompress(sound), rng))
        else:
            content = damaged(sound, rng)
        path.write_bytes(content)
        tracemalloc.reset_peak()
        try:
            form.read(path)
        except InputError as error:
            refused += 1
            message = str(error)
            assert form.name in message or "indexed.ark" in message or form.name == "feats.scp"
            assert "\n" not in message
            assert len(message) < 500
        assert tracemalloc.get_traced_memory()[1] < MEMORY, content
    tracemalloc.stop()
    return refused


@pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.name)
def test_damaged_files_are_refused_in_one_line(form: Format, tmp_path: Path) -> None:
    assert fuzz(form, tmp_path, seed=1, rounds=40) > 0


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.name)
def test_thousands_of_damaged_files(form: Format, tmp_path: Path) -> None:
    assert fuzz(form, tmp_path, seed=2, rounds=1000) > 100
    assert {path.name for path in tmp_path.iterdir()} <= {form.name, "indexed.ark"}

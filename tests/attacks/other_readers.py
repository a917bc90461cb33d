"""Other programs' readers of what verbs read: Kaldi's, OpenFst's, libsndfile's, torch's.

What a verb has accepted they must accept, and read as the same values as ours.
"""

import gzip
import json
import math
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatch
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import kaldifst
import kaldiio
import kaldilm
import numpy as np
import soundfile
import torch
import yaml

from bayes_asr.base.errors import InputError
from bayes_asr.data.sound.audio import read_channels
from bayes_asr.decode.graph.ngram import build_grammar_fst, read_arpa
from bayes_asr.kaldi_io.ark import iter_int_vectors, iter_matrices, read_vector
from bayes_asr.kaldi_io.fst import read_fst
from bayes_asr.kaldi_io.symbols import read_symbols
from bayes_asr.kaldi_io.text import read_mapping, read_text
from tests.attacks.kaldi_models import (
    KALDI_MODELS,
    kaldi_topology,
    kaldi_tree,
    our_topology,
    our_tree,
)

KALDI = find_spec("kaldi_native_io") is not None
MISSING = "kaldi_native_io, which has Kaldi's readers of tables, is not installed"
CLOSE = 1e-4  # costs of a grammar: Kaldi sums and prints them in single precision


@dataclass(frozen=True)
class Reader:
    """Another program's reader of files of some names and, where values are compared, ours."""

    names: str
    theirs: Callable[[Path], Any]
    ours: Callable[[Path], Any] | None = None


def read_archive(path: Path) -> None:
    """Read matrices as kaldiio does: those that the scp beside names, or all."""
    scp = path.with_suffix(".scp")
    read = kaldiio.load_scp_sequential if scp.exists() else kaldiio.load_ark
    for _ in read(str(scp if scp.exists() else path)):
        pass


def kaldi_table(path: Path, kind: str) -> dict[str, Any]:
    """An archive, or what an scp beside it names, by Kaldi's reader of tables of a kind."""
    import kaldi_native_io

    scp = path.with_suffix(".scp")
    form = "scp" if scp.exists() else "ark"
    place = scp if form == "scp" else path
    reader = getattr(kaldi_native_io, f"Sequential{kind}Reader")(f"{form}:{place}")
    table = {}
    for key, value in reader:
        assert key not in table, f"{key} is repeated"
        table[key] = np.array(value, copy=True) if isinstance(value, np.ndarray) else value
    assert reader._impl.close(), "the end of the archive is damaged"
    return table


def our_matrices(path: Path) -> dict[str, np.ndarray]:
    """An archive, or what an scp beside it names."""
    scp = path.with_suffix(".scp")
    return dict(iter_matrices(scp if scp.exists() else path))


def kaldi_integers(path: Path) -> dict[str, list[int]]:
    """Alignments, packed or not."""
    with unpacked(path) as plain:
        return {key: [*value] for key, value in kaldi_table(plain, "Int32Vector").items()}


def kaldi_vector(path: Path) -> np.ndarray:
    """One vector in a file."""
    import kaldi_native_io

    if b"\r" in path.read_bytes():  # for Kaldi the end of a line, for us a blank
        return read_vector(path)
    return np.array(kaldi_native_io.FloatVector.read(str(path)).numpy())


def openfst_graph(path: Path) -> list[object]:
    """Start, final costs and arcs of a graph."""
    is_const = b"const" in path.read_bytes()[:16]
    fst = (kaldifst.StdConstFst if is_const else kaldifst.StdVectorFst).read(str(path))
    assert fst is not None, "no graph"
    states = range(fst.num_states)
    arcs = [
        (state, arc.ilabel, arc.olabel, arc.weight.value, arc.nextstate)
        for state in states
        for arc in kaldifst.ArcIterator(fst, state)
    ]
    final = [fst.final(state).value for state in states]
    return [fst.start, np.array(final), np.array(arcs).reshape(-1, 5)]


def our_graph(path: Path) -> list[object]:
    """The same of ours."""
    fst = read_fst(path)
    sources = np.repeat(np.arange(fst.num_states), np.diff(fst.offsets))
    columns = (sources, fst.ilabel, fst.olabel, fst.weight.astype(float), fst.nextstate)
    return [fst.start, fst.final.astype(float), np.stack(columns, 1)]


def kaldi_grammar(path: Path) -> list[tuple[str, float]]:
    """Words and costs of the arcs and ends of G by arpa2fst, sorted: states are numbered otherwise.

    A state that only backs off is skipped over, as in ours. Kaldi refuses n-grams whose history
    there is not, which we leave out and say so.
    """
    ngrams = read_arpa(path).log_prob
    if not is_plain(path) or any(ngram[:-1] and ngram[:-1] not in ngrams for ngram in ngrams):
        return our_grammar(path)
    with TemporaryDirectory() as folder:
        words = Path(folder, "words.txt")
        text = kaldilm.arpa2fst(str(path), "", disambig_symbol="#0", write_symbol_table=str(words))
        names = {str(number): word for word, number in read_symbols(words).items()}
    rows = [line.split() for line in text.splitlines() if line]
    start = rows[0][0]
    ends = {row[0]: ("", float([*row, 0][1])) for row in rows if len(row) < 3}
    arcs = [(row[0], row[1], names[row[2]], float([*row, 0][4])) for row in rows if len(row) > 3]
    leaving: dict[str, list[tuple[str, str, str, float]]] = {}
    for arc in arcs:
        leaving.setdefault(arc[0], []).append(arc)
    mute = {s for s, out in leaving.items() if len(out) == 1 and out[0][2] == "#0"}
    mute -= {start, *ends}

    def follow(state: str) -> float:
        return leaving[state][0][3] + follow(leaving[state][0][1]) if state in mute else 0.0

    kept = [
        (word, cost + follow(target)) for source, target, word, cost in arcs if source not in mute
    ]
    return sorted([*kept, *ends.values()])


def our_grammar(path: Path) -> list[tuple[str, float]]:
    """The same of ours, whose words are those of the file."""
    model = read_arpa(path)
    words = sorted({word for ngram in model.log_prob for word in ngram} | {"<s>", "</s>"})
    numbers = {word: number for number, word in enumerate(["<eps>", *words, "#0"])}
    names = {number: word for word, number in numbers.items()}
    fst, _ = build_grammar_fst(model, numbers, numbers["#0"])
    arcs = [(names[i], float(w)) for i, w in zip(fst.ilabel.tolist(), fst.weight, strict=True)]
    return sorted([*arcs, *(("", float(cost)) for cost in fst.final if np.isfinite(cost))])


def libsndfile(path: Path) -> list[object]:
    """Samples in the range of int16, and the rate."""
    samples, rate = soundfile.read(path, dtype="float32", always_2d=True)
    return [_exact(path, samples * 2**15), rate]


def our_sound(path: Path) -> list[object]:
    """The same of ours."""
    samples, rate = read_channels(path)
    return [_exact(path, samples), rate]


def _exact(path: Path, samples: np.ndarray) -> object:
    """The samples, or how many where a decoder rounds as it is asked for them."""
    return samples.shape if soundfile.info(path).format in ("MP3", "OGG") else samples


def kaldi_mapping(path: Path) -> dict[str, str]:
    """A table of two columns."""
    return kaldi_table(path, "Token") if is_plain(path) else read_mapping(path)


def kaldi_text(path: Path) -> dict[str, list[str]]:
    """A table of words."""
    if not is_plain(path):
        return read_text(path)
    return {key: [*words] for key, words in kaldi_table(path, "TokenVector").items()}


def is_plain(path: Path) -> bool:
    """Whether lines begin, end and are split as Kaldi knows it; we read others too."""
    text = path.read_text(encoding="utf-8")
    return text.endswith("\n") and not re.search(r"[^\S \t\n]|^\ufeff|^[ \t]", text, re.M)


@contextmanager
def unpacked(path: Path) -> Iterator[Path]:
    """The file without gzip's packing."""
    raw = path.read_bytes()
    if raw[:2] != b"\x1f\x8b":
        yield path
        return
    with TemporaryDirectory() as folder:
        plain = Path(folder, "plain")
        plain.write_bytes(gzip.decompress(raw))
        yield plain


READERS = [
    Reader("*.wav", libsndfile, our_sound),
    Reader("*.sph", soundfile.read),  # which takes what follows the sound for sound
    Reader("*.flac", libsndfile, our_sound),
    Reader("*.aiff", libsndfile, our_sound),
    Reader("*.ogg", soundfile.read),
    Reader("*.mp3", soundfile.read),
    Reader("*.json", lambda path: json.loads(path.read_bytes())),
    Reader("*.yaml", lambda path: yaml.safe_load(path.read_bytes())),
    Reader("*.gz", lambda path: gzip.decompress(path.read_bytes())),
    Reader("*.pt", lambda path: torch.load(path, weights_only=True)),
    Reader("*.pkl", lambda path: torch.load(path, weights_only=True)),
    Reader("*.fst", openfst_graph, our_graph),
    Reader("*.arpa", kaldi_grammar, our_grammar),
]
KALDI_READERS = [
    Reader("*.ark", lambda path: kaldi_table(path, "FloatMatrix"), our_matrices),
    Reader("ali*.[0-9]*", kaldi_integers, lambda path: dict(iter_int_vectors(path))),
    Reader("counts", kaldi_vector, read_vector),
    Reader("utt2spk", kaldi_mapping, read_mapping),
    Reader("text", kaldi_text, read_text),
]
if not KALDI:
    KALDI_READERS = [Reader("*.ark", read_archive)]

MODEL_READERS = [
    Reader("tree", kaldi_tree, our_tree),
    Reader("topo", kaldi_topology, our_topology),
    Reader("final.txt", kaldi_topology, our_topology),
]
if KALDI_MODELS:
    KALDI_READERS += MODEL_READERS


def refused_elsewhere(path: Path) -> str:
    """What another reader says against a file, or how it reads it; nothing where all is the same.

    In a child, as some end the process.
    """
    readers = [r for r in (*READERS, *KALDI_READERS) if fnmatch(path.name, r.names)]
    if not path.is_file() or not readers:
        return ""
    told, report = os.pipe()
    child = os.fork()
    if not child:
        try:
            silence = os.open(os.devnull, os.O_WRONLY)
            os.dup2(silence, 1)
            os.dup2(silence, 2)
            os.write(report, json.dumps([compare(reader, path) for reader in readers]).encode())
        finally:
            os._exit(0)
    os.close(report)
    with os.fdopen(told, "rb") as pipe:
        content = pipe.read()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return "; ".join(filter(None, json.loads(content))) if content else f"status {status}"


def compare(reader: Reader, path: Path) -> str:
    """What another reader says against a file, or how its values differ from ours."""
    ours = None
    if reader.ours:
        try:
            ours = reader.ours(path)
        except InputError:  # the verb read less of it
            return ""
    try:
        theirs = reader.theirs(path)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    if reader.ours is None:
        return ""
    return (
        "" if are_same(ours, theirs) else f"{reader.theirs.__name__}: {theirs}, ours: {ours}"[:900]
    )


def are_same(ours: Any, theirs: Any) -> bool:
    """Whether values are the same, to the last bit in arrays."""
    if isinstance(ours, np.ndarray):
        return np.array_equal(ours, theirs, equal_nan=True)
    if isinstance(ours, dict):
        return [*ours] == [*theirs] and all(are_same(ours[key], theirs[key]) for key in ours)
    if isinstance(ours, list | tuple):
        return len(ours) == len(theirs) and all(map(are_same, ours, theirs))
    if isinstance(ours, float):
        return math.isclose(ours, theirs, rel_tol=CLOSE, abs_tol=CLOSE)
    return bool(ours == theirs)

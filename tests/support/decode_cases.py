"""What the tests of decoding share: Kaldi's golden settings, and small random graphs."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path

import numpy as np

from bayes_asr.config.decoding_keys import SearchOptions
from bayes_asr.decode.search.graph_dir import load_decoding_graph
from bayes_asr.decode.search.search_graph import Arcs, DecodingGraph
from bayes_asr.kaldi_io.ark import iter_matrices
from bayes_asr.kaldi_io.fst import write_fst
from bayes_asr.kaldi_io.initial_mdl import build_monophone_model
from bayes_asr.kaldi_io.lattice import CompactLattice, Lattice
from bayes_asr.kaldi_io.mdl import write_transition_model
from bayes_asr.kaldi_io.openfst import Fst
from bayes_asr.kaldi_io.symbols import read_symbols
from bayes_asr.kaldi_io.text import read_text

SCALES = {
    ("timit_sample", "gmm"): 0.2,
    ("timit_sample", "nn"): 0.2,
    ("an4", "gmm"): 0.083333,
    ("an4", "nn"): 0.1,
}
SETTINGS = {
    "a": {"beam": 13.0, "lattice_beam": 8.0, "max_active": 7000, "min_active": 200},
    "b": {"beam": 10.0, "lattice_beam": 6.0, "max_active": 1000, "min_active": 200},
    "c": {"beam": 15.0, "lattice_beam": 8.0, "max_active": 200, "min_active": 20},
}
CASES = list(SCALES)


@dataclass(frozen=True)
class Golden:
    """One folder of golden results and the graph that they were made with."""

    folder: Path
    graph: Path
    model: Path
    scale: float

    @property
    def loglikes(self) -> Path:
        return self.folder / "loglikes.ark"

    def options(self, setting: str) -> SearchOptions:
        return SearchOptions(acoustic_scale=self.scale, allow_partial=True, **SETTINGS[setting])

    def network(self) -> DecodingGraph:
        return load(self.graph, self.model)

    def words(self, name: str) -> dict[str, list[str]]:
        return read_text(self.folder / name)

    def numbers(self, name: str) -> dict[str, float]:
        return {utt: float(value) for utt, (value,) in read_text(self.folder / name).items()}

    def symbols(self) -> dict[int, str]:
        return {n: word for word, n in read_symbols(self.graph / "words.txt").items()}

    def matrices(self) -> Iterator[tuple[str, np.ndarray]]:
        return iter_matrices(self.loglikes)


@cache
def load(graph: Path, model: Path) -> DecodingGraph:
    return load_decoding_graph(graph, model)


def golden_case(kaldi_corpus: Callable[[str], Path], corpus: str, kind: str) -> Golden:
    root = kaldi_corpus(corpus)
    return Golden(
        root / "golden" / "decode" / kind,
        root / "exp" / "tri3" / "graph",
        root / "exp" / "tri3_ali" / "final.mdl",
        SCALES[corpus, kind],
    )


def assert_same_arrays(one: Lattice | CompactLattice, other: Lattice | CompactLattice) -> None:
    for field in fields(one):
        a, b = getattr(one, field.name), getattr(other, field.name)
        np.testing.assert_array_equal(a, b, err_msg=field.name)
        assert a.dtype == b.dtype, field.name


def rows(source: np.ndarray, states: int) -> np.ndarray:
    """Where the arcs of each state begin, for arcs sorted by source."""
    return np.searchsorted(source, np.arange(states + 1)).astype(np.int64)


def random_arcs(rng: np.random.Generator, states: int, count: int, emitting: bool) -> Arcs:
    """Arcs anywhere if emitting, otherwise forward only, so that epsilon arcs form no cycle."""
    source = np.sort(rng.integers(0, states - (0 if emitting else 1), count))
    low = np.zeros(count, np.int64) if emitting else source + 1
    return Arcs(
        offsets=rows(source, states),
        ilabel=np.where(emitting, rng.integers(1, 9, count), 0).astype(np.int32),
        olabel=np.where(rng.random(count) < 0.4, rng.integers(1, 4, count), 0).astype(np.int32),
        weight=rng.exponential(1.0, count).astype(np.float32),
        nextstate=rng.integers(low, states).astype(np.int32),
    )


def random_network(seed: int, states: int = 12) -> DecodingGraph:
    """A graph over 8 transition-ids, pdf = transition-id - 1; odd transition-ids begin a phone."""
    rng = np.random.default_rng(seed)
    emitting = random_arcs(rng, states, 5 * states, True)
    final = np.where(rng.random(states) < 0.3, rng.exponential(1.0, states), np.inf)
    return DecodingGraph(
        start=0,
        final=final.astype(np.float32),
        emitting=emitting,
        epsilon=random_arcs(rng, states, states, False),
        column=(emitting.ilabel - 1).astype(np.int32),
        phone_start=np.array([0, 1, 0, 2, 0, 3, 0, 4, 0], np.int32),
        num_pdfs=8,
        name=f"random {seed}",
    )


def all_paths(lattice: Lattice) -> Iterator[tuple[tuple[int, ...], tuple[int, ...], float, float]]:
    """Every path of a state-level lattice: words, transition-ids, graph and acoustic cost."""
    stack: list[tuple[int, tuple, tuple, float, float]] = [(0, (), (), 0.0, 0.0)]
    while stack:
        state, words, tids, graph, acoustic = stack.pop()
        if np.isfinite(lattice.final_graph[state]):
            yield words, tids, graph + float(lattice.final_graph[state]), acoustic
        for arc in range(lattice.offsets[state], lattice.offsets[state + 1]):
            word, tid = int(lattice.olabel[arc]), int(lattice.ilabel[arc])
            stack.append(
                (
                    int(lattice.nextstate[arc]),
                    words + (word,) * (word > 0),
                    tids + (tid,) * (tid > 0),
                    graph + float(lattice.graph[arc]),
                    acoustic + float(lattice.acoustic[arc]),
                )
            )


def word_paths(
    lattice: CompactLattice,
) -> Iterator[tuple[tuple[int, ...], tuple[int, ...], float, float]]:
    """Every path of a word lattice: words, transition-ids, graph and acoustic cost."""
    stack: list[tuple[int, tuple, tuple, float, float]] = [(0, (), (), 0.0, 0.0)]
    while stack:
        state, words, tids, graph, acoustic = stack.pop()
        if np.isfinite(lattice.final_graph[state]):
            first, last = lattice.final_tid_offsets[state : state + 2]
            ending = tuple(lattice.final_tids[first:last].tolist())
            end_acoustic = float(lattice.final_acoustic[state])
            yield (
                words,
                tids + ending,
                graph + float(lattice.final_graph[state]),
                acoustic + end_acoustic,
            )
        for arc in range(lattice.offsets[state], lattice.offsets[state + 1]):
            first, last = lattice.tid_offsets[arc : arc + 2]
            word = int(lattice.word[arc])
            stack.append(
                (
                    int(lattice.nextstate[arc]),
                    words + (word,) * (word > 0),
                    tids + tuple(lattice.tids[first:last].tolist()),
                    graph + float(lattice.graph[arc]),
                    acoustic + float(lattice.acoustic[arc]),
                )
            )


def write_small_graph(folder: Path) -> Path:
    """Write a graph dir that says "yes no" in two frames or more, and its final.mdl (3 pdfs)."""
    folder.mkdir(parents=True)
    fst = Fst(
        start=0,
        final=np.array([np.inf, np.inf, 0.25], np.float32),
        offsets=np.array([0, 1, 3, 4], np.int64),
        ilabel=np.array([1, 2, 3, 4], np.int32),
        olabel=np.array([1, 0, 2, 0], np.int32),
        weight=np.array([0.5, 0.1, 0.7, 0.2], np.float32),
        nextstate=np.array([1, 1, 2, 2], np.int32),
    )
    write_fst(fst, folder / "HCLG.fst")
    write_transition_model(build_monophone_model([1]), folder / "final.mdl")
    (folder / "words.txt").write_text("<eps> 0\nyes 1\nno 2\n")
    return folder

"""Decode a whole archive of log-likelihoods into a folder of Kaldi files."""

import gzip
import logging
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import chain
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from tqdm import tqdm

from bayes_asr.decode.embedded import ENGINES, choose_engine, decode_utterance
from bayes_asr.decode.network import Network, load_network
from bayes_asr.decode.options import DecodeOptions
from bayes_asr.decode.paths import Weights, sweep_words, weight_grid
from bayes_asr.errors import InputError
from bayes_asr.files import replacing
from bayes_asr.tables.ark import iter_matrices
from bayes_asr.tables.lattice import lattice_bytes
from bayes_asr.tables.text import read_symbols, write_text

LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Decoded:
    """What one utterance contributes to the output files; `error` says why it has no words."""

    utt: str
    frames: int
    words: list[int]
    graph_cost: float
    acoustic_cost: float
    reached_final: bool
    sweep: list[list[int]]
    lattice: bytes
    error: str = ""


@dataclass
class Summary:
    """How a set was decoded: counts, and the names of what did not go well."""

    utterances: int = 0
    frames: int = 0
    partial: list[str] = field(default_factory=list)
    empty: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Job:
    """What all utterances share; small enough to travel to other processes."""

    graph: Path
    model: Path
    options: DecodeOptions
    grid: tuple[Weights, ...]
    engine: str

    def decode(self, network: Network, utt: str, loglikes: np.ndarray) -> Decoded:
        """Decode one utterance; its own faults become `error`, not an exception."""
        sweep: list[list[int]] = [[] for _ in self.grid]
        try:
            result = decode_utterance(network, utt, loglikes, self.options, ENGINES[self.engine])
        except InputError as error:
            return Decoded(utt, len(loglikes), [], np.inf, np.inf, False, sweep, b"", str(error))
        lattice = b""
        if result.lattice is not None:
            sweep = sweep_words(result.lattice, self.grid)
            lattice = gzip.compress(lattice_bytes(utt, result.lattice), 3)
        return Decoded(
            utt,
            len(loglikes),
            result.words,
            result.graph_cost,
            result.acoustic_cost,
            result.reached_final,
            sweep,
            lattice,
        )


@cache
def network_of(job: Job) -> Network:
    """Load the decoding graph of the one job that a worker process has, once."""
    return load_network(job.graph, job.model)


def decode_elsewhere(job: Job, utt: str, loglikes: np.ndarray) -> Decoded:
    """Decode one utterance in a worker process."""
    return job.decode(network_of(job), utt, loglikes)


def with_width(
    items: Iterator[tuple[str, np.ndarray]], num_pdfs: int, name: str
) -> Iterator[tuple[str, np.ndarray]]:
    """Pass on the matrices once the first of them fits the model."""
    first = next(items, None)
    if first is None:
        raise InputError(f"{name}: holds no utterance to decode")
    if first[1].shape[1] != num_pdfs:
        raise InputError(
            f"{name}: {first[0]} has {first[1].shape[1]} columns, the model {num_pdfs} pdfs"
        )
    return chain([first], items)


def decode_all(
    items: Iterable[tuple[str, np.ndarray]], job: Job, network: Network, nj: int
) -> Iterator[Decoded]:
    """Decode utterances in order, in this process or in `nj` others, a few ahead of the reader."""
    if nj == 1:
        yield from (job.decode(network, utt, loglikes) for utt, loglikes in items)
        return
    with ProcessPoolExecutor(nj, get_context("spawn")) as pool:
        ahead: deque[Future[Decoded]] = deque()
        for utt, loglikes in items:
            ahead.append(pool.submit(decode_elsewhere, job, utt, loglikes))
            if len(ahead) > 2 * nj:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()


def decode_archive(
    loglikes: Path | str,
    graph: Path,
    model: Path,
    out: Path,
    options: DecodeOptions,
    *,
    lmwts: Sequence[float] = (),
    wips: Sequence[float] = (0.0,),
    nj: int = 1,
    progress: bool = True,
) -> Summary:
    """Decode every utterance of an ark or scp of log-likelihoods [T, num_pdfs], unscaled.

    Reads `graph`/HCLG.fst, `graph`/words.txt and the transition model of `model`.  Writes in `out`
    words.txt, costs.txt (graph cost, unscaled acoustic cost), lat.1.gz (word lattices with unscaled
    acoustic costs) and a words.lmwtW.wipP.txt for each pair of weights.  Every utterance appears in
    every text file; one without a surviving path has no words and infinite costs.  Raises
    InputError at once for a graph, model and width that do not fit, and at the end, when all the
    others are written, for utterances that could not be decoded, which it names.
    """
    grid = tuple(weight_grid(lmwts, wips))
    symbols = {number: word for word, number in read_symbols(Path(graph) / "words.txt").items()}
    job = Job(Path(graph), Path(model), options, grid, choose_engine().name)
    network = load_network(job.graph, job.model)
    matrices = with_width(iter_matrices(loglikes, finite=False), network.num_pdfs, str(loglikes))
    summary, done = Summary(), []
    decoding = decode_all(matrices, job, network, nj)
    out = Path(out)
    with replacing(out / "lat.1.gz") as temporary, temporary.open("wb") as lattices:
        for decoded in tqdm(decoding, desc="decode", unit="utt", disable=not progress):
            count(summary, decoded)
            lattices.write(decoded.lattice)
            done.append(replace(decoded, lattice=b""))
    write_words({one.utt: one.words for one in done}, symbols, out / "words.txt")
    costs = ((one.utt, [f"{one.graph_cost:.7g}", f"{one.acoustic_cost:.7g}"]) for one in done)
    write_text(costs, out / "costs.txt")
    for k, (lmwt, wip) in enumerate(grid):
        path = out / f"words.lmwt{lmwt:g}.wip{wip:.1f}.txt"
        write_words({one.utt: one.sweep[k] for one in done}, symbols, path)
    if summary.failed:
        raise InputError("; ".join(summary.failed))
    return summary


def write_words(hypotheses: dict[str, list[int]], symbols: dict[int, str], path: Path) -> None:
    """Write hypotheses as Kaldi text."""
    write_text(((utt, [symbols[w] for w in words]) for utt, words in hypotheses.items()), path)


def count(summary: Summary, decoded: Decoded) -> None:
    """Add an utterance to the summary, and name it in the log if something is wrong with it."""
    summary.utterances += 1
    summary.frames += decoded.frames
    if decoded.error:
        summary.failed.append(decoded.error)
        LOG.error("%s", decoded.error)
    elif np.isinf(decoded.graph_cost):
        summary.empty.append(decoded.utt)
        LOG.warning("%s: no path reached a final state; its hypothesis is empty", decoded.utt)
    elif not decoded.reached_final:
        summary.partial.append(decoded.utt)
        LOG.warning("%s: no path reached a final state; partial words", decoded.utt)

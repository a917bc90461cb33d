"""Decode a whole archive of log-likelihoods into a folder of Kaldi files."""

import logging
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from tqdm import tqdm

from bayes_asr.decode.embedded import decode_utterance
from bayes_asr.decode.network import Network, load_network
from bayes_asr.decode.options import DecodeOptions, DecodeResult
from bayes_asr.decode.sweep import Weights, sweep_words, weight_grid
from bayes_asr.errors import InputError
from bayes_asr.tables.ark import iter_matrices
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
    error: str = ""


@dataclass
class Summary:
    """How a set was decoded: counts, and the names of what did not go well."""

    utterances: int = 0
    frames: int = 0
    partial: list[str] = field(default_factory=list)
    empty: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)


class Worker:
    """Decodes utterances one by one; each process builds its own from the two paths."""

    def __init__(self, network: Network, options: DecodeOptions, grid: Sequence[Weights]) -> None:
        """Keep what all utterances share."""
        self.network, self.options, self.grid = network, options, grid

    def decode(self, utt: str, loglikes: np.ndarray) -> Decoded:
        """Decode one utterance; its own faults become `error`, not an exception."""
        try:
            result = decode_utterance(self.network, utt, loglikes, self.options)
        except InputError as error:
            nothing: list[list[int]] = [[] for _ in self.grid]
            return Decoded(utt, len(loglikes), [], np.inf, np.inf, False, nothing, str(error))
        return Decoded(
            utt,
            len(loglikes),
            result.words,
            result.graph_cost,
            result.acoustic_cost,
            result.reached_final,
            self.rescore(result),
        )

    def rescore(self, result: DecodeResult) -> list[list[int]]:
        """Return the best words at every point of the grid."""
        if result.lattice is None:
            return [[] for _ in self.grid]
        return sweep_words(result.lattice, self.grid, self.options.acoustic_scale)


def start_worker(graph: Path, model: Path, options: DecodeOptions, grid: Sequence[Weights]) -> None:
    """Build the worker of a new process."""
    global _worker
    _worker = Worker(load_network(graph, model), options, grid)


def decode_in_worker(utt: str, loglikes: np.ndarray) -> Decoded:
    """Decode with the worker of this process."""
    return _worker.decode(utt, loglikes)


def decode_all(
    items: Iterable[tuple[str, np.ndarray]],
    graph: Path,
    model: Path,
    options: DecodeOptions,
    grid: Sequence[Weights],
    nj: int,
) -> Iterator[Decoded]:
    """Decode utterances in order, in this process or in `nj` others, a few ahead of the reader."""
    if nj == 1:
        worker = Worker(load_network(graph, model), options, grid)
        yield from (worker.decode(utt, loglikes) for utt, loglikes in items)
        return
    arguments = (graph, model, options, grid)
    with ProcessPoolExecutor(nj, get_context("spawn"), start_worker, arguments) as pool:
        ahead: deque[Future[Decoded]] = deque()
        for utt, loglikes in items:
            ahead.append(pool.submit(decode_in_worker, utt, loglikes))
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
    words.txt, costs.txt (graph cost, unscaled acoustic cost) and a words.lmwtW.wipP.txt for each
    pair of weights.  Every utterance appears in every file; one without a surviving path has no
    words, and one that failed raises InputError, naming it, when all the others are written.
    """
    grid = weight_grid(lmwts, wips)
    symbols = {number: word for word, number in read_symbols(Path(graph) / "words.txt").items()}
    matrices = iter_matrices(loglikes, finite=False)
    summary, done = Summary(), []
    decoding = decode_all(matrices, graph, model, options, grid, nj)
    for decoded in tqdm(decoding, desc="decode", unit="utt", disable=not progress):
        count(summary, decoded)
        done.append(decoded)
    if not done:
        raise InputError(f"{loglikes}: holds no utterance to decode")
    out = Path(out)
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

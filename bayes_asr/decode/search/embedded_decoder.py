"""The embedded decoder over an archive: the search of this package, utterances in parallel."""

import gzip
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from pathlib import Path

from bayes_asr.base.errors import InputError, naming
from bayes_asr.base.kept_results import KeptResults
from bayes_asr.base.log import LOGGER
from bayes_asr.base.processes.pool import map_serially, map_utterances
from bayes_asr.base.shards import Mapper
from bayes_asr.decode.lattices.mbr import sweep_mbr
from bayes_asr.decode.lattices.paths import sweep_words
from bayes_asr.decode.search.graph_dir import load_graph
from bayes_asr.decode.search.inputs import check_loglikes
from bayes_asr.decode.search.job import DecodedUtterance, DecodeJob, record_without_words
from bayes_asr.decode.search.loglikes import Loglikes, read_utterances
from bayes_asr.decode.search.search_graph import DecodingGraph
from bayes_asr.decode.search.shared_graph import SharedGraph, open_shared_graph, share_graph
from bayes_asr.decode.search.utterance import ENGINES, DecodeResult, choose_engine, decode_utterance
from bayes_asr.kaldi_io.lattice import CompactLattice
from bayes_asr.kaldi_io.lattice_files import lattice_bytes

Result = tuple[DecodedUtterance, bytes]  # of an utterance: its record and its gzipped lattice
COMPRESSION = 3  # of the lattices: half the time of gzip's own 6, one per cent more bytes


class EmbeddedDecoder:
    """Decodes with the search of this package, in C++ or NumPy.

    results: what `start_decoding` returned, where it is called before; kept: what it takes.
    """

    def __init__(
        self, results: Iterator[Result] | None = None, kept: KeptResults | None = None
    ) -> None:
        self._results, self._kept = results, kept

    def decode(self, job: DecodeJob, scratch: Path) -> Iterator[DecodedUtterance]:
        """Decode every utterance, in order, and write lattices as `scratch`/lat.1.gz."""
        with naming(scratch.parent / "lat.1.gz"), (scratch / "lat.1.gz").open("wb") as lattices:
            for decoded, lattice in self._results or start_decoding(job, kept=self._kept):
                lattices.write(lattice)
                yield decoded

    def find_trouble(self) -> str:
        """Say that the form BAYES_ASR_DECODER asks for is not there; otherwise it always is."""
        try:
            choose_engine()
        except InputError as error:
            return str(error)
        return ""


def start_decoding(
    job: DecodeJob, mapper: Mapper | None = None, kept: KeptResults | None = None
) -> Iterator[Result]:
    """Decode every utterance, in order, here or in shards; what does not fit is refused at once.

    kept: of an earlier call, where utterances are decoded here.
    """
    graph = load_graph(job)
    utterances = read_utterances(job.loglikes, graph)
    if mapper:
        return mapper(partial(decode_one, graph, job, choose_engine().name), utterances)
    decode = partial(decode_all, graph, job)
    return kept.go_on(decode, utterances, lasts) if kept else decode(utterances)


def lasts(result: Result) -> bool:
    """Whether decoding the utterance once more gives the same."""
    return not result[0].out_of_memory


def decode_all(
    graph: DecodingGraph, job: DecodeJob, utterances: Iterable[tuple[str, Loglikes]]
) -> Iterator[Result]:
    """Decode utterances, in order, here or by processes that have the graph once in memory."""
    engine = choose_engine().name
    if job.nj == 1:
        return map_serially(partial(decode_one, graph, job, engine), utterances)
    return _decode_by_processes(graph, job, engine, utterances)


def _decode_by_processes(
    graph: DecodingGraph, job: DecodeJob, engine: str, utterances: Iterable[tuple[str, Loglikes]]
) -> Iterator[Result]:
    with share_graph(graph) as shared:
        decode = partial(decode_elsewhere, shared, job, engine)
        yield from map_utterances(decode, utterances, job.nj)


def decode_elsewhere(
    shared: SharedGraph | None, job: DecodeJob, engine: str, utt: str, loglikes: Loglikes
) -> Result:
    """Decode one utterance in a worker process."""
    # Without shared memory each process reads the graph of the job itself.
    graph = open_shared_graph(shared) if shared else load_job_graph(job)
    return decode_one(graph, job, engine, utt, loglikes)


@cache
def load_job_graph(job: DecodeJob) -> DecodingGraph:
    """Load the decoding graph of the one job that a worker process has, once."""
    return load_graph(job)


def decode_one(
    graph: DecodingGraph, job: DecodeJob, engine: str, utt: str, loglikes: Loglikes
) -> Result:
    """Decode one utterance: its record and its gzipped lattice; its faults are in the record."""

    def decode() -> DecodeResult:
        checked = check_loglikes(graph, f"{job.loglikes}: {utt}", loglikes)
        return decode_utterance(graph, utt, checked, job.options, ENGINES[engine])

    return record_result(job, utt, 0 if isinstance(loglikes, InputError) else len(loglikes), decode)


def record_result(
    job: DecodeJob, utt: str, frames: int, decode: Callable[[], DecodeResult]
) -> Result:
    """Return what decoding an utterance gives, or the record of what keeps it from that."""
    # An utterance that fails must not end the decoding of the others.
    try:
        result = decode()
        sweep = read_sweep(job, utt, result.lattice)
    except InputError as error:
        return record_without_words(utt, frames, job, str(error)), b""
    except MemoryError as error:
        message = f"{job.loglikes}: {utt}: {error}"
        return record_without_words(utt, frames, job, message, out_of_memory=True), b""
    if result.lattice is None:
        return record_without_words(utt, frames, job), b""
    decoded = DecodedUtterance(
        utt,
        frames,
        result.words,
        result.graph_cost,
        result.acoustic_cost,
        result.reached_final,
        sweep,
    )
    return decoded, gzip.compress(lattice_bytes(utt, result.lattice), COMPRESSION, mtime=0)


def read_sweep(job: DecodeJob, utt: str, lattice: CompactLattice | None) -> list[list[int]]:
    """The words of a lattice at each point of the grid; none without a lattice.

    Where it is too large for least expected errors, those of its best paths.
    """
    if lattice is None:
        return []
    if job.mbr:
        try:
            return sweep_mbr(lattice, job.grid, utt)
        except InputError as error:
            LOGGER.warning("%s; it has the words of its best paths", error)
    return sweep_words(lattice, job.grid)

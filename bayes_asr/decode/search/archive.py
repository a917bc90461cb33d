"""Decode a whole archive of log-likelihoods into a folder of Kaldi files."""

import logging
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import discard, replacing, together
from bayes_asr.base.kept_results import KEPT, KeptResults
from bayes_asr.base.lock import alone_in
from bayes_asr.base.progress import follow
from bayes_asr.base.shards import Mapper
from bayes_asr.decode.search.embedded_decoder import EmbeddedDecoder, start_decoding
from bayes_asr.decode.search.job import DecodedUtterance, DecodeJob, Decoder, DecodeSummary
from bayes_asr.decode.search.kaldi import KaldiDecoder
from bayes_asr.decode.search.loglikes import count_listed
from bayes_asr.decode.search.search_record import RECORD, Record, describe_search, write_record
from bayes_asr.kaldi_io.symbols import WordSymbols
from bayes_asr.kaldi_io.text import write_text

LOG = logging.getLogger(__name__)
DECODERS: Mapping[str, Callable[[str, Path], Decoder]] = {
    "embedded": lambda cmd, logs: EmbeddedDecoder(),
    "kaldi": KaldiDecoder,
}
"""Decoders by the name of the backend, made of a command that runs jobs and a folder of logs."""
SCRATCH = ".decode."
OUTPUTS = ("lat.*.gz", "trans.*", "num_jobs")  # of a decoder; Kaldi's names
WORDS, COSTS = "words.txt", "costs.txt"
MOST_NAMED = 5  # failed utterances in the message; all are in the log


def choose_decoder(backend: str, logs: Path, cmd: str = "") -> Decoder:
    """Return the backend of this name; `cmd` and `logs` are for Kaldi's jobs."""
    if backend not in DECODERS:
        raise InputError(f"backend {backend!r}: known backends are {', '.join(DECODERS)}")
    return DECODERS[backend](cmd, logs)


def decode_archive(
    job: DecodeJob,
    out: Path,
    *,
    backend: str = "embedded",
    cmd: str = "",
    mapper: Mapper | None = None,
    kept: KeptResults | None = None,
    entries: Record | None = None,
) -> DecodeSummary:
    """Decode every utterance of a job.

    Reads `job.graph`/HCLG.fst or HCL.fst and G.fst (`inputs.graph_files`), `job.graph`/words.txt
    and the transition model of `job.model`.  Writes in `out` words.txt, costs.txt (graph cost,
    unscaled acoustic cost), lat.N.gz (word lattices with unscaled acoustic costs) and a
    words.lmwtW.wipP.txt for each pair of weights.  Every utterance appears in every text file; one
    without a surviving path has no words and infinite costs.  Raises InputError at once for a
    graph, model and width that do not fit, and at the end, when all the others are written, for
    utterances that could not be decoded, which it names.  By a `mapper` the embedded decoder
    computes in shards; otherwise it goes on with the results that are `kept`.  entries: of the
    record (`search_record`), beside the settings of the search; None: no record is written.
    """
    decoder = choose_decoder(backend, out / "log", cmd)
    if mapper:
        decoder = EmbeddedDecoder(start_decoding(job, mapper))
    elif kept:
        decoder = EmbeddedDecoder(kept=kept)
    return write_decoding(job, decoder, out, entries)


def write_decoding(
    job: DecodeJob, decoder: Decoder, out: Path, entries: Record | None
) -> DecodeSummary:
    """Decode all of a job and write the folder `out`, as `decode_archive`.

    entries: of the record, beside the settings of the search; None: no record is written.
    """
    symbols = WordSymbols(job.graph / "words.txt")
    summary, results = DecodeSummary(), []
    with alone_in(out), _scratch(out) as scratch:
        decoding = decoder.decode(job, scratch)
        for decoded in follow(decoding, "decode", total=count_listed(job.loglikes)):
            count(summary, decoded)
            results.append(decoded)
        # All files appear at once, those of an earlier decoding go with them.
        with together(out):
            discard(out / KEPT)
            discard(out / RECORD)  # an earlier one is not of these words
            if entries is not None:
                search = describe_search(job.graph, job.options, job.lm, job.hotwords, mbr=job.mbr)
                write_record({**search, **entries}, out)
            write_hypotheses(results, job, symbols, out)
            move_files(scratch, out)
    if summary.failed:
        names = "; ".join(summary.failed[:MOST_NAMED])
        suffix = " and others, see the log" if len(summary.failed) > MOST_NAMED else ""
        raise InputError(
            f"{len(summary.failed)} of {summary.utterances} utterances failed: {names}{suffix}"
        )
    return summary


@contextmanager
def _scratch(out: Path) -> Iterator[Path]:
    """A folder inside `out` while the block lasts; those of killed jobs are removed first."""
    for stale in out.glob(f"{SCRATCH}*"):
        shutil.rmtree(stale)
    with tempfile.TemporaryDirectory(dir=out, prefix=SCRATCH) as scratch:
        yield Path(scratch)


def move_files(scratch: Path, out: Path) -> None:
    """Move a decoder's files to their place; those of an earlier decoding are removed."""
    for pattern in OUTPUTS:
        fresh = {path.name: path for path in scratch.glob(pattern)}
        for stale in out.glob(pattern):
            if stale.name not in fresh:
                discard(stale)
        for name, path in fresh.items():
            with replacing(out / name) as temporary:
                path.replace(temporary)


def write_hypotheses(
    results: list[DecodedUtterance], job: DecodeJob, symbols: WordSymbols, out: Path
) -> None:
    """Write words, costs, and the words at each point of the grid; other points' files go away."""

    def write_words(path: Path, hypotheses: list[list[int]]) -> Path:
        pairs = zip(results, hypotheses, strict=True)
        write_text(((r.utt, [symbols[word] for word in words]) for r, words in pairs), path)
        return path

    write_words(out / WORDS, [result.words for result in results])
    costs = ((r.utt, [f"{r.graph_cost:.7g}", f"{r.acoustic_cost:.7g}"]) for r in results)
    write_text(costs, out / COSTS)
    fresh = [
        write_words(out / f"words.lmwt{lmwt:g}.wip{wip:.1f}.txt", [r.sweep[k] for r in results])
        for k, (lmwt, wip) in enumerate(job.grid)
    ]
    for stale in set(out.glob("words.lmwt*.wip*.txt")) - set(fresh):
        discard(stale)


def count(summary: DecodeSummary, decoded: DecodedUtterance) -> None:
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

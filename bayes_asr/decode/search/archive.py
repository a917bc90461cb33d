"""Decode a whole archive of log-likelihoods into a folder of Kaldi files."""

import logging
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import discard, replacing, together
from bayes_asr.base.lock import alone_in
from bayes_asr.base.progress import follow
from bayes_asr.base.shards import Mapper
from bayes_asr.decode.lattices.paths import pair_weights
from bayes_asr.decode.search.job import Decoded, DecodeJob, Decoder, Summary
from bayes_asr.decode.search.kaldi import KaldiDecoder
from bayes_asr.decode.search.options import DecodeOptions
from bayes_asr.decode.search.search_record import NAME, Record, describe_search, write_record
from bayes_asr.decode.search.workers import EmbeddedDecoder, start_decoding
from bayes_asr.kaldi_io.text import WordSymbols, write_text

LOG = logging.getLogger(__name__)
BACKENDS = ("embedded", "kaldi")
SCRATCH = ".decode."
KEPT = ("lat.*.gz", "trans.*", "num_jobs")  # of what a decoder leaves; Kaldi's names
MOST_NAMED = 5  # failed utterances in the message; all are in the log


def choose_decoder(backend: str, logs: Path, cmd: str = "") -> Decoder:
    """Return the backend of this name; `cmd` and `logs` are for Kaldi's jobs."""
    if backend not in BACKENDS:
        raise InputError(f"backend {backend!r}: known backends are {', '.join(BACKENDS)}")
    return KaldiDecoder(cmd, logs) if backend == "kaldi" else EmbeddedDecoder()


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
    backend: str = "embedded",
    cmd: str = "",
    way: Mapper | None = None,
    recorded: bool = False,
    lm: Path | None = None,
) -> Summary:
    """Decode every utterance of an ark or scp of log-likelihoods [T, num_pdfs], unscaled.

    Reads `graph`/HCLG.fst or HCL.fst and G.fst, `graph`/words.txt and the transition model of
    `model`; with `lm` that in the place of G.fst (`graph_dir.graph_files`).  Writes in `out`
    words.txt, costs.txt (graph cost, unscaled acoustic cost), lat.N.gz (word lattices with unscaled
    acoustic costs) and a words.lmwtW.wipP.txt for each pair of weights.  Every utterance appears in
    every text file; one without a surviving path has no words and infinite costs.  Raises
    InputError at once for a graph, model and width that do not fit, and at the end, when all the
    others are written, for utterances that could not be decoded, which it names.  By a `way` the
    embedded decoder computes in shards.  recorded: whether what the best weights depend on is noted
    beside the words.
    """
    out, grid = Path(out), tuple(pair_weights(lmwts, wips))
    job = DecodeJob(str(loglikes), Path(graph), Path(model), options, grid, nj, lm)
    decoder = choose_decoder(backend, out / "log", cmd)
    if way:
        decoder = EmbeddedDecoder(start_decoding(job, way))
    return write_folder(job, decoder, out, {} if recorded else None)


def write_folder(job: DecodeJob, decoder: Decoder, out: Path, noted: Record | None) -> Summary:
    """Decode all of a job and write the folder `out`, as `decode_archive`.

    noted: what is noted beside the settings of the search; None: nothing is.
    """
    symbols = WordSymbols(job.graph / "words.txt")
    summary, done = Summary(), []
    with alone_in(out), _scratch(out) as folder:
        decoding = decoder.decode(job, folder)
        for decoded in follow(decoding, "decode"):
            count(summary, decoded)
            done.append(decoded)
        with together(out):
            discard(out / NAME)  # what it says is not of these words
            if noted is not None:
                write_record({**describe_search(job.graph, job.options, job.lm), **noted}, out)
            write_hypotheses(done, job, symbols, out)
            put_files(folder, out)
    if summary.failed:
        named = "; ".join(summary.failed[:MOST_NAMED])
        more = " and others, see the log" if len(summary.failed) > MOST_NAMED else ""
        raise InputError(
            f"{len(summary.failed)} of {summary.utterances} utterances failed: {named}{more}"
        )
    return summary


@contextmanager
def _scratch(out: Path) -> Iterator[Path]:
    """A folder inside `out` while the block lasts; those that killed jobs have left go first."""
    for left in out.glob(f"{SCRATCH}*"):
        shutil.rmtree(left)
    with tempfile.TemporaryDirectory(dir=out, prefix=SCRATCH) as folder:
        yield Path(folder)


def put_files(folder: Path, out: Path) -> None:
    """Move what a decoder has left to its place; of an earlier decoding nothing of it stays."""
    for pattern in KEPT:
        fresh = {path.name: path for path in folder.glob(pattern)}
        for stale in out.glob(pattern):
            if stale.name not in fresh:
                discard(stale)
        for name, path in fresh.items():
            with replacing(out / name) as temporary:
                path.replace(temporary)


def write_hypotheses(done: list[Decoded], job: DecodeJob, symbols: WordSymbols, out: Path) -> None:
    """Write words, costs, and the words at each point of the grid; other points' files go away."""

    def write_words(path: Path, hypotheses: list[list[int]]) -> Path:
        named = zip(done, hypotheses, strict=True)
        write_text(((one.utt, [symbols[word] for word in words]) for one, words in named), path)
        return path

    write_words(out / "words.txt", [one.words for one in done])
    costs = ((one.utt, [f"{one.graph_cost:.7g}", f"{one.acoustic_cost:.7g}"]) for one in done)
    write_text(costs, out / "costs.txt")
    fresh = [
        write_words(out / f"words.lmwt{lmwt:g}.wip{wip:.1f}.txt", [one.sweep[k] for one in done])
        for k, (lmwt, wip) in enumerate(job.grid)
    ]
    for stale in set(out.glob("words.lmwt*.wip*.txt")) - set(fresh):
        discard(stale)


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

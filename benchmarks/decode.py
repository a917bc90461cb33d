"""How fast and how large decoding is: the C++ search beside its NumPy reference, and Kaldi's own
latgen-faster-mapped where KALDI_ROOT says there is one.

Search and determinization of the shared golden log-likelihoods are timed on one thread, all
variants in turn, round after round, so that what else the machine does meets all of them; the
medians over the rounds are printed.  The real-time factor is CPU seconds per second of speech.  A
second part decodes a minute of made-up speech on a made-up graph of 35,000 states, each variant in
a process of its own, whose peak memory is printed.  A third sends the golden log-likelihoods again
and again, 10 frames at a time, as one utterance of many minutes, whose lattice is determinized at
its end or in pieces.

    python benchmarks/decode.py [--json FILE] [--data DIR] [--rounds 5] [--only golden|long|stream]
"""

import argparse
import os
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from itertools import cycle, product
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import record

from bayes_asr.base.jobs import run_jobs
from bayes_asr.base.kaldi_programs import find_program
from bayes_asr.config.decoding_keys import SearchOptions
from bayes_asr.decode.search import compiled
from bayes_asr.decode.search.graph_dir import load_decoding_graph
from bayes_asr.decode.search.lattice_session import LatticeSession
from bayes_asr.decode.search.search_graph import Arcs, DecodingGraph
from bayes_asr.decode.search.utterance import ENGINES, decode_utterance, read_lattice
from bayes_asr.kaldi_io.ark import iter_matrices

DATA = Path(os.environ.get("BAYES_ASR_DATA", Path(__file__).resolve().parents[2] / "shared/data"))
SCALES = {
    ("timit_sample", "gmm"): 0.2,
    ("timit_sample", "nn"): 0.2,
    ("an4", "gmm"): 0.083333,
    ("an4", "nn"): 0.1,
}
FRAMES_PER_SECOND = 100
MARGIN = 10  # of the right pdf over the others, before the acoustic scale: lattices become dense
PHONES, STATES, WORDS, PHONES_PER_WORD = 40, 3, 1944, 6
Row = dict[str, Any]


def engine_names() -> list[str]:
    """The engines that are there, the reference last."""
    return [name for name in ("native", "numpy") if name == "numpy" or compiled.LIBRARY.usable]


def time_golden(corpus: str, kind: str, data: Path, rounds: int) -> list[Row]:
    """Time all variants on one golden set at setting a."""
    graph, model, loglikes = golden_files(corpus, kind, data)
    options = SearchOptions(SCALES[corpus, kind], 13.0, 7000, 200, 8.0, True)
    network, items = load_decoding_graph(graph, model), list(iter_matrices(loglikes))

    def run(engine: str) -> None:
        for utt, matrix in items:
            decode_utterance(network, utt, matrix, options, ENGINES[engine])

    variants: dict[str, Callable[[], None]] = {
        engine: partial(run, engine) for engine in engine_names()
    }
    if "KALDI_ROOT" in os.environ:
        variants["latgen-faster-mapped"] = lambda: run_latgen(graph, model, loglikes, options)
    seconds: dict[str, list[float]] = {name: [] for name in variants}
    for _ in range(rounds):
        for name, variant in variants.items():
            before = cpu_seconds()
            variant()
            seconds[name].append(cpu_seconds() - before)
    frames = sum(len(matrix) for _, matrix in items)
    median = {name: statistics.median(values) for name, values in seconds.items()}
    return [
        {
            "set": f"{corpus} {kind}",
            "decoder": name,
            "frames": frames,
            "cpu_seconds": median[name],
            "real_time_factor": median[name] * FRAMES_PER_SECOND / frames,
            "speed_relative_to_numpy": median["numpy"] / median[name],
        }
        for name in variants
    ]


def golden_files(corpus: str, kind: str, data: Path) -> tuple[Path, Path, Path]:
    """Graph, model and log-likelihoods of a golden set."""
    root = data / "kaldi" / corpus
    loglikes = root / "golden/decode" / kind / "loglikes.ark"
    return root / "exp/tri3/graph", root / "exp/tri3_ali/final.mdl", loglikes


def cpu_seconds() -> float:
    """CPU time of this process and of those that it waited for."""
    usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in usage)


def run_latgen(graph: Path, model: Path, loglikes: Path, options: SearchOptions) -> None:
    """Decode with Kaldi's program; its lattices are thrown away."""
    names = ("acoustic_scale", "beam", "max_active", "min_active", "lattice_beam")
    chosen = [f"--{name.replace('_', '-')}={getattr(options, name)}" for name in names]
    program = [find_program("latgen-faster-mapped"), *chosen, "--allow-partial=true"]
    with tempfile.TemporaryDirectory() as folder:
        files = [str(model), str(graph / "HCLG.fst"), f"ark:{loglikes}", "ark:/dev/null"]
        run_jobs([*program, *files], 1, Path(folder) / "log")


def made_up_graph(rng: np.random.Generator) -> tuple[DecodingGraph, np.ndarray]:
    """A loop over words of HMMs, 35,000 states, and the pdfs of each word's states [W, L].

    Transition-ids are numbered as in Kaldi: for each state the self-loop, then the way on.
    """
    length = PHONES_PER_WORD * STATES
    phones = rng.integers(0, PHONES, (WORDS, PHONES_PER_WORD))
    pdfs = (phones[:, :, None] * STATES + np.arange(STATES)).reshape(WORDS, length)
    state = 1 + np.arange(WORDS * length).reshape(WORDS, length)
    before = np.concatenate([np.zeros((WORDS, 1), int), state[:, :-1]], axis=1)
    loop = 2 * pdfs + 1
    source = np.concatenate([before.ravel(), state.ravel()])
    enter = np.where(np.arange(length) == 0, 1 + np.arange(WORDS)[:, None], 0)
    unigram = np.where(np.arange(length) == 0, rng.exponential(1.0, (WORDS, 1)) + 6.0, 0.7)
    order = np.argsort(source, kind="stable")
    states = WORDS * length + 1
    ilabel = np.concatenate([(loop + 1).ravel(), loop.ravel()])[order]
    emitting = Arcs(
        offsets=np.searchsorted(source[order], np.arange(states + 1)).astype(np.int64),
        ilabel=ilabel.astype(np.int32),
        olabel=np.concatenate([enter.ravel(), 0 * loop.ravel()])[order].astype(np.int32),
        weight=np.concatenate([unigram.ravel(), 0.7 + 0 * loop.ravel()])[order].astype(np.float32),
        nextstate=np.concatenate([state.ravel(), state.ravel()])[order].astype(np.int32),
    )
    ends, none = state[:, -1], np.zeros(WORDS, np.int32)
    epsilon = Arcs(
        offsets=np.searchsorted(ends, np.arange(states + 1)).astype(np.int64),
        ilabel=none,
        olabel=none,
        weight=np.zeros(WORDS, np.float32),
        nextstate=none,
    )
    final = np.full(states, np.inf, np.float32)
    final[0] = 0
    begins = np.arange(2 * PHONES * STATES + 1) % (2 * STATES) == 2
    phone = (np.arange(len(begins)) - 1) // (2 * STATES) + 1
    network = DecodingGraph(
        start=0,
        final=final,
        emitting=emitting,
        epsilon=epsilon,
        column=((ilabel - 1) // 2).astype(np.int32),
        phone_start=np.where(begins, phone, 0).astype(np.int32),
        num_pdfs=PHONES * STATES,
        name="made up",
    )
    return network, pdfs


def made_up_speech(
    rng: np.random.Generator, pdfs: np.ndarray, frames: int, noise: float
) -> np.ndarray:
    """Log-likelihoods [frames, pdfs] of random words: noise, and a margin for the right pdf."""
    spoken: list[np.ndarray] = []
    while sum(map(len, spoken)) < frames:
        word = pdfs[rng.integers(WORDS)]
        spoken.append(np.repeat(word, rng.integers(1, 6, len(word))))
    loglikes = rng.normal(0, noise, (frames, PHONES * STATES))
    loglikes[np.arange(frames), np.concatenate(spoken)[:frames]] += MARGIN
    return loglikes.astype(np.float32)


def decode_long(engine: str, seconds: int, noise: float, beam: float) -> Row:
    """Decode made-up speech; run in a process of its own, so that its memory can be told."""
    rng = np.random.default_rng(0)
    network, pdfs = made_up_graph(rng)
    loglikes = made_up_speech(rng, pdfs, seconds * FRAMES_PER_SECOND, noise)
    options = SearchOptions(0.1, beam, 7000, 200, 8.0, allow_partial=True)
    start, clock = peak_megabytes(), time.process_time()
    result = decode_utterance(network, "made-up", loglikes, options, ENGINES[engine])
    cpu = time.process_time() - clock
    return {
        "set": f"{seconds} s, {network.num_states} states",
        "decoder": engine,
        "frames": len(loglikes),
        "cpu_seconds": cpu,
        "real_time_factor": cpu / seconds,
        "words": len(result.words),
        "peak_megabytes": peak_megabytes(),
        "megabytes_before": start,
    }


def decode_stream(corpus: str, kind: str, data: Path, minutes: float, in_pieces: bool) -> Row:
    """Decode a golden set, repeated, as one utterance; run in a process of its own."""
    graph, model, loglikes = golden_files(corpus, kind, data)
    options = SearchOptions(SCALES[corpus, kind], 13.0, 7000, 200, 8.0, True)
    network, items = load_decoding_graph(graph, model), list(iter_matrices(loglikes))
    engine = ENGINES["native"]
    session = LatticeSession(network, "stream", options, engine)
    whole = engine.open(network, options)
    frames, start, clock = 0, peak_megabytes(), time.process_time()
    for _, matrix in cycle(items):
        for begin in range(0, len(matrix), 10):
            piece = matrix[begin : begin + 10]
            if in_pieces:
                session.advance(piece)
            else:
                whole.advance(np.float32(options.acoustic_scale) * piece)
        frames += len(matrix)
        if frames >= 60 * minutes * FRAMES_PER_SECOND:
            break
    end = time.process_time()
    if in_pieces:
        lattice, _ = session.finish()
    else:
        state_level, reached = whole.finish()
        lattice = read_lattice(network, "stream", state_level, reached, options, engine).lattice
    return {
        "set": f"{corpus} {kind}",
        "lattice": "in pieces" if in_pieces else "at the end",
        "frames": frames,
        "cpu_seconds": end - clock,
        "cpu_seconds_of_the_end": time.process_time() - end,
        "arcs": 0 if lattice is None else len(lattice.word),
        "peak_megabytes": peak_megabytes(),
        "megabytes_before": start,
    }


def peak_megabytes() -> float:
    """The most memory that this process has held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Print the figures, and write them as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    record.add_options(parser)
    parser.add_argument("--data", type=Path, default=DATA, help="the shared data")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=("golden", "long", "stream"))
    parser.add_argument("--engine", choices=engine_names(), help="for the minute, only this one")
    parser.add_argument("--seconds", type=int, default=60, help="of made-up speech")
    parser.add_argument("--minutes", type=float, default=10, help="of the stream")
    parser.add_argument("--noise", type=float, default=8.0, help="in made-up speech, deviation")
    parser.add_argument("--beam", type=float, default=13.0, help="for made-up speech")
    args = parser.parse_args()
    rows: list[Row] = []

    def show(found: list[Row]) -> None:
        rows.extend(found)
        for row in found:
            values = (f"{k} {v:.3g}" if isinstance(v, float) else str(v) for k, v in row.items())
            print("  ".join(values), flush=True)

    if args.only in (None, "golden"):
        for corpus, kind in SCALES:
            show(time_golden(corpus, kind, args.data, args.rounds))
    if args.only in (None, "long"):
        for engine in [args.engine] if args.engine else engine_names():
            with get_context("spawn").Pool(1) as pool:
                show([pool.apply(decode_long, (engine, args.seconds, args.noise, args.beam))])
    if args.only in (None, "stream"):
        for (corpus, kind), in_pieces in product(SCALES, (False, True)):
            with get_context("spawn").Pool(1) as pool:
                given = (corpus, kind, args.data, args.minutes, in_pieces)
                show([pool.apply(decode_stream, given)])
    record.save(rows, "decode", args)


if __name__ == "__main__":
    main()

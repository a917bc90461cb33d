"""The log-likelihoods of all utterances of a data directory."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, tee
from pathlib import Path
from typing import TypeVar

import numpy as np

from bayes_asr.config import load as load_config
from bayes_asr.corpus.sets import data_dir, report_skipped
from bayes_asr.errors import InputError, needing_memory
from bayes_asr.features.stored import Features
from bayes_asr.files import is_there, together
from bayes_asr.forward.average import Averaged, Computed
from bayes_asr.forward.log_likelihoods import LogLikelihoods, load, load_members
from bayes_asr.forward.onnx_network import OnnxNetwork
from bayes_asr.forward.output import DECODED, Output
from bayes_asr.lock import alone_in
from bayes_asr.log import LOGGER
from bayes_asr.nn.network import States
from bayes_asr.progress import follow
from bayes_asr.runs.combination import read_combination
from bayes_asr.shards import Way
from bayes_asr.tables.ark import write_matrices
from bayes_asr.tables.binary import OpenPipe
from bayes_asr.tables.copied import copy_tables
from bayes_asr.tables.text import DataDir, read_data_dir

BATCH_SEQUENCES, BATCH_FRAMES = 64, 10_000
Item = TypeVar("Item", np.ndarray, range)  # has as many elements as the utterance frames
Used = TypeVar("Used")

Network = LogLikelihoods | OnnxNetwork
Compute = Callable[[Iterable[str]], Iterator[Computed]]
"""Utterances -> what is computed of each."""


def forward(
    run: Path,
    out: Path,
    *,
    data: Path | None = None,
    on: str | None = None,
    counts: Path | None = None,
    max_skipped: float = 0.0,
    open_pipe: OpenPipe | None = None,
    chunk: int | None = None,
    way: Way | None = None,
    onnx: Path | None = None,
    output: Output = DECODED,
) -> int:
    """Write `out`/loglikes.{ark,scp} for the Kaldi directory `data` or the run's own set `on`.

    Of a layer, `out` becomes a data directory of its outputs; of posteriors, the file has another
    name (`Output.file`).

    Every utterance is computed, aligned or not. Of those of utt2spk a share of `max_skipped` may
    lack features; they are named. chunk: how many frames are computed at a time, in networks that
    do not look ahead; onnx: what `bayes-asr export` has written of the run, to compute with; way:
    how shards are computed, None for here; output: what is computed. Returns how many are written.
    """
    compute, features = _open(run, output, data, on, counts, max_skipped, open_pipe, chunk, onnx)
    if output.layer and out.resolve() in [path.resolve() for path in features.directories]:
        raise InputError(f"{out}: is the data directory that is read; choose another folder")
    if way:
        items = _share(way, features, compute, lambda utt, x: (utt, x))
    else:
        items = compute(follow(features.utterances, "forward"))
    archive = out / f"{output.file}.ark"
    with alone_in(out), together(out):
        written = write_matrices(items, archive, archive.with_suffix(".scp"))
        if output.layer:
            copy_tables(features.directories, out)
    LOGGER.info("wrote the %s of %d utterances to %s", output.file, written, archive)
    return written


def _open(
    run: Path,
    output: Output,
    data: Path | None,
    on: str | None,
    counts: Path | None,
    max_skipped: float,
    open_pipe: OpenPipe | None,
    chunk: int | None,
    onnx: Path | None,
) -> tuple[Compute, Features]:
    """What computes utterances by the network of a run, or by those that it combines, and the
    features of the first of them.
    """

    def open_one(run: Path, network: Network) -> tuple[Network, Features]:
        directory = _find_data(run, data, on, open_pipe)
        return network, open_features(network, directory, max_skipped, open_pipe)

    combination = None if onnx else read_combination(run)
    if combination is None:
        network, features = open_one(run, OnnxNetwork(onnx) if onnx else load(run, counts, output))
        return partial(_compute, network, features, chunk=chunk), features
    networks = load_members(combination, output, counts)
    averaged = Averaged(networks, combination, output.kind)
    opened = [open_one(*one) for one in zip(combination.runs, networks, strict=True)]
    averaged.check_utterances([features.utterances for _, features in opened])

    def compute(utterances: Iterable[str]) -> Iterator[Computed]:
        given = zip(opened, tee(utterances, len(opened)), strict=True)
        return averaged.combine_utterances([_compute(*one, some, chunk) for one, some in given])

    return compute, opened[0][1]


def _find_data(run: Path, data: Path | None, on: str | None, open_pipe: OpenPipe | None) -> DataDir:
    """The directory `data`, or that of a set of a run."""
    recorded = run / "config.yaml"
    if data:  # for which the network alone would do
        moves = load_config([recorded]).data.moves if is_there(recorded) else ()
        return read_data_dir(data, open_pipe=open_pipe, moves=moves)
    return data_dir(load_config([recorded]), on or "dev", open_pipe)


def log_likelihoods(
    network: Network,
    data: DataDir,
    max_skipped: float,
    open_pipe: OpenPipe | None = None,
    limited_by: str = "--max-skipped",
    chunk: int | None = None,
) -> Iterator[tuple[str, np.ndarray]]:
    """Yield utterances and their log-likelihoods [T, P], computed a few utterances at a time, or
    one by one with `chunk` frames at a time.

    Those of utt2spk that lack features are named first; InputError if they are a larger share than
    `max_skipped`, the message calling that limit `limited_by`.
    """
    features = open_features(network, data, max_skipped, open_pipe, limited_by)
    yield from _compute(network, features, follow(features.utterances, "forward"), chunk)


def open_features(
    network: Network,
    data: DataDir,
    max_skipped: float,
    open_pipe: OpenPipe | None = None,
    limited_by: str = "--max-skipped",
) -> Features:
    """The features that a network reads; the limits are those of `log_likelihoods`."""
    features = Features(data, network.front_end, open_pipe=open_pipe)
    why, total = f"no features in {data.path}", len(data.utt2spk)
    report_skipped(why, features.missing, total, max_skipped, limited_by)
    return features


def share_log_likelihoods(
    way: Way,
    network: Network,
    features: Features,
    use: Callable[[str, np.ndarray], Used],
    chunk: int | None = None,
) -> Iterator[Used]:
    """What `use` makes of utterances and their log-likelihoods [T, P], computed in shards.

    What is computed together is what would be here, so the numbers are the same to the last bit.
    """
    return _share(way, features, partial(_compute, network, features, chunk=chunk), use)


def _share(
    way: Way, features: Features, compute: Compute, use: Callable[[str, np.ndarray], Used]
) -> Iterator[Used]:
    """What `use` makes of what `compute` gives, likewise."""

    def work(_: str, utterances: Sequence[str]) -> list[Used]:
        return [use(utt, computed) for utt, computed in compute(utterances)]

    sizes = ((utt, range(_count_frames(features, utt))) for utt in features.utterances)
    groups = ([utt for utt, _ in group] for group in _groups(sizes))
    return chain.from_iterable(way(work, ((group[0], group) for group in groups)))


def _count_frames(features: Features, utt: str) -> int:
    return (features.read_shape(utt) or features.read(utt).shape)[0]


def _compute(
    network: Network, features: Features, utterances: Iterable[str], chunk: int | None
) -> Iterator[Computed]:
    matrices = ((utt, _read_input(features, utt, network.front_end.size)) for utt in utterances)
    if chunk and isinstance(network, LogLikelihoods):
        return in_chunks(network, matrices, chunk)
    return in_batches(network, matrices)


def _read_input(features: Features, utt: str, expected: int) -> np.ndarray:
    matrix = features[utt]
    if matrix.shape[1] != expected:
        raise InputError(
            f"{features.where(utt)}: {utt} has {matrix.shape[1]} dimensions, but the"
            f" network was trained on {expected}; use the features it was trained on"
        )
    return matrix


def in_chunks(
    network: LogLikelihoods, utterances: Iterable[tuple[str, np.ndarray]], chunk: int
) -> Iterator[tuple[str, np.ndarray]]:
    """Yield log-likelihoods [T, P] of prepared utterances [T, F'], `chunk` frames at a time.

    The state goes on from chunk to chunk: the numbers are those of the whole utterance. InputError
    for a network that looks ahead.
    """
    network.check_causal()
    for utt, matrix in utterances:
        loglikes = np.empty((len(matrix), network.size), np.float32)
        states: States = []
        for start in range(0, len(matrix), chunk):
            some = slice(start, start + chunk)
            with needing_memory(partial(_describe, [(utt, matrix[some])])):
                computed, states = network.advance(matrix[some], states)
            loglikes[some] = computed.numpy()
        yield utt, loglikes


def in_batches(
    network: Network, utterances: Iterable[tuple[str, np.ndarray]]
) -> Iterator[tuple[str, np.ndarray]]:
    """Yield log-likelihoods [T, P] of prepared utterances [T, F'], many computed together.

    Up to BATCH_SEQUENCES utterances and BATCH_FRAMES frames, or one that is longer.
    """
    for group in _groups(utterances):
        with needing_memory(partial(_describe, group)):
            computed = network.of_prepared([matrix for _, matrix in group])
        for (utt, _), loglikes in zip(group, computed, strict=True):
            yield utt, loglikes.numpy()


def _describe(group: list[tuple[str, np.ndarray]]) -> str:
    """Utterances that lack memory together, and what to do."""
    longest, matrix = max(group, key=lambda item: len(item[1]))
    return (
        f"for {len(group)} utterances of {sum(len(x) for _, x in group)} frames, {longest} with"
        f" {len(matrix)}; close other programs, raise the limit on memory (ulimit -v), or cut long"
        " recordings into segments"
    )


def _groups(utterances: Iterable[tuple[str, Item]]) -> Iterator[list[tuple[str, Item]]]:
    group: list[tuple[str, Item]] = []
    frames = 0
    for item in utterances:
        if group and (len(group) == BATCH_SEQUENCES or frames + len(item[1]) > BATCH_FRAMES):
            yield group
            group, frames = [], 0
        group.append(item)
        frames += len(item[1])
    if group:
        yield group

"""The log-likelihoods of all utterances of a data directory."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, groupby, tee
from pathlib import Path
from typing import TypeVar, cast

import numpy as np

from bayes_asr.base.errors import InputError, needing_memory
from bayes_asr.base.files import together
from bayes_asr.base.lock import alone_in
from bayes_asr.base.log import LOGGER
from bayes_asr.base.progress import follow
from bayes_asr.base.shards import Mapper
from bayes_asr.config.catalogue import nearest
from bayes_asr.data.corpus.sets import stream_dirs
from bayes_asr.data.features.front_end import FEATURES
from bayes_asr.data.features.stored import Features
from bayes_asr.data.features.streams import StoredStreams, report_lacking
from bayes_asr.decode.forward.average import Averaged, Computed
from bayes_asr.decode.forward.log_likelihoods import LogLikelihoods, load, load_members
from bayes_asr.decode.forward.onnx_network import OnnxNetwork
from bayes_asr.decode.forward.output import DECODED, Output
from bayes_asr.kaldi_io.ark import write_matrices
from bayes_asr.kaldi_io.binary import OpenPipe
from bayes_asr.kaldi_io.combine_data import copy_tables
from bayes_asr.kaldi_io.text import DataDir, read_data_dir
from bayes_asr.nn.layer import Layer
from bayes_asr.nn.network import States
from bayes_asr.train.runs.combination import read_combination
from bayes_asr.train.runs.configuration import read_configuration

BATCH_SEQUENCES, BATCH_FRAMES = 64, 10_000
BATCH_NUMBERS = 2**26  # that a layer hands on of all frames of a batch
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
    streams: Mapping[str, Path] | None = None,
    on: str | None = None,
    counts: Path | None = None,
    max_skipped: float | None = None,
    open_pipe: OpenPipe | None = None,
    chunk: int | None = None,
    way: Mapper | None = None,
    onnx: Path | None = None,
    output: Output = DECODED,
) -> int:
    """Write `out`/loglikes.{ark,scp} for the Kaldi directory `data` or the run's own set `on`.

    Of a layer, `out` becomes a data directory of its outputs; of posteriors, the file has another
    name (`Output.file`).

    streams: the directories of further streams beside `data`, by name.
    Every utterance is computed, aligned or not. Of those of utt2spk a share of `max_skipped`, by
    default data.max_skipped of the run, may lack features; they are named. chunk: how many frames
    are computed at a time, in networks that do not look ahead; onnx: what `bayes-asr export` has
    written of the run, to compute with; way: how shards are computed, None for here; output: what
    is computed. Returns how many are written.
    """
    members, averaged = _load(run, output, counts, onnx)
    networks, opened = [network for _, network in members], []
    for one, network in members:
        directories = find_streams(one, networks, data, streams or {}, on or "dev", open_pipe)
        limit = choose_limit(one, max_skipped)
        opened.append((network, open_streams(network, directories, limit, open_pipe)))
    features = opened[0][1]
    frames = choose_batch_frames(networks)
    if output.layer and out.resolve() in [path.resolve() for path in features.directories]:
        raise InputError(f"{out}: is the data directory that is read; choose another folder")
    compute: Compute = partial(_compute, *opened[0], chunk=chunk, frames=frames)
    if averaged:
        compute = _average(averaged, opened, chunk, frames)
    if way:
        items = _share(way, features, compute, lambda utt, x: (utt, x), frames)
    else:
        items = compute(follow(features.utterances, "forward"))
    archive = out / f"{output.file}.ark"
    with alone_in(out), together(out):
        written = write_matrices(items, archive, archive.with_suffix(".scp"))
        if output.layer:
            copy_tables(features.first.directories, out)
    LOGGER.info("wrote the %s of %d utterances to %s", output.file, written, archive)
    return written


def _load(
    run: Path, output: Output, counts: Path | None, onnx: Path | None
) -> tuple[list[tuple[Path, Network]], Averaged | None]:
    """The networks of a run, each with the run that it is of, and what averages them."""
    combination = None if onnx else read_combination(run)
    if combination is None:
        return [(run, OnnxNetwork(onnx) if onnx else load(run, counts, output))], None
    networks = load_members(combination, output, counts)
    averaged = Averaged(networks, combination, output.kind)
    return list(zip(combination.runs, networks, strict=True)), averaged


def _average(
    averaged: Averaged,
    opened: Sequence[tuple[Network, StoredStreams]],
    chunk: int | None,
    frames: int,
) -> Compute:
    """What computes utterances by several networks, each on its own features of them."""
    averaged.check_utterances([features.utterances for _, features in opened])

    def compute(utterances: Iterable[str]) -> Iterator[Computed]:
        given = zip(opened, tee(utterances, len(opened)), strict=True)
        return averaged.combine_utterances(
            [_compute(*one, some, chunk, frames) for one, some in given]
        )

    return compute


def choose_limit(run: Path, max_skipped: float | None) -> float:
    """The share of utterances that may be skipped: data.max_skipped of the run, unless given."""
    return read_configuration(run).data.max_skipped if max_skipped is None else max_skipped


def find_streams(
    run: Path,
    networks: Sequence[Network],
    data: Path | None,
    further: Mapping[str, Path],
    on: str,
    open_pipe: OpenPipe | None = None,
) -> dict[str, DataDir]:
    """The data directories of all streams by name: `data` and the `further` ones, or those of the
    run's own set `on`.

    InputError for a further one that none of the networks reads.
    """
    config = read_configuration(run)
    if not data:
        return stream_dirs(config, on, open_pipe)
    known = dict.fromkeys(name for network in networks for name in network.front_ends)
    for name in further:
        if name not in known:
            raise InputError(
                f"this network reads no stream {name}, but {', '.join(known)}{nearest(name, known)}"
            )
    return {
        name: read_data_dir(path, open_pipe=open_pipe, moves=config.data.moves)
        for name, path in {FEATURES: data, **further}.items()
    }


def log_likelihoods(
    network: Network,
    directories: Mapping[str, DataDir],
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
    features = open_streams(network, directories, max_skipped, open_pipe, limited_by)
    utterances = follow(features.utterances, "forward")
    yield from _compute(network, features, utterances, chunk, choose_batch_frames([network]))


def open_streams(
    network: Network,
    directories: Mapping[str, DataDir],
    max_skipped: float,
    open_pipe: OpenPipe | None = None,
    limited_by: str = "--max-skipped",
) -> StoredStreams:
    """The streams that a network reads, of those that there are; the limits are those of
    `log_likelihoods`. InputError where one is missing.
    """
    if missing := [name for name in network.front_ends if name not in directories]:
        wanted = " ".join(f"--stream {name}=DIR" for name in missing)
        raise InputError(
            f"this network reads {', '.join(network.front_ends)}: give {wanted}, or --on SET"
            " for a set of the run"
        )
    opened = StoredStreams(
        {
            name: Features(directories[name], front_end, open_pipe=open_pipe)
            for name, front_end in network.front_ends.items()
        }
    )
    read = {name: directories[name] for name in network.front_ends}
    report_lacking(read, max_skipped, limited_by)
    if isinstance(network, LogLikelihoods):
        spoken = opened.first.speakers
        network.name_strangers(
            opened.first.directories[0], (spoken[utt] for utt in opened.utterances)
        )
    return opened


def share_log_likelihoods(
    way: Mapper,
    network: Network,
    features: StoredStreams,
    use: Callable[[str, np.ndarray], Used],
    chunk: int | None = None,
) -> Iterator[Used]:
    """What `use` makes of utterances and their log-likelihoods [T, P], computed in shards.

    What is computed together is what would be here, so the numbers are the same to the last bit.
    """
    frames = choose_batch_frames([network])
    compute = partial(_compute, network, features, chunk=chunk, frames=frames)
    return _share(way, features, compute, use, frames)


def _share(
    way: Mapper,
    features: StoredStreams,
    compute: Compute,
    use: Callable[[str, np.ndarray], Used],
    frames: int,
) -> Iterator[Used]:
    """What `use` makes of what `compute` gives, likewise."""

    def work(_: str, utterances: Sequence[str]) -> list[Used]:
        return [use(utt, computed) for utt, computed in compute(utterances)]

    sizes = ((utt, range(features.count_frames(utt))) for utt in features.utterances)
    groups = ([utt for utt, _ in group] for group in _groups(sizes, frames))
    return chain.from_iterable(way(work, ((group[0], group) for group in groups)))


def _compute(
    network: Network,
    features: StoredStreams,
    utterances: Iterable[str],
    chunk: int | None,
    frames: int,
) -> Iterator[Computed]:
    if not isinstance(network, LogLikelihoods) or not network.speakers:
        yield from _compute_alike(network, features, utterances, chunk, frames)
        return
    for speaker, some in groupby(utterances, features.first.speakers.__getitem__):
        network.speak_as(speaker)
        yield from _compute_alike(network, features, some, chunk, frames)
    network.speak_as(None)


def _compute_alike(
    network: Network,
    features: StoredStreams,
    utterances: Iterable[str],
    chunk: int | None,
    frames: int,
) -> Iterator[Computed]:
    """What `_compute` gives, of utterances that one set of parameters is for."""
    matrices = ((utt, features[utt]) for utt in utterances)
    if chunk and isinstance(network, LogLikelihoods):
        return in_chunks(network, matrices, chunk)
    return in_batches(network, matrices, frames)


def choose_batch_frames(networks: Iterable[Network]) -> int:
    """How many frames are computed together: fewer where a layer hands on much of each."""
    widest = max(
        (
            cast(Layer, layer).outputs
            for network in networks
            if isinstance(network, LogLikelihoods)
            for layer in network.model.layers
        ),
        default=1,
    )
    return max(1, min(BATCH_FRAMES, BATCH_NUMBERS // widest))


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
    network: Network, utterances: Iterable[tuple[str, np.ndarray]], frames: int
) -> Iterator[tuple[str, np.ndarray]]:
    """Yield log-likelihoods [T, P] of prepared utterances [T, F'], many computed together.

    Up to BATCH_SEQUENCES utterances and so many frames, or one that is longer.
    """
    for group in _groups(utterances, frames):
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


def _groups(
    utterances: Iterable[tuple[str, Item]], frames: int
) -> Iterator[list[tuple[str, Item]]]:
    group: list[tuple[str, Item]] = []
    taken = 0
    for item in utterances:
        if group and (len(group) == BATCH_SEQUENCES or taken + len(item[1]) > frames):
            yield group
            group, taken = [], 0
        group.append(item)
        taken += len(item[1])
    if group:
        yield group

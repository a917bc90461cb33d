"""The log-likelihoods of all utterances of a data directory."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, groupby, tee
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
import torch

from bayes_asr.base.errors import InputError, nearest, needing_memory
from bayes_asr.base.files import real_path, together
from bayes_asr.base.lock import alone_in
from bayes_asr.base.log import LOGGER
from bayes_asr.base.progress import follow
from bayes_asr.base.shards import Mapper
from bayes_asr.data.corpus.directories import stream_dirs
from bayes_asr.data.corpus.labelled import Features
from bayes_asr.data.corpus.streams import StoredStreams
from bayes_asr.data.features.fmllr_record import check_analysis
from bayes_asr.data.features.front_end import FEATURES, FrontEnd
from bayes_asr.data.features.skipped import report_lacking
from bayes_asr.decode.forward.average import AveragedNetwork, UtteranceOutput
from bayes_asr.decode.forward.batches import (
    describe_batch,
    group_utterances,
    in_batches,
    in_windows,
)
from bayes_asr.decode.forward.interface import DECODED, LOG_LIKELIHOODS, Output, name_archive
from bayes_asr.decode.forward.log_likelihoods import LogLikelihoods, load, load_members
from bayes_asr.decode.forward.network_record import (
    describe_counts,
    describe_network,
    write_network_record,
)
from bayes_asr.decode.forward.onnx_network import OnnxNetwork
from bayes_asr.kaldi_io.ark import write_matrices
from bayes_asr.kaldi_io.byte_reader import OpenPipe
from bayes_asr.kaldi_io.copy_data_dir import copy_tables
from bayes_asr.kaldi_io.data_dir import read_data_dir
from bayes_asr.kaldi_io.side_files import read_environment
from bayes_asr.kaldi_io.text import DataDir
from bayes_asr.nn.frames import CPU
from bayes_asr.nn.layer import Layer
from bayes_asr.nn.network import States
from bayes_asr.train.runs.combination import read_combination
from bayes_asr.train.runs.configuration import read_configuration
from bayes_asr.train.runs.trained_network import read_network

BATCH_FRAMES = 10_000
BATCH_NUMBERS = 2**26  # that a layer hands on of all frames of a batch
Used = TypeVar("Used")

Network = LogLikelihoods | OnnxNetwork
Compute = Callable[[Iterable[str]], Iterator[UtteranceOutput]]
"""Utterances -> the outputs of each."""


@dataclass(frozen=True)
class StreamSource:
    """The features to compute with: of the Kaldi directory `data`, or of the run's own set `on`.

    streams: the directories of further streams beside `data`, by name. max_skipped: the share of
    the utterances of utt2spk that may lack features, by default data.max_skipped of the run.
    """

    data: Path | None = None
    streams: Mapping[str, Path] = field(default_factory=dict)
    on: str = ""
    max_skipped: float | None = None
    open_pipe: OpenPipe | None = None


@dataclass(frozen=True)
class ForwardOptions:
    """Options of `forward`.

    output: what is computed; counts: pdf counts in place of those of training, for the priors;
    chunk: how many frames are computed at a time, in networks that do not look ahead; onnx: a file
    that `bayes-asr export` has written of the run, to compute with; device: what computes others.
    """

    output: Output = DECODED
    counts: Path | None = None
    chunk: int | None = None
    onnx: Path | None = None
    device: torch.device = CPU


def forward(
    run: Path,
    out: Path,
    source: StreamSource,
    options: ForwardOptions = ForwardOptions(),
    mapper: Mapper | None = None,
) -> int:
    """Write `out`/loglikes.{ark,scp}, with a record of the network, and count the utterances.

    Of a layer, `out` becomes a data directory of its outputs; of posteriors, the file has another
    name (`name_archive`). Every utterance is computed, aligned or not; those that lack features are
    named. mapper: for shards, None for here.
    """
    output = options.output
    record = describe_network(run)
    members, averaged = _load(run, options, record)
    networks, sources = [network for _, network in members], []
    for member, network in members:
        sources.append((network, open_source(member, network, source, networks)))
    if isinstance(networks[0], OnnxNetwork):  # an older file does not say of which network it is
        record = networks[0].record
    features = sources[0][1]  # of the first network: they name utterances and folders
    frames = choose_batch_frames(networks)
    if output.layer and real_path(out) in [real_path(path) for path in features.directories]:
        raise InputError(f"{out}: is the data directory that is read; choose another folder")
    compute: Compute = partial(_compute, *sources[0], chunk=options.chunk, frames=frames)
    if averaged:
        compute = _average(averaged, sources, options.chunk, frames)
    if mapper:
        items = _share(mapper, features, compute, lambda utt, x: (utt, x), frames)
    else:
        items = compute(follow(features.utterances, "forward"))
    name = name_archive((averaged or networks[0]).kind)
    archive = out / f"{name}.ark"
    with alone_in(out), together(out):
        written = write_matrices(items, archive, archive.with_suffix(".scp"))
        if output.layer:
            copy_tables(features.first.directories, out)
        if name == name_archive(LOG_LIKELIHOODS):
            write_network_record({**record, **describe_counts(options.counts)}, out)
    LOGGER.info("wrote the %s of %d utterances to %s", name, written, archive)
    return written


def _load(
    run: Path, options: ForwardOptions, record: Mapping[str, str]
) -> tuple[list[tuple[Path, Network]], AveragedNetwork | None]:
    """The networks of a run, each with the run that it is of, and their average if it is one."""
    output, counts = options.output, options.counts
    combination = None if options.onnx else read_combination(run)
    if combination is None:
        if options.onnx:
            return [(run, OnnxNetwork(options.onnx, read_network(run), record))], None
        return [(run, load(run, counts, output, options.device))], None
    networks = load_members(combination, output, counts, options.device)
    averaged = AveragedNetwork(networks, combination, output.kind)
    return list(zip(combination.runs, networks, strict=True)), averaged


def _average(
    averaged: AveragedNetwork,
    sources: Sequence[tuple[Network, StoredStreams]],
    chunk: int | None,
    frames: int,
) -> Compute:
    """The function that computes utterances by several networks, each on its own features."""
    averaged.check_utterances([features.utterances for _, features in sources])

    def compute(utterances: Iterable[str]) -> Iterator[UtteranceOutput]:
        shares = zip(sources, tee(utterances, len(sources)), strict=True)
        return averaged.combine_utterances(
            [_compute(*source, part, chunk, frames) for source, part in shares]
        )

    return compute


def choose_limit(run: Path, max_skipped: float | None) -> float:
    """The share of utterances that may be skipped: data.max_skipped of the run, unless given."""
    return read_configuration(run).data.max_skipped if max_skipped is None else max_skipped


def find_streams(
    run: Path, networks: Sequence[Network], source: StreamSource
) -> dict[str, DataDir]:
    """The data directories of all streams by name.

    InputError for a further stream that none of the networks reads.
    """
    config = read_configuration(run)
    if not source.data:
        return stream_dirs(config, source.on, source.open_pipe)
    names = dict.fromkeys(name for network in networks for name in network.front_ends)
    for name in source.streams:
        if name not in names:
            raise InputError(
                f"this network reads no stream {name}, but {', '.join(names)}{nearest(name, names)}"
            )
    return {
        name: read_data_dir(path, open_pipe=source.open_pipe, moves=config.data.moves)
        for name, path in {FEATURES: source.data, **source.streams}.items()
    }


def open_source(
    run: Path, network: Network, source: StreamSource, networks: Sequence[Network] = ()
) -> StoredStreams:
    """The streams that a network of a run reads; networks: all that read the source."""
    directories = find_streams(run, networks or [network], source)
    limit = choose_limit(run, source.max_skipped)
    return open_streams(run, network, directories, limit, source.open_pipe)


def log_likelihoods(
    run: Path,
    network: Network,
    directories: Mapping[str, DataDir],
    max_skipped: float,
    open_pipe: OpenPipe | None = None,
    limited_by: str = "--max-skipped",
    chunk: int | None = None,
) -> Iterator[tuple[str, np.ndarray]]:
    """Yield utterances and their log-likelihoods [T, P] by the network of a run, computed a few
    utterances at a time, or one by one with `chunk` frames at a time.

    Those of utt2spk that lack features are named first; InputError if they are a larger share than
    `max_skipped`, the message calling that limit `limited_by`.
    """
    features = open_streams(run, network, directories, max_skipped, open_pipe, limited_by)
    utterances = follow(features.utterances, "forward")
    yield from _compute(network, features, utterances, chunk, choose_batch_frames([network]))


def open_streams(
    run: Path,
    network: Network,
    directories: Mapping[str, DataDir],
    max_skipped: float,
    open_pipe: OpenPipe | None = None,
    limited_by: str = "--max-skipped",
) -> StoredStreams:
    """The streams that the network of a run reads, of those that there are; the limits are those of
    `log_likelihoods`. InputError where one is missing, or was analysed otherwise than in training.
    """
    if missing := [name for name in network.front_ends if name not in directories]:
        options = " ".join(f"--stream {name}=DIR" for name in missing)
        raise InputError(
            f"this network reads {', '.join(network.front_ends)}: give {options}, or --on SET"
            " for a set of the run"
        )
    streams = StoredStreams(
        {
            name: Features(directories[name], front_end, open_pipe=open_pipe)
            for name, front_end in network.front_ends.items()
        }
    )
    for name, trained in _find_analyses(run, network.front_ends).items():
        for part in directories[name].parts:
            check_analysis(name, part.path, trained)
    inputs = {name: directories[name] for name in network.front_ends}
    report_lacking(inputs, max_skipped, limited_by)
    if isinstance(network, LogLikelihoods):
        speakers = streams.first.speakers
        network.warn_unadapted(
            streams.first.directories[0], (speakers[utt] for utt in streams.utterances)
        )
    return streams


def _find_analyses(run: Path, front_ends: Mapping[str, FrontEnd]) -> dict[str, Mapping[str, Any]]:
    """The analysis of sound behind streams in training, as far as it is known."""
    # Front ends do not know what fMLLR adapts: that is in env.json.
    environment = read_environment(run)
    recorded = environment.get("frontends") or {FEATURES: environment.get("frontend")}
    if not isinstance(recorded, dict):
        recorded = {}
    analyses = ((name, end.sound or recorded.get(name)) for name, end in front_ends.items())
    return {name: analysis for name, analysis in analyses if isinstance(analysis, Mapping)}


def share_log_likelihoods(
    mapper: Mapper,
    network: Network,
    features: StoredStreams,
    use: Callable[[str, np.ndarray], Used],
    chunk: int | None = None,
) -> Iterator[Used]:
    """Results of `use` on utterances and their log-likelihoods [T, P], computed in shards.

    What is computed together is what would be here, so the numbers are the same to the last bit.
    """
    frames = choose_batch_frames([network])
    compute = partial(_compute, network, features, chunk=chunk, frames=frames)
    return _share(mapper, features, compute, use, frames)


def _share(
    mapper: Mapper,
    features: StoredStreams,
    compute: Compute,
    use: Callable[[str, np.ndarray], Used],
    frames: int,
) -> Iterator[Used]:
    """Results of `use` on utterances and their outputs, likewise."""

    # A shard's item is a batch, so that what is computed together is the same everywhere.
    def work(_: str, utterances: Sequence[str]) -> list[Used]:
        return [use(utt, computed) for utt, computed in compute(utterances)]

    # A range stands for an utterance: batches are made by lengths, before features are read.
    sizes = ((utt, range(features.count_frames(utt))) for utt in features.utterances)
    groups = ([utt for utt, _ in group] for group in group_utterances(sizes, frames))
    return chain.from_iterable(mapper(work, ((group[0], group) for group in groups)))


def _compute(
    network: Network,
    features: StoredStreams,
    utterances: Iterable[str],
    chunk: int | None,
    frames: int,
) -> Iterator[UtteranceOutput]:
    if not isinstance(network, LogLikelihoods) or not network.speakers:
        yield from _compute_alike(network, features, utterances, chunk, frames)
        return
    # An adapted network has parameters by speaker: only utterances of one are computed together.
    for speaker, group in groupby(utterances, features.first.speakers.__getitem__):
        network.set_speaker(speaker)
        yield from _compute_alike(network, features, group, chunk, frames)
    network.set_speaker(None)


def _compute_alike(
    network: Network,
    features: StoredStreams,
    utterances: Iterable[str],
    chunk: int | None,
    frames: int,
) -> Iterator[UtteranceOutput]:
    """The outputs of utterances that one set of parameters is for."""
    matrices = ((utt, features[utt]) for utt in utterances)
    if isinstance(network, LogLikelihoods):
        if chunk:
            return in_chunks(network, matrices, chunk)
        if network.device != CPU:
            return in_windows(network, matrices, frames)
    return in_batches(network, matrices, frames)


def choose_batch_frames(networks: Iterable[Network]) -> int:
    """The frames that are computed together: fewer where a layer has many outputs."""
    # Memory is that of the widest layer: its outputs of all frames of a batch are held at once.
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
        # The output is allocated once; input, hidden layers and states are of one chunk.
        states: States = []
        for start in range(0, len(matrix), chunk):
            span = slice(start, start + chunk)
            with needing_memory(partial(describe_batch, [(utt, matrix[span])])):
                computed, states = network.advance(matrix[span], states)
            loglikes[span] = computed.numpy()
        yield utt, loglikes

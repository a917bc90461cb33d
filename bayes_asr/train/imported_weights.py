"""Runs of networks that other programs have trained."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import read_bytes, together
from bayes_asr.base.lock import alone_in
from bayes_asr.config.schema import Config
from bayes_asr.data.corpus.fingerprints import hash_stream
from bayes_asr.data.corpus.index import Index, open_index
from bayes_asr.data.corpus.labelled import LabelledSet
from bayes_asr.data.corpus.sets import open_set
from bayes_asr.data.corpus.survey import survey_stream
from bayes_asr.data.targets.alignments import read_counts
from bayes_asr.data.targets.target import log_priors
from bayes_asr.kaldi_io.byte_reader import OpenPipe
from bayes_asr.kaldi_io.side_files import BEST, CONFIG
from bayes_asr.nn.network import build_network
from bayes_asr.train.components import count_parameters, find_mismatch, plan_network
from bayes_asr.train.data_statistics import build_front_ends, count_log_priors
from bayes_asr.train.runs import checkpoint, record
from bayes_asr.train.runs.trained_network import TrainedNetwork

States = Mapping[str, Mapping[str, Tensor]]


def write_imported_run(
    config: Config,
    run: Path,
    states: States,
    files: Sequence[Path],
    *,
    epochs: int,
    counts: Path | None = None,
    open_pipe: OpenPipe | None = None,
) -> None:
    """Write best.pt, config.yaml and env.json of a network of these weights.

    Normalisation and priors are measured on the training set of the configuration. states: of each
    layer and head by name; files: where they come from, for env.json; epochs: of their training,
    the dropout of the last of which scales candidates; counts: of the labels of the first head,
    instead of those of the alignments. InputError where weights do not fit the network of the
    configuration, or the data.
    """
    config = record.make_paths_absolute(config)
    with alone_in(run):
        index = open_index(run, config.data.index)
        data = open_set(config, "train", open_pipe, index)
        network = _build_network(config, data, states, index, epochs, counts)
        # All files appear at once: a run without its configuration could not be read.
        with together(run):
            config.save(run / CONFIG)
            parameters = count_parameters(network.model)
            hashes = {str(file): hashlib.sha256(read_bytes(file)).hexdigest() for file in files}
            versions = record.versions(torch.device("cpu"), config.train.precision)
            origin = {"versions": versions, "begun_from": hashes}
            record.write_environment(run, parameters, network.front_ends, origin)
            checkpoint.save(run / BEST, network.content())


def _build_network(
    config: Config,
    data: LabelledSet,
    states: States,
    index: Index,
    epochs: int,
    counts: Path | None,
) -> TrainedNetwork:
    # Theirs forwards by the dropout of the last epoch, whose files these are.
    plan = plan_network(config, data, epochs)
    model = build_network(plan).eval()
    # A part without a state is refused as well: all its weights are missing.
    for name, part in model.parts.items():
        load_weights(name, part, states.get(name, {}))
    surveys = {
        stream: survey_stream("train", data, stream, hash_stream(data, stream), index, new=False)
        for stream in data.streams
    }
    main, *_ = heads = list(plan["heads"])
    priors, other_priors = count_log_priors(data, heads, index)
    if counts:
        priors = torch.from_numpy(log_priors(read_counts(counts, plan["heads"][main])))
    return TrainedNetwork(model, build_front_ends(data, surveys), priors, other_priors)


def load_weights(name: str, part: torch.nn.Module, state: Mapping[str, Tensor]) -> None:
    """Give a layer or head its weights; InputError unless it has these, of these shapes."""
    if "norm.running_mean" in state and "W.bias" in (shapes := part.state_dict()):
        # What a bias in front of a batch norm adds, the running mean takes away.
        state = {"W.bias": torch.zeros_like(shapes["W.bias"]), **state}
    if mismatch := find_mismatch(part.state_dict(), state):
        key, size, size_in_files = mismatch
        if size is None or size_in_files is None:
            lacking = "its layer here has" if size is None else "the files have"
            raise InputError(f"{name}: {lacking} no {key}; leave model as import-cfg wrote it")
        raise InputError(
            f"{name}: {key} is {size_in_files} in the files, but {size} by the configuration and"
            " its data; do these have the same features and labels as the training there?"
        )
    part.load_state_dict(dict(state))

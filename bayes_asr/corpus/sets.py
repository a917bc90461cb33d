"""From the configuration's directories to labelled sets: what is found, what is skipped."""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from bayes_asr.config import Config, DataConfig, FeatureConfig
from bayes_asr.corpus.alignments_index import index_alignments
from bayes_asr.corpus.index import Index
from bayes_asr.corpus.labelled import LabelledSet
from bayes_asr.corpus.listing import index_utterances, list_utterances
from bayes_asr.errors import InputError
from bayes_asr.features.front_end import FEATURES, FrontEnd
from bayes_asr.features.stored import Features
from bayes_asr.log import LOGGER
from bayes_asr.tables.binary import OpenPipe
from bayes_asr.tables.text import DataDir, read_data_dir
from bayes_asr.targets.alignments import Alignments

NAMED = 5  # how many utterances a message names


def locate(candidates: Sequence[str], data: DataConfig, what: str) -> Path:
    """Return the first of the candidate directories that exists, and say which it is.

    `*` stands for any part of a name. Raises InputError where several directories fit that.
    """
    paths = [Path(data.dir) / candidate for candidate in candidates]
    for path in paths:
        found = sorted(path.parent.glob(path.name)) if "*" in path.name else [path]
        if len(found) > 1:
            names = " and ".join(match.name for match in found)
            raise InputError(f"{path}: {names} are there; choose one of them as {what}")
        if found and found[0].exists():
            LOGGER.info("%s: %s", what, found[0])
            return found[0]
    tried = ", ".join(map(str, paths)) or "no directory is configured"
    raise InputError(f"{what}: none of these exists: {tried}; set data.dir or name the directory")


def data_dir(config: Config, name: str, open_pipe: OpenPipe | None = None) -> DataDir:
    """Read the data directory of the set `name` (train, dev or test)."""
    path = locate(getattr(config.data, name).features, config.data, f"{name} features")
    return read_data_dir(path, open_pipe=open_pipe)


def features_of(
    data: DataDir, options: FeatureConfig, open_pipe: OpenPipe | None = None
) -> Features:
    """The features of a data directory, prepared as `options` say."""
    return Features(data, FrontEnd(**vars(options)), open_pipe=open_pipe)


def training_and_dev(
    config: Config, open_pipe: OpenPipe | None = None
) -> tuple[LabelledSet, LabelledSet]:
    """Open the sets as `open_sets` does, and compare all lengths by the headers of the matrices."""
    train, dev = open_sets(config, open_pipe)
    train.check()
    dev.check()
    return train, dev


def open_sets(
    config: Config, open_pipe: OpenPipe | None = None, index: Index | None = None
) -> tuple[LabelledSet, LabelledSet]:
    """Open the training set and the set that drives the learning rate.

    The latter is dev where dev has alignments, otherwise some training speakers, who are then not
    trained on. Alignments are held in memory unless there is an index.
    """
    train = open_set(config, "train", open_pipe, index)
    _announce_dimension(train.features, config.data)
    if not any((Path(config.data.dir) / path).exists() for path in config.data.dev.alignments):
        return _held_out(train, config.data.held_out)
    dev = open_set(config, "dev", open_pipe, index)
    _check_alike(train, dev)
    return train, dev


def open_set(
    config: Config, name: str, open_pipe: OpenPipe | None = None, index: Index | None = None
) -> LabelledSet:
    """Open the features and alignments of a set, and report which utterances lack either."""
    where, limit = getattr(config.data, name), config.data.max_skipped
    directory = locate(where.features, config.data, f"{name} features")
    path = locate(where.alignments, config.data, f"{name} alignments")
    alignments = index_alignments(path, index) if index else Alignments(path)
    if index:
        found = index_utterances(directory, alignments, open_pipe, index)
    else:
        found = list_utterances(directory, alignments, open_pipe)
    features = features_of(found.data, config.features, open_pipe)
    for what, skipped in (
        (f"features in {directory}", found.without_features),
        (f"alignment in {path}", found.without_alignment),
    ):
        report_skipped(f"{name}: no {what}", skipped, found.total, limit)
    if not found.lengths:
        raise InputError(
            f"{name}: none of the {found.total} utterances of {directory} has an alignment in"
            f" {path}"
        )
    return LabelledSet({FEATURES: features}, alignments.targets, alignments, found.lengths)


def report_skipped(
    why: str, skipped: list[str], total: int, limit: float, key: str = "data.max_skipped"
) -> None:
    """Name and count what is skipped of `total` utterances; InputError if it is above `limit`.

    key: what sets the limit, for the message.
    """
    if not skipped:
        return
    names = ", ".join(skipped[:NAMED]) + (", ..." if len(skipped) > NAMED else "")
    message = f"{why} for {len(skipped)} of {total} utterances: {names}"
    if len(skipped) > limit * total:
        raise InputError(f"{message}; more than {key} = {limit:g} allows")
    LOGGER.warning("%s; they are skipped", message)


def _announce_dimension(features: Features, data: DataConfig) -> None:
    if data.expected_dims and features.dimensions not in data.expected_dims:
        LOGGER.warning(
            "the training features have %d dimensions (%s), not %s as this recipe expects: they are"
            " used as they are, but results are not comparable",
            features.dimensions,
            features.where(features.utterances[0]),
            " or ".join(map(str, data.expected_dims)),
        )


def _check_alike(train: LabelledSet, dev: LabelledSet) -> None:
    ours, theirs = train.alignments.model, dev.alignments.model
    if not np.array_equal(ours.tuples, theirs.tuples):
        raise InputError(
            f"{dev.alignments.directory / 'final.mdl'} ({theirs.num_pdfs} pdfs) has other"
            f" transitions than {train.alignments.directory / 'final.mdl'} ({ours.num_pdfs} pdfs);"
            " align dev with the model of the training alignments"
        )
    for name, features in dev.streams.items():
        expected = train.streams[name].dimensions
        if features.dimensions != expected:
            utt = features.utterances[0]
            raise InputError(
                f"{features.where(utt)}: {utt} has {features.dimensions} dimensions, but the"
                f" training features have {expected}; extract all features alike"
            )


def _held_out(train: LabelledSet, share: float) -> tuple[LabelledSet, LabelledSet]:
    """Split off whole speakers, chosen by a hash of their names."""
    utt2spk = train.features.speakers
    speakers = sorted(
        {utt2spk[utt] for utt in train.lengths}, key=lambda s: hashlib.sha256(s.encode()).digest()
    )
    count = max(1, round(share * len(speakers)))
    if share == 0 or count == len(speakers):
        raise InputError(
            f"dev has no alignments, and of {len(speakers)} training speakers data.held_out ="
            f" {share:g} cannot hold out some and leave some; align dev or change data.held_out"
        )
    held = set(speakers[:count])
    LOGGER.warning(
        "dev has no alignments: %d of %d training speakers are held out to drive the learning rate:"
        " %s",
        count,
        len(speakers),
        ", ".join(sorted(held)[:NAMED]) + (", ..." if count > NAMED else ""),
    )
    remaining, out = (
        {u: n for u, n in train.lengths.items() if (utt2spk[u] in held) == chosen}
        for chosen in (False, True)
    )
    return (
        replace(train, lengths=remaining, kept={}),
        replace(train, lengths=out, kept={}),
    )

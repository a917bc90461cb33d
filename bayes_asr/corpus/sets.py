"""From the configuration's directories to labelled sets: what is found, what is skipped."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from bayes_asr.config import Config, DataConfig, FeatureConfig
from bayes_asr.corpus.index import Index, stored_alignments
from bayes_asr.corpus.listing import listed, stored_listing
from bayes_asr.errors import InputError
from bayes_asr.features.stored import Features
from bayes_asr.log import LOGGER
from bayes_asr.tables.binary import OpenPipe
from bayes_asr.tables.text import DataDir, read_data_dir
from bayes_asr.targets.alignments import Alignments

NAMED = 5  # how many utterances a message names


@dataclass(frozen=True)
class LabelledSet:
    """Utterances that have both features and an alignment, with their lengths in frames.

    kept: normalised features that are held in memory.
    """

    features: Features
    alignments: Alignments
    lengths: Mapping[str, int]
    kept: dict[str, np.ndarray] = field(default_factory=dict)

    def __getitem__(self, utt: str) -> np.ndarray:
        """Features of one utterance, float32 [T, F']; InputError unless T is the alignment's."""
        return self.features.prepared(utt, self.stored(utt))

    def stored(self, utt: str) -> np.ndarray:
        """Features of one utterance as they are on disk, float32 [T, F]; InputError likewise."""
        matrix = self.features.stored(utt)
        self._check_length(utt, len(matrix))
        return matrix

    def check(self) -> None:
        """Compare lengths and widths of all utterances by the headers of their matrices alone.

        InputError for the first that is not as its alignment, or as the others of its set.
        """
        width = self.features.dimensions
        for utt in self.lengths:
            frames, columns = self.features.stored_shape(utt) or (self.lengths[utt], width)
            self._check_length(utt, frames)
            if columns != width:
                self.features.refuse_shape(utt, frames, columns)

    def _check_length(self, utt: str, frames: int) -> None:
        if frames != self.lengths[utt]:
            raise InputError(
                f"{self.features.where(utt)}: {utt} has {frames} frames of features, but"
                f" {self.lengths[utt]} in the alignment of {self.alignments.directory}; make both"
                " from the same features"
            )


def located(candidates: Sequence[str], data: DataConfig, what: str) -> Path:
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
    path = located(getattr(config.data, name).features, config.data, f"{name} features")
    return read_data_dir(path, open_pipe=open_pipe)


def features_of(
    data: DataDir, options: FeatureConfig, open_pipe: OpenPipe | None = None
) -> Features:
    """The features of a data directory, prepared as `options` say."""
    return Features(
        data,
        cmvn=options.cmvn,
        order=options.deltas,
        left=options.left_context,
        right=options.right_context,
        open_pipe=open_pipe,
    )


def training_and_dev(
    config: Config, open_pipe: OpenPipe | None = None
) -> tuple[LabelledSet, LabelledSet]:
    """Open the sets as `opened` does, and compare all lengths by the headers of the matrices."""
    train, dev = opened(config, open_pipe)
    train.check()
    dev.check()
    return train, dev


def opened(
    config: Config, open_pipe: OpenPipe | None = None, index: Index | None = None
) -> tuple[LabelledSet, LabelledSet]:
    """Open the training set and the set that drives the learning rate.

    The latter is dev where dev has alignments, otherwise some training speakers, who are then not
    trained on. Alignments are held in memory unless there is an index.
    """
    train = labelled(config, "train", open_pipe, index)
    _announce_dimension(train.features, config.data)
    if not any((Path(config.data.dir) / path).exists() for path in config.data.dev.alignments):
        return _held_out(train, config.data.held_out)
    dev = labelled(config, "dev", open_pipe, index)
    _check_alike(train, dev)
    return train, dev


def labelled(
    config: Config, name: str, open_pipe: OpenPipe | None = None, index: Index | None = None
) -> LabelledSet:
    """Open the features and alignments of a set, and report which utterances lack either."""
    where, limit = getattr(config.data, name), config.data.max_skipped
    directory = located(where.features, config.data, f"{name} features")
    path = located(where.alignments, config.data, f"{name} alignments")
    alignments = stored_alignments(path, index) if index else Alignments(path)
    if index:
        found = stored_listing(directory, alignments, open_pipe, index)
    else:
        found = listed(directory, alignments, open_pipe)
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
    return LabelledSet(features, alignments, found.lengths)


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
    if train.features.dimensions != dev.features.dimensions:
        utt = dev.features.utterances[0]
        raise InputError(
            f"{dev.features.where(utt)}: {utt} has {dev.features.dimensions} dimensions, but the"
            f" training features have {train.features.dimensions}; extract all features alike"
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
        LabelledSet(train.features, train.alignments, remaining),
        LabelledSet(train.features, train.alignments, out),
    )

"""From the configuration's directories to labelled sets: what is found, what is skipped."""

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from bayes_asr.base.errors import InputError, name_some
from bayes_asr.base.files import is_there
from bayes_asr.base.log import LOGGER
from bayes_asr.config.catalogue import find
from bayes_asr.config.inputs import DataConfig, LabelledSetConfig
from bayes_asr.config.schema import Config
from bayes_asr.data.corpus.directories import features_of, read_data_dirs
from bayes_asr.data.corpus.index import Index
from bayes_asr.data.corpus.label_sets import check_labels, check_lengths, join_labels, name_targets
from bayes_asr.data.corpus.labelled import Features, LabelledSet, check_speakers, check_stream
from bayes_asr.data.corpus.labels_index import open_labels
from bayes_asr.data.corpus.listing import Listing, index_utterances, join_listings, list_utterances
from bayes_asr.data.directories import find_existing, locate_all
from bayes_asr.data.features.front_end import FEATURES, describe_stream
from bayes_asr.data.features.skipped import report_skipped
from bayes_asr.data.targets.target import Labels
from bayes_asr.kaldi_io.byte_reader import OpenPipe
from bayes_asr.kaldi_io.data_dir import check_cmvn
from bayes_asr.kaldi_io.sorted_table import split_table
from bayes_asr.kaldi_io.text import SPEED_PREFIX, DataDir
from bayes_asr.tasks.task import task_of

SPEED_PREFIXES = re.compile("^(" + SPEED_PREFIX.format(r"\d+\.\d+") + ")+")
MFCC = 13  # cepstra of Kaldi's mfcc.conf, which say little without their derivatives


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

    The latter is dev where dev has labels, otherwise some training speakers, who are then not
    trained on. Labels are held in memory unless there is an index.
    """
    train = open_set(config, "train", open_pipe, index)
    for name, features in train.streams.items():
        check_stream(name, features, features)  # directories with each other
    _announce_dimension(train.features, config.data)
    if not is_labelled(config, config.data.dev):
        return _held_out(train, config.data.held_out, task_of(config).labels.noun)
    dev = open_set(config, "dev", open_pipe, index, like=train)
    _check_alike(train, dev)
    return train, dev


def is_labelled(config: Config, selection: LabelledSetConfig) -> bool:
    """Whether a set has labels of its own."""
    candidates = (*selection.alignments, *selection.alignments_all_of)
    if file := task_of(config).labels.file:
        candidates = (*selection.features, *selection.features_all_of)
    places = (Path(config.data.dir) / path for path in candidates)
    return any(is_there(path / file) for place in places for path in find_existing(place))


def open_set(
    config: Config,
    name: str,
    open_pipe: OpenPipe | None = None,
    index: Index | None = None,
    like: LabelledSet | None = None,
) -> LabelledSet:
    """Open all streams and label sets of a set, and report which utterances lack any of them.

    like: the set whose classes, or vocabulary, are those of this one.
    """
    directories = locate_all(config.data, name, "features")
    first_labels, paths = _open_first_labels(config, name, directories, open_pipe, index, like)
    opener = _SetOpener(config, name, open_pipe, index, first_labels)
    listings = opener.list_all(directories)
    joined = join_listings(listings)
    streams = {FEATURES: _open_features(config, FEATURES, joined.data, open_pipe)}
    opener.report_unlisted(joined, directories, paths)
    lengths = opener.add_streams(streams, joined)
    further, lengths = opener.open_further_labels(lengths, joined.total)
    # Parts are cut last, when all streams and labels have sifted the utterances.
    parts = _name_parts(
        directories, [split_table(listing.lengths, lengths)[0] for listing in listings]
    )
    targets = {**first_labels.targets, **name_targets(further)}
    return LabelledSet(streams, targets, first_labels, lengths, further, parts)


def _open_first_labels(
    config: Config,
    name: str,
    directories: Sequence[Path],
    open_pipe: OpenPipe | None,
    index: Index | None,
    like: LabelledSet | None,
) -> tuple[Labels, Sequence[Path]]:
    """The labels of the first head, and the paths that they are in.

    directories: of the features, in which some tasks have a file of labels.
    """
    source = task_of(config).labels
    if not source.file:
        paths = locate_all(config.data, name, "alignments")
        return join_labels([find(source.opener)(path, index) for path in paths]), paths
    names = next(iter(like.targets.values())).names if like else ()
    tables = read_data_dirs(config, directories, open_pipe).parts
    labels: Labels = find(source.opener)(source.file, tables, names, open_pipe)
    return labels, [directory / source.file for directory in directories]


@dataclass(frozen=True)
class _SetOpener:
    """Opens the streams and further labels of a set, and reports which utterances lack any."""

    config: Config
    name: str
    open_pipe: OpenPipe | None
    index: Index | None
    first_labels: Labels

    def list_all(self, places: Sequence[Path]) -> list[Listing]:
        """List the utterances of data directories."""
        # Labels in a file of the data directory have their lengths of the features.
        # The index keeps lengths that are known without a look at features.
        index = None if task_of(self.config).labels.file else self.index
        list_directory = partial(index_utterances, index=index) if index else list_utterances
        return [
            list_directory(place, self.first_labels, self.open_pipe, moves=self.config.data.moves)
            for place in places
        ]

    def report_unlisted(
        self, joined: Listing, directories: Sequence[Path], paths: Sequence[Path]
    ) -> None:
        """Report utterances without features or labels; InputError where none has both."""
        source, total = task_of(self.config).labels, joined.total
        self._report("features", directories, total, joined.without_features)
        self._report(source.noun, paths, total, joined.without_labels)
        if not joined.lengths:
            raise InputError(
                f"{self.name}: none of the {total} utterances of {_join(directories)} has"
                f" {source.with_article} in {_join(paths)}; name those of these utterances as"
                f" {source.key.format(set=self.name)}"
            )

    def add_streams(self, streams: dict[str, Features], joined: Listing) -> Mapping[str, int]:
        """Open the further streams beside the features, and return who has all of them."""
        lengths = joined.lengths
        for stream in self.config.data.train.stream_names:
            places = locate_all(self.config.data, self.name, "streams", stream)
            # Lengths of other streams differ where they are subsampled: only the tables are taken.
            table = join_listings(self.list_all(places)).data
            streams[stream] = _open_features(self.config, stream, table, self.open_pipe)
            check_speakers(streams[FEATURES], streams[stream], lengths)
            report = partial(self._report, describe_stream(stream), places, joined.total)
            lengths = _intersect(lengths, table.feats or {}, report)
        return lengths

    def open_further_labels(
        self, lengths: Mapping[str, int], total: int
    ) -> tuple[dict[str, Labels], Mapping[str, int]]:
        """Open the further label sets, and return with them who has all of them."""
        labels: dict[str, Labels] = {}
        for label in self.config.data.train.label_names:
            places = locate_all(self.config.data, self.name, "labels", label)
            labels[label] = join_labels([open_labels(path, self.index) for path in places])
            report = partial(self._report, f"labels of {label}", places, total)
            lengths = _intersect(lengths, labels[label].lengths, report)
            check_lengths(self.first_labels, labels[label], lengths)
        return labels, lengths

    def _report(self, what: str, places: Sequence[Path], total: int, skipped: list[str]) -> None:
        reason = f"{self.name}: no {what} in {_join(places)}"
        report_skipped(reason, skipped, total, self.config.data.max_skipped)


def _join(places: Sequence[Path]) -> str:
    return " and ".join(map(str, places))


def _intersect(
    lengths: Mapping[str, int], table: Mapping[str, Any], report: Callable[[list[str]], None]
) -> Mapping[str, int]:
    """The utterances that are in another table too; InputError where that leaves none."""
    common, missing = split_table(lengths, table)
    report(missing)
    if not common:
        raise InputError(
            f"{missing[0]} and all other utterances are skipped, so that none is left; name the"
            " directories of the same utterances"
        )
    return common


def _open_features(
    config: Config, stream: str, data: DataDir, open_pipe: OpenPipe | None
) -> Features:
    """Features of a set of which several directories must say alike what speakers have."""
    features = features_of(data, config, stream, open_pipe)
    if features.front_end.cmvn != "none":
        check_cmvn(data.parts)
    return features


def _name_parts(
    directories: Sequence[Path], lengths: Sequence[Mapping[str, int]]
) -> dict[str, Mapping[str, int]]:
    """The lengths of each of several directories, by its name, or by all of its path where two
    have the same name; nothing for one directory.
    """
    if len(directories) == 1:
        return {}
    names = [directory.name for directory in directories]
    names = names if len(set(names)) == len(names) else [str(path) for path in directories]
    return {name: part for name, part in zip(names, lengths, strict=True) if part}


def _announce_dimension(features: Features, data: DataConfig) -> None:
    """Say it where the features are not what the recipe expects, and what raw ones want."""
    if data.expected_dims and features.dimensions not in data.expected_dims:
        settings = ["--set features.cmvn=mean-variance"] * (features.front_end.cmvn == "none")
        if features.dimensions == MFCC and not features.front_end.deltas:
            settings.append("--set features.deltas=2")
        LOGGER.warning(
            "the training features have %d dimensions (%s), not %s as this recipe expects: they are"
            " used as they are, but results are not comparable%s",
            features.dimensions,
            features.where(features.first),
            " or ".join(map(str, data.expected_dims)),
            f"; MFCC and filter banks want {' '.join(settings)}" if settings else "",
        )


def _check_alike(train: LabelledSet, dev: LabelledSet) -> None:
    check_labels(train.first_labels, dev.first_labels)
    for label, labels in dev.further_labels.items():
        check_labels(train.further_labels[label], labels)
    for name, features in dev.streams.items():
        check_stream(name, features, train.streams[name])


def _held_out(train: LabelledSet, share: float, noun: str) -> tuple[LabelledSet, LabelledSet]:
    """Split off whole speakers, at all speeds, by a hash of their names; noun: what dev lacks."""
    named = train.features.speakers
    utt2spk = {utt: SPEED_PREFIXES.sub("", named[utt]) for utt in train.lengths}
    speakers = sorted(
        # A hash orders speakers alike on every machine, and independently of other speakers.
        {*utt2spk.values()},
        key=lambda s: hashlib.sha256(s.encode()).digest(),
    )
    count = max(1, round(share * len(speakers)))
    # A held-out set needs one speaker, and training another one.
    if share == 0 or count == len(speakers):
        raise InputError(
            f"dev has no {noun}, and of {len(speakers)} training speakers data.held_out = {share:g}"
            " cannot hold out some and leave some; label dev or change data.held_out"
        )
    held = set(speakers[:count])
    LOGGER.warning(
        "dev has no %s: %d of %d training speakers are held out to drive the learning rate: %s",
        *(noun, count, len(speakers), name_some(sorted(held))),
    )

    def choose(is_held_out: bool) -> LabelledSet:
        lengths = {u: n for u, n in train.lengths.items() if (utt2spk[u] in held) == is_held_out}
        return replace(train, lengths=lengths, parts={}, cache={})

    return choose(False), choose(True)

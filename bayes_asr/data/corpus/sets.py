"""From the configuration's directories to labelled sets: what is found, what is skipped."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from bayes_asr.base.errors import InputError, name_some
from bayes_asr.base.log import LOGGER
from bayes_asr.config import Config, DataConfig, LabelledSetConfig
from bayes_asr.config.catalogue import CRITERIA
from bayes_asr.data.corpus.alignments_index import index_alignments, open_labels
from bayes_asr.data.corpus.classified import open_classes, open_sequences
from bayes_asr.data.corpus.index import Index
from bayes_asr.data.corpus.label_sets import check_labels, check_lengths, join_labels, name_targets
from bayes_asr.data.corpus.labelled import LabelledSet
from bayes_asr.data.corpus.listing import Listing, index_utterances, join_listings, list_utterances
from bayes_asr.data.features.front_end import FEATURES, FrontEnd
from bayes_asr.data.features.stored import Features
from bayes_asr.data.features.streams import (
    check_dimensions,
    check_speakers,
    describe_stream,
    report_skipped,
)
from bayes_asr.data.targets.alignments import Alignments, JoinedAlignments, check_transitions
from bayes_asr.data.targets.labels import Labels
from bayes_asr.kaldi_io.binary import OpenPipe
from bayes_asr.kaldi_io.combine_data import check_cmvn, combine_data_dirs
from bayes_asr.kaldi_io.sorted_table import split_table
from bayes_asr.kaldi_io.text import DataDir, read_data_dir

CHAIN = "tree and graph of LF-MMI"
MFCC = 13  # cepstra of Kaldi's mfcc.conf, which say little without their derivatives


def locate(candidates: Sequence[str], data: DataConfig, what: str, several: str = "") -> Path:
    """Return the first of the candidate directories that exists, and say which it is.

    `*` stands for any part of a name. Raises InputError where several directories fit that. Those
    that exist too and are passed over are said, with `several`: the key that would take them all.
    """
    paths = [Path(data.dir) / candidate for candidate in candidates]
    existing = [(path, matches) for path in paths if (matches := _existing(path))]
    if not existing:
        tried = ", ".join(map(str, paths)) or "no directory is configured"
        raise InputError(
            f"{what}: none of these exists: {tried}; set data.dir or name the directory"
        )
    (path, matches), *remaining = existing
    if len(matches) > 1:
        names = " and ".join(match.name for match in matches)
        raise InputError(f"{path}: {names} are there; choose one of them as {what}")
    passed_over = [match for _, paths_there in remaining for match in paths_there]
    LOGGER.info("%s: %s%s", what, matches[0], _say_others(passed_over, several))
    return matches[0]


def _existing(path: Path) -> list[Path]:
    """The paths that a candidate means and that exist."""
    if "*" in path.name:
        return [match for match in sorted(path.parent.glob(path.name)) if match.exists()]
    return [path] if path.exists() else []


def _say_others(paths: Sequence[Path], several: str) -> str:
    if not paths:
        return ""
    key = f" ({several} takes several together)" if several else ""
    return f", the first that exists; not used: {', '.join(map(str, paths))}{key}"


def locate_all(config: Config, name: str, kind: str, entry: str = "") -> list[Path]:
    """The directories of the features or alignments (`kind`) of the set `name`; or, of a stream or
    a label set `entry` this name, those of the streams or labels (`kind`).

    All of those that are to be taken together, or else the first that exists.
    """
    where, what = getattr(config.data, name), f"{name} {entry or kind}"
    candidates, together = getattr(where, kind), getattr(where, f"{kind}_all_of", ())
    if entry:
        candidates, together = candidates.get(entry, ()), dict(together).get(entry, ())
        if not candidates and not together:
            raise InputError(
                f"data.{name}.{kind} has no {entry}, but data.train.{kind} has; name the"
                f" directories of {entry} there"
            )
    # Directories to be joined must all be there; of candidates the first that exists is enough.
    if together:
        return [locate([candidate], config.data, what) for candidate in together]
    several = f"data.{name}.{kind}_all_of" if hasattr(where, f"{kind}_all_of") else ""
    return [locate(candidates, config.data, what, several)]


def locate_model(config: Config) -> Path:
    """The final.mdl whose pdfs a network has: that of its tree, or of the training alignments."""
    if CRITERIA[config.train.criterion].chain:
        return locate(config.data.chain, config.data, CHAIN) / "final.mdl"
    return locate_all(config, "train", "alignments")[0] / "final.mdl"


def data_dir(config: Config, name: str, open_pipe: OpenPipe | None = None) -> DataDir:
    """Read the data directory of the set `name` (train, dev or test), or several as one."""
    return _read_data_dirs(config, locate_all(config, name, "features"), open_pipe)


def locate_streams(config: Config, name: str) -> list[Path]:
    """The directories of all streams of a set."""
    further = (
        path
        for stream in config.data.train.stream_names
        for path in locate_all(config, name, "streams", stream)
    )
    return [*locate_all(config, name, "features"), *further]


def stream_dirs(config: Config, name: str, open_pipe: OpenPipe | None = None) -> dict[str, DataDir]:
    """The data directories of all streams of a set, by name, the features first."""
    further = {
        stream: _read_data_dirs(config, locate_all(config, name, "streams", stream), open_pipe)
        for stream in config.data.train.stream_names
    }
    return {FEATURES: data_dir(config, name, open_pipe), **further}


def _read_data_dirs(config: Config, paths: Sequence[Path], open_pipe: OpenPipe | None) -> DataDir:
    moves = config.data.moves
    return combine_data_dirs(
        [read_data_dir(path, open_pipe=open_pipe, moves=moves) for path in paths]
    )


def data_with_stm(config: Config, name: str) -> Path:
    """The first of a set's data directories that has an STM, which score.glm scores by."""
    folders = getattr(config.data, name).features
    for directory in folders:
        if (Path(config.data.dir) / directory / "stm").exists():
            return Path(config.data.dir) / directory
    raise InputError(
        f"score.glm is set, but none of {', '.join(folders)} in {config.data.dir} has an "
        f"stm for {name}; make one, or set score.glm to null to score texts"
    )


def features_of(
    data: DataDir, config: Config, stream: str = FEATURES, open_pipe: OpenPipe | None = None
) -> Features:
    """The features of a data directory, prepared as the configuration says of a stream."""
    options = config.features if stream == FEATURES else config.streams[stream]
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
    if not is_labelled(config, config.data.dev):
        return _held_out(train, config.data.held_out)
    dev = open_set(config, "dev", open_pipe, index, like=train)
    _check_alike(train, dev)
    return train, dev


def is_labelled(config: Config, selection: LabelledSetConfig) -> bool:
    """Whether a set has labels of its own."""
    candidates = (*selection.alignments, *selection.alignments_all_of)
    if file := config.data.labels_of_utterances:
        folders = (*selection.features, *selection.features_all_of)
        candidates = tuple(f"{folder}/{file}" for folder in folders)
    return any((Path(config.data.dir) / path).exists() for path in candidates)


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
    directories = locate_all(config, name, "features")
    paths, alignments = _open_first_labels(config, name, directories, open_pipe, index, like)
    # Labels of utterances have their lengths of the features.
    # The index keeps lengths of alignments, which are known without a look at features.
    table_index = None if config.data.labels_of_utterances else index
    list_directory = (
        partial(index_utterances, index=table_index) if table_index else list_utterances
    )

    def list_all(places: Sequence[Path]) -> list[Listing]:
        return [
            list_directory(place, alignments, open_pipe, moves=config.data.moves)
            for place in places
        ]

    def report(what: str, places: Sequence[Path], skipped: list[str]) -> None:
        why = f"{name}: no {what} in {_join(places)}"
        report_skipped(why, skipped, joined.total, config.data.max_skipped)

    listings = list_all(directories)
    joined = join_listings(listings)
    streams = {FEATURES: _open_features(config, FEATURES, joined.data, open_pipe)}
    report("features", directories, joined.without_features)
    wording = _describe_target(config, name)
    report(wording[0], paths, joined.without_alignment)
    if not joined.lengths:
        raise InputError(
            f"{name}: none of the {joined.total} utterances of {_join(directories)} has"
            f" {wording[1]} in {_join(paths)}; name those of these utterances as {wording[2]}"
        )
    lengths = joined.lengths
    for stream in config.data.train.stream_names:
        places = locate_all(config, name, "streams", stream)
        # Lengths of other streams differ where they are subsampled: only the tables are taken.
        table = join_listings(list_all(places)).data
        streams[stream] = _open_features(config, stream, table, open_pipe)
        check_speakers(streams[FEATURES], streams[stream], lengths)
        lengths = _intersect(
            lengths, table.feats or {}, partial(report, describe_stream(stream), places)
        )
    labels = {}
    for label in config.data.train.label_names:
        places = locate_all(config, name, "labels", label)
        labels[label] = join_labels([open_labels(path, index) for path in places])
        label_lengths = labels[label].lengths
        lengths = _intersect(lengths, label_lengths, partial(report, f"labels of {label}", places))
        check_lengths(alignments, labels[label], lengths)
    # Parts are cut last, when all streams and labels have sifted the utterances.
    parts = _name_parts(
        directories, [split_table(listing.lengths, lengths)[0] for listing in listings]
    )
    targets = {**alignments.targets, **name_targets(labels)}
    return LabelledSet(streams, targets, alignments, lengths, labels, parts)


def _open_first_labels(
    config: Config,
    name: str,
    directories: Sequence[Path],
    open_pipe: OpenPipe | None,
    index: Index | None,
    like: LabelledSet | None,
) -> tuple[list[Path], Labels]:
    """The alignments of a set, or its labels of utterances, and where they are."""
    if file := config.data.labels_of_utterances:
        tables = _read_data_dirs(config, directories, open_pipe).parts
        names = next(iter(like.targets.values())).names if like else ()
        how = file, tables, names, open_pipe
        labels = open_classes(*how) if config.data.classes else open_sequences(*how)
        return [path / file for path in directories], labels
    paths = locate_all(config, name, "alignments")
    aligned = [index_alignments(path, index) if index else Alignments(path) for path in paths]
    return paths, aligned[0] if len(aligned) == 1 else JoinedAlignments(aligned)


def _describe_target(config: Config, name: str) -> tuple[str, str, str]:
    """The words for the target of a set: noun, noun with article, and key of the configuration."""
    if config.data.classes:
        return "class", "a class", "data.classes"
    if config.data.sequences:
        return "labels", "labels", "data.sequences"
    return "alignment", "an alignment", f"data.{name}.alignments"


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
        settings = (
            [] if features.front_end.cmvn != "none" else ["--set features.cmvn=mean-variance"]
        )
        if features.dimensions == MFCC and not features.front_end.deltas:
            settings.append("--set features.deltas=2")
        LOGGER.warning(
            "the training features have %d dimensions (%s), not %s as this recipe expects: they are"
            " used as they are, but results are not comparable%s",
            features.dimensions,
            features.where(features.utterances[0]),
            " or ".join(map(str, data.expected_dims)),
            f"; MFCC and filter banks want {' '.join(settings)}" if settings else "",
        )


def _check_alike(train: LabelledSet, dev: LabelledSet) -> None:
    if isinstance(train.alignments, Alignments) and isinstance(dev.alignments, Alignments):
        check_transitions(train.alignments.model, train.alignments.path_of_model, dev.alignments)
    for label, labels in dev.labels.items():
        check_labels(train.labels[label], labels)
    for name, features in dev.streams.items():
        check_dimensions(name, features, train.streams[name])


def _held_out(train: LabelledSet, share: float) -> tuple[LabelledSet, LabelledSet]:
    """Split off whole speakers, chosen by a hash of their names."""
    utt2spk = train.features.speakers
    speakers = sorted(
        # A hash orders speakers alike on every machine, and independently of other speakers.
        {utt2spk[utt] for utt in train.lengths},
        key=lambda s: hashlib.sha256(s.encode()).digest(),
    )
    count = max(1, round(share * len(speakers)))
    # A held-out set needs one speaker, and training another one.
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
        name_some(sorted(held)),
    )
    remaining, out = (
        {u: n for u, n in train.lengths.items() if (utt2spk[u] in held) == is_held_out}
        for is_held_out in (False, True)
    )
    return (
        replace(train, lengths=remaining, parts={}, cache={}),
        replace(train, lengths=out, parts={}, cache={}),
    )

"""From the configuration's directories to labelled sets: what is found, what is skipped, what is said about it."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bayes_asr.config import Config, DataConfig, FeatureConfig
from bayes_asr.data.alignments import Alignments
from bayes_asr.data.features import Features
from bayes_asr.errors import InputError
from bayes_asr.log import LOGGER
from bayes_asr.tables.reader import OpenPipe
from bayes_asr.tables.text import DataDir, read_data_dir

NAMED = 5  # how many utterances a message names


@dataclass(frozen=True)
class LabelledSet:
    """Utterances that have both features and an alignment, with their lengths in frames."""

    features: Features
    alignments: Alignments
    lengths: dict[str, int]

    @property
    def frames(self) -> int:
        """Frames of all utterances."""
        return sum(self.lengths.values())


def located(candidates: Sequence[str], data: DataConfig, what: str) -> Path:
    """Return the first of the candidate directories that exists, and say which it is."""
    paths = [Path(data.dir) / candidate for candidate in candidates]
    for path in paths:
        if path.exists():
            LOGGER.info("%s: %s", what, path)
            return path
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
    """Open the training set and the set that drives the learning rate.

    The latter is dev where dev has alignments, otherwise some training speakers, who are then not trained on.
    """
    data = data_dir(config, "train", open_pipe)
    train = _labelled(config, "train", data, open_pipe)
    _announce_dimension(train.features, config.data)
    if any((Path(config.data.dir) / path).exists() for path in config.data.dev.alignments):
        dev = _labelled(config, "dev", data_dir(config, "dev", open_pipe), open_pipe)
        _check_same_pdfs(train.alignments, dev.alignments)
        return train, dev
    return _held_out(train, data.utt2spk, config.data.held_out)


def _labelled(config: Config, name: str, data: DataDir, open_pipe: OpenPipe | None) -> LabelledSet:
    features = features_of(data, config.features, open_pipe)
    path = located(getattr(config.data, name).alignments, config.data, f"{name} alignments")
    alignments = Alignments(path)
    found = {utt: alignments.length(utt) for utt in features.utterances if utt in alignments}
    missing = [utt for utt in features.utterances if utt not in alignments]
    _report_skipped(name, missing, len(features.utterances), path, config.data.max_skipped)
    return LabelledSet(features, alignments, found)


def _report_skipped(name: str, missing: list[str], total: int, path: Path, limit: float) -> None:
    if not missing:
        return
    names = ", ".join(missing[:NAMED]) + (", ..." if len(missing) > NAMED else "")
    message = f"{name}: {len(missing)} of {total} utterances have no alignment in {path}: {names}"
    if len(missing) > limit * total:
        raise InputError(f"{message}; more than data.max_skipped = {limit:g} allows")
    LOGGER.warning("%s; they are skipped", message)


def _announce_dimension(features: Features, data: DataConfig) -> None:
    utt = features.utterances[0]
    size = features.stored(utt).shape[1]
    if data.expected_dims and size not in data.expected_dims:
        LOGGER.warning(
            "the training features have %d dimensions (%s), not %s as this recipe expects: they are used as they are,"
            " but results are not comparable",
            size,
            features.where(utt),
            " or ".join(map(str, data.expected_dims)),
        )


def _check_same_pdfs(train: Alignments, dev: Alignments) -> None:
    ours, theirs = train.model.num_pdfs, dev.model.num_pdfs
    if ours != theirs:
        raise InputError(
            f"{dev.directory / 'final.mdl'} has {theirs} pdfs, {train.directory / 'final.mdl'} has {ours};"
            " align dev with the model of the training alignments"
        )


def _held_out(
    train: LabelledSet, utt2spk: dict[str, str], share: float
) -> tuple[LabelledSet, LabelledSet]:
    speakers = sorted(
        {utt2spk[utt] for utt in train.lengths}, key=lambda s: hashlib.sha256(s.encode()).digest()
    )
    count = max(1, round(share * len(speakers)))
    if share == 0 or count == len(speakers):
        raise InputError(
            f"dev has no alignments and {len(speakers)} training speakers with data.held_out = {share:g}"
            " leave none to hold out; align dev or raise data.held_out"
        )
    held = set(speakers[:count])
    LOGGER.warning(
        "dev has no alignments: %d of %d training speakers are held out to drive the learning rate: %s",
        count,
        len(speakers),
        " ".join(sorted(held)[:NAMED]),
    )
    parts = (
        {u: n for u, n in train.lengths.items() if (utt2spk[u] in held) == kept}
        for kept in (False, True)
    )
    first, second = (LabelledSet(train.features, train.alignments, part) for part in parts)
    return first, second

"""Several streams of features of the same utterances, by name.

The first says who speaks and how many frames there are. The others go with it frame by frame, at
the rate that the front end of each states.
"""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

import numpy as np

from bayes_asr.base.errors import InputError, least_share, name_some
from bayes_asr.base.installed import recipe_script
from bayes_asr.base.log import LOGGER
from bayes_asr.data.features.front_end import FEATURES, FrontEnd
from bayes_asr.data.features.stored import Features
from bayes_asr.kaldi_io.sorted_table import split_table
from bayes_asr.kaldi_io.text import DataDir

FrontEnds = Mapping[str, FrontEnd]


class StoredStreams:
    """The streams that a network reads, utterance by utterance."""

    def __init__(self, streams: Mapping[str, Features]) -> None:
        """Take streams by name; InputError where they do not say alike who speaks."""
        self._streams = streams
        self.first = next(iter(streams.values()))
        for features in list(streams.values())[1:]:
            check_speakers(self.first, features, self.first)

    @property
    def directories(self) -> list[Path]:
        """The data directories of all streams."""
        return [path for features in self._streams.values() for path in features.directories]

    @cached_property
    def utterances(self) -> list[str]:
        """Those that all streams have, in the order of the first."""
        further = list(self._streams.values())[1:]
        return [u for u in self.first.utterances if all(u in features for features in further)]

    def count_frames(self, utt: str) -> int:
        """The number of frames of an utterance, by its header where there is one."""
        return (self.first.read_shape(utt) or self.first.read(utt).shape)[0]

    def __getitem__(self, utt: str) -> np.ndarray:
        """Prepared features of an utterance, all streams side by side [T, F'].

        InputError where a stream is of another length or width than the network reads.
        """
        prepared = {name: features[utt] for name, features in self._streams.items()}
        frames = len(next(iter(prepared.values())))
        for name, features in self._streams.items():
            width, expected = prepared[name].shape[1], features.front_end.size
            if width != expected:
                raise InputError(
                    f"{features.where(utt)}: {utt} has {width} dimensions, but the"
                    f" network was trained on {expected}; use the features it was trained on"
                )
            if not features.front_end.fits(len(prepared[name]), frames):
                features.refuse_frames(name, utt, len(prepared[name]), self.first, frames)
        front_ends = {name: features.front_end for name, features in self._streams.items()}
        return join_streams(front_ends, prepared)


def join_streams(front_ends: FrontEnds, prepared: Mapping[str, np.ndarray]) -> np.ndarray:
    """Prepared streams [T_s, F_s] of an utterance at the frames of the first, [T, sum of F_s]."""
    if len(front_ends) == 1:
        return next(iter(prepared.values()))
    frames = len(prepared[next(iter(front_ends))])
    return np.hstack([end.spread(prepared[name], frames) for name, end in front_ends.items()])


def split_streams(front_ends: FrontEnds, matrix: np.ndarray) -> dict[str, np.ndarray]:
    """The inverse of `join_streams`: [T, F_s] by stream."""
    if len(front_ends) == 1:
        # A single stream has the matrix as it is, without a copy.
        return dict.fromkeys(front_ends, matrix)
    # The last end is that of the matrix, at which nothing is split.
    ends = np.cumsum([front_end.size for front_end in front_ends.values()])
    return dict(zip(front_ends, np.split(matrix, ends[:-1], axis=1), strict=True))


def describe_stream(name: str) -> str:
    """The features of a stream, in words."""
    return "features" if name == FEATURES else f"features of {name}"


def check_dimensions(name: str, features: Features, trained: Features) -> None:
    """InputError where a stream of a set is of another width than that of the training set."""
    if features.dimensions != trained.dimensions:
        utt = features.utterances[0]
        raise InputError(
            f"{features.where(utt)}: {utt} has {features.dimensions} dimensions, but the training"
            f" {describe_stream(name)} have {trained.dimensions}; extract all features alike"
        )


def check_headers(streams: Mapping[str, Features], name: str) -> None:
    """InputError where a stream says other widths, speakers or lengths than it should, by headers
    alone.
    """
    reference, features = next(iter(streams.values())), streams[name]
    if features is not reference:
        check_speakers(reference, features, reference)
    for utt in features.utterances:
        # A pipe has no header: it passes here and is checked when it is read.
        frames, columns = features.read_shape(utt) or (1, features.dimensions)
        if not frames or columns != features.dimensions:
            features.refuse_shape(utt, frames, columns)
        shape = (
            reference.read_shape(utt) if features is not reference and utt in reference else None
        )
        if shape and not features.front_end.fits(frames, shape[0]):
            features.refuse_frames(name, utt, frames, reference, shape[0])


def check_speakers(
    reference: Features, stream: Features, utterances: Features | Mapping[str, int]
) -> None:
    """InputError where one of some utterances has another speaker in another stream."""
    expected, actual = reference.speakers, stream.speakers
    # Equal tables, the usual case, need no look at each utterance.
    if expected == actual:
        return
    for utt, speaker in actual.items():
        if utt in utterances and expected[utt] != speaker:
            raise InputError(
                f"{stream.directory(utt) / 'utt2spk'}: {utt} is spoken by {speaker}, but by"
                f" {expected[utt]} in {reference.directory(utt) / 'utt2spk'}; correct one of them"
            )


def report_lacking(
    directories: Mapping[str, DataDir], limit: float, key: str = "data.max_skipped"
) -> set[str]:
    """The utterances of a set that a stream has no features of, as they have no frame: nothing
    reads them, all their words are deletions. Named and limited by `report_skipped`.

    directories: of the streams, by name, the features first.
    """
    utt2spk = next(iter(directories.values())).utt2spk
    lacking: set[str] = set()
    for stream, data in directories.items():
        _, missing = split_table(utt2spk, data.feats or {})
        report_skipped(
            f"no {describe_stream(stream)} in {data.path}", missing, len(utt2spk), limit, key
        )
        lacking.update(missing)
    return lacking


def advise_limit(key: str, share: float) -> str:
    """Words of a command line that let `share` of the utterances be skipped; those of run.sh, which
    has no option of its own for it, where run.sh calls the verb.

    key: a key of the configuration, or the option `--max-skipped` of a verb.
    """
    script = recipe_script()
    if not key.startswith("--"):
        return f"--set {key}={share:g}"
    if not script:
        return f"{key} {share:g}"
    return (
        f"{script} --set data.max_skipped={share:g}; of very little speech no GMMs can be trained,"
        " and --features mfcc needs none"
    )


def report_skipped(
    why: str, skipped: list[str], total: int, limit: float, key: str = "data.max_skipped"
) -> None:
    """Name and count what is skipped of `total` utterances; InputError if it is above `limit`.

    key: what sets the limit, a key of the configuration or an option, for the message.
    """
    if not skipped:
        return
    message = f"{why} for {len(skipped)} of {total} utterances: {name_some(skipped)}"
    if len(skipped) / total > limit:
        remedy = advise_limit(key, least_share(len(skipped), total))
        raise InputError(
            f"{message}; more than {key} = {limit:g} allows: mend them, or skip them by {remedy}"
        )
    LOGGER.warning("%s; they are skipped", message)

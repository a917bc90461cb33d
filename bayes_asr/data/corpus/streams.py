"""Several streams of features of the same utterances, by name.

The first says who speaks and how many frames there are. The others go with it frame by frame, at
the rate that the front end of each states.
"""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

import numpy as np

from bayes_asr.base.errors import InputError
from bayes_asr.data.corpus.labelled import Features, check_speakers
from bayes_asr.data.features.front_end import join_streams


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

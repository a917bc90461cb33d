"""Utterances with what a network reads of them and what it learns."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from bayes_asr.base.errors import InputError
from bayes_asr.data.features.stored import Features
from bayes_asr.data.targets.labels import Labels
from bayes_asr.data.targets.target import Target


@dataclass(frozen=True)
class LabelledSet:
    """Utterances that have features and an alignment, or a class, with their lengths in frames.

    streams: features by the name of the stream; targets: what they are labelled with, by name;
    alignments: where lengths come from, or the classes; labels: further label sets, by
    name; parts: the lengths of several sets that this one is of, by name, or nothing; cache: what
    networks read of utterances, as far as it is held in memory.
    """

    streams: Mapping[str, Features]
    targets: Mapping[str, Target]
    alignments: Labels
    lengths: Mapping[str, int]
    labels: Mapping[str, Labels] = field(default_factory=dict)
    parts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    cache: dict[str, dict[str, np.ndarray]] = field(default_factory=dict)

    @property
    def features(self) -> Features:
        """The first stream, whose tables say who speaks."""
        return next(iter(self.streams.values()))

    def prepare(self, utt: str) -> dict[str, np.ndarray]:
        """An utterance after the front ends, before normalisation: float32 [T, F'] by stream.

        InputError unless each T is that of the alignment, at the rate of the stream.
        """
        return {
            name: features.prepare(utt, self.read(utt, name))
            for name, features in self.streams.items()
        }

    def read(self, utt: str, stream: str) -> np.ndarray:
        """Features of one utterance as they are on disk, float32 [T, F]; InputError likewise."""
        matrix = self.streams[stream].read(utt)
        self._check_length(stream, utt, len(matrix))
        return matrix

    def check(self) -> None:
        """Compare lengths and widths of all utterances by the headers of their matrices alone.

        InputError for the first that is not as its alignment, or as the others of its set.
        """
        for name, features in self.streams.items():
            width = features.dimensions
            for utt in self.lengths:
                if utt not in features:
                    raise InputError(
                        f"{features.directories[0] / 'feats.scp'}: {utt} is missing, which is"
                        f" aligned in {self.alignments.where(utt)}; extract its features"
                    )
                shape = features.read_shape(utt)
                # What a pipe prints is checked when it is read.
                if shape is None:
                    continue
                self._check_length(name, utt, shape[0])
                if shape[1] != width:
                    features.refuse_shape(utt, *shape)

    def _check_length(self, stream: str, utt: str, frames: int) -> None:
        features = self.streams[stream]
        if features.front_end.fits(frames, self.lengths[utt]):
            return
        # The first stream is held against the alignment, and any other against the first.
        if features is self.features:
            raise InputError(
                f"{features.where(utt)}: {utt} has {frames} frames of features, but"
                f" {self.lengths[utt]} in the alignment of {self.alignments.where(utt)}; make both"
                " from the same features"
            )
        features.refuse_frames(stream, utt, frames, self.features, self.lengths[utt])

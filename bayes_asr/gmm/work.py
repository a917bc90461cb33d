"""What is computed of each share of the data, in this process or in another."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np

from bayes_asr.errors import InputError
from bayes_asr.gmm.features import SpeakerFeatures, read_pipeline, read_transforms
from bayes_asr.tables.binary import OpenPipe
from bayes_asr.tables.gmm import Mixtures, read_gmm
from bayes_asr.tables.mdl import TransitionModel
from bayes_asr.tables.text import read_data_dir

Aligned = Sequence[tuple[str, np.ndarray]]  # utterances and their transition-ids int32 [T]
SHARE = 40_000  # frames, about, that one item of a process has


@dataclass(frozen=True)
class Reading:
    """What shares are computed with: features of `data`, as the model in `folder` reads them.

    moment: tells apart what `folder` holds at different times; adapted: whether the transforms of
    speakers are used, where there are any; silence: the phones of silence.
    """

    data: Path
    folder: Path
    model: str
    moment: int = 0
    adapted: bool = True
    silence: frozenset[int] = frozenset()
    open_pipe: OpenPipe | None = None


class Opened:
    """What a `Reading` leads to, each read when it is asked for."""

    def __init__(self, reading: Reading) -> None:
        self.reading = reading

    @cached_property
    def features(self) -> SpeakerFeatures:
        """What the model reads of the data."""
        return self._open_features(adapted=self.reading.adapted)

    @cached_property
    def unadapted(self) -> SpeakerFeatures:
        """The same without the transforms of speakers."""
        return self._open_features(adapted=False)

    @cached_property
    def model(self) -> tuple[TransitionModel, Mixtures]:
        """The model."""
        return read_gmm(self.reading.folder / self.reading.model)

    def iter_frames(self, aligned: Aligned) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Features [T, D] and transition-ids [T] of each utterance."""
        for utt, tids in aligned:
            x = self.features[utt]
            if len(x) != len(tids):
                raise InputError(
                    f"{self.reading.data}: {utt} has {len(x)} frames of features, but its"
                    f" alignment has {len(tids)}; make both of the same sound"
                )
            yield x, tids

    def weigh(self, tids: np.ndarray) -> np.ndarray:
        """Weights [T] of frames: 0 for silence, otherwise 1 (weight-silence-post 0.0)."""
        phones = self.model[0].phone[tids]
        return (~np.isin(phones, list(self.reading.silence))).astype(np.float64)

    def _open_features(self, *, adapted: bool) -> SpeakerFeatures:
        reading = self.reading
        pipeline = read_pipeline(reading.folder)
        if adapted and has_transforms(reading.folder):
            pipeline = replace(pipeline, transforms=read_transforms(reading.folder))
        data = read_data_dir(reading.data, open_pipe=reading.open_pipe)
        return SpeakerFeatures(data, pipeline, open_pipe=reading.open_pipe)


@lru_cache(maxsize=2)  # what a pass reads with, and what it reads without the speakers' transforms
def open_reading(reading: Reading) -> Opened:
    """Open what is read, once in each process."""
    return Opened(reading)

"""What is computed of each share of the data, here or in another process."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np

from bayes_asr.errors import InputError
from bayes_asr.gmm.features import Pipeline, SpeakerFeatures, read_pipeline, read_transforms
from bayes_asr.gmm.progress import MODEL
from bayes_asr.tables.binary import OpenPipe
from bayes_asr.tables.gmm import Mixtures, read_gmm
from bayes_asr.tables.mdl import TransitionModel
from bayes_asr.tables.text import read_data_dir

Aligned = tuple[str, np.ndarray]  # an utterance and its transition-ids int32 [T]
SHARE = 40_000  # frames, about: so many utterances are one item of a process


@dataclass(frozen=True)
class Reading:
    """What items are computed with: features of `data`, and the model and pipeline of `folder`.

    moment: tells apart what `folder` holds at different times; adapted: whether the transforms of
    speakers there are used; model: the name of the model.
    """

    data: Path
    folder: Path
    moment: int = 0
    adapted: bool = True
    model: str = MODEL
    open_pipe: OpenPipe | None = None


@dataclass(frozen=True)
class Opened:
    """What a `Reading` leads to."""

    reading: Reading

    @cached_property
    def features(self) -> SpeakerFeatures:
        """What the model reads of the data."""
        reading = self.reading
        pipeline = read_pipeline(reading.folder)
        if reading.adapted and has_transforms(reading.folder):
            pipeline = replace(pipeline, transforms=read_transforms(reading.folder))
        return SpeakerFeatures(
            read_data_dir(reading.data, open_pipe=reading.open_pipe),
            pipeline,
            open_pipe=reading.open_pipe,
        )

"""Features of recordings by stream, and their adaptation to a speaker."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np


@dataclass(frozen=True)
class RecordingFeatures:
    """Features [T, F] of a file of so many seconds, and statistics of its speaker, by stream."""

    file: str
    seconds: float
    features: dict[str, np.ndarray]
    statistics: dict[str, np.ndarray] = field(default_factory=dict)


@dataclass(frozen=True)
class Speaker:
    """Maps of features [T, F] to those adapted to a speaker, and his statistics, by stream."""

    adapted: Mapping[str, Callable[[np.ndarray], np.ndarray]]
    statistics: Mapping[str, np.ndarray]

    def apply(self, recording: RecordingFeatures) -> RecordingFeatures:
        """The same recording with adapted features, and the speaker's statistics."""
        features = {
            name: self.adapted[name](x) if name in self.adapted else x
            for name, x in recording.features.items()
        }
        return replace(recording, features=features, statistics=dict(self.statistics))


@dataclass(frozen=True)
class RecordedSegment:
    """A span of a file in seconds, and its features."""

    span: tuple[float, float]
    recording: RecordingFeatures


def recording_name(file: Path) -> str:
    """The name of a file in CTMs, RTTMs and TextGrids: without folder, suffix and blanks."""
    return "_".join(file.stem.split()) or "_"

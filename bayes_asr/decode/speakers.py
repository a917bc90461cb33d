"""What is recorded of a speaker, as the streams of features that a run reads."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np


@dataclass(frozen=True)
class Recording:
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

    def apply(self, recording: Recording) -> Recording:
        """A recording with adapted features and the statistics."""
        features = {
            name: self.adapted[name](x) if name in self.adapted else x
            for name, x in recording.features.items()
        }
        return replace(recording, features=features, statistics=dict(self.statistics))


@dataclass(frozen=True)
class RecordedSegment:
    """A span of a file in seconds, and what is recorded there."""

    span: tuple[float, float]
    recording: Recording

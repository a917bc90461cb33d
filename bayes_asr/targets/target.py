"""What a network learns of utterances."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np


@dataclass(frozen=True)
class Target:
    """Labels of utterances, whole numbers from 0.

    labels: of an utterance, one for each frame [T] or one for all of it [1], as `per` says; size:
    how many different ones there are.
    """

    labels: Callable[[str], np.ndarray]
    size: int
    per: Literal["frame", "utterance"] = "frame"

"""Targets: the labels of utterances that a network learns."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np


@dataclass(frozen=True)
class Target:
    """Labels of utterances, whole numbers from 0, or what else a criterion reads of them.

    labels: of an utterance, one for each frame [T], one for all of it [1], a sequence of any length
    [L] that a decoder ends by the label 0, or a value that the criterion gets as it is and whose
    length is its number of labels, as `per` says; size: how many different labels there are;
    names: what they are called, where they have names; is_real: whether they are numbers that
    outputs approximate, which have no priors.
    """

    labels: Callable[[str], Any]
    size: int
    per: Literal["frame", "utterance", "sequence", "value"] = "frame"
    names: tuple[str, ...] = ()
    is_real: bool = False

    def count(self, utterances: Iterable[str]) -> np.ndarray:
        """The count of each label in utterances, plus 0.5: float64 [size], as Kaldi's
        analyze-counts.
        """
        # A half keeps the log prior of a label finite that never occurs.
        counts = np.full(self.size, 0.5)
        for utt in utterances:
            counts += np.bincount(self.labels(utt), minlength=self.size)
        return counts

"""One label an utterance, such as its language: what a classifier learns."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from bayes_asr.base.errors import InputError, nearest
from bayes_asr.data.targets.target import Labels, Target

CLASSES = "classes"
"""The target, and the head that learns it."""


class Classes(Labels):
    """The classes of the utterances of a data directory (`utterance class` a line).

    lengths: frames of each utterance that has features and a class; names: all classes, by their
    number; digest: a hash of who has which.
    """

    def __init__(
        self,
        directory: Path,
        classes: Mapping[str, str],
        lengths: Mapping[str, int],
        names: Sequence[str],
    ) -> None:
        """Take the class of each utterance; InputError for one that is not among the names."""
        self.directory, self.lengths = directory, lengths
        self._values = {utt: classes[utt] for utt in lengths}
        self.names = tuple(names)
        self._numbers = {name: number for number, name in enumerate(self.names)}
        for utt in lengths:
            check_class(classes[utt], utt, self.where(utt), self._numbers)
        text = "\n".join(f"{utt} {classes[utt]}" for utt in lengths)
        self.digest = hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    @property
    def targets(self) -> dict[str, Target]:
        """The number of the class of each utterance."""
        return {CLASSES: Target(self._label, len(self.names), "utterance", self.names)}

    def _label(self, utt: str) -> np.ndarray:
        return np.array([self._numbers[self._values[utt]]], np.int32)


def check_class(name: str, utt: str, where: Path, classes: Mapping[str, int]) -> None:
    """InputError for a class that a training set did not have; classes: their numbers by name."""
    if name not in classes:
        raise InputError(
            f"{where}: {utt} is of the class {name}, which no utterance of the training set is of"
            f"{nearest(name, classes)}; known: {', '.join(classes)}"
        )

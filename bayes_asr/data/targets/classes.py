"""One label an utterance, such as its language: what a classifier learns."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from bayes_asr.base.errors import InputError, nearest
from bayes_asr.data.targets.target import Target
from bayes_asr.kaldi_io.sorted_table import join_tables

CLASSES = "classes"
"""The target, and the head that learns it."""


class Classes:
    """The classes of the utterances of a data directory (`utterance class` a line).

    lengths: frames of each utterance that has features and a class; names: all classes, by their
    number; digest: a hash of who has which.
    """

    def __init__(
        self,
        directory: Path,
        classes: Mapping[str, str],
        lengths: Mapping[str, int],
        names: Sequence[str] = (),
    ) -> None:
        """Take the class of each utterance; names: the classes that are known, by default these.

        InputError for a class that is not known.
        """
        self.directory, self._classes, self.lengths = directory, classes, lengths
        # Sorting gives a class the same number in every run.
        self.names = tuple(names) or tuple(sorted({classes[utt] for utt in lengths}))
        self._numbers = {name: number for number, name in enumerate(self.names)}
        for utt in lengths:
            check_class(classes[utt], utt, self.where(utt), self.names)
        text = "\n".join(f"{utt} {classes[utt]}" for utt in lengths)
        self.digest = hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    @property
    def parts(self) -> "Sequence[Classes]":
        """The classes of each directory: here, of one."""
        return (self,)

    @property
    def targets(self) -> dict[str, Target]:
        """The number of the class of each utterance."""
        return {CLASSES: Target(self._label, len(self.names), "utterance", self.names)}

    def where(self, utt: str) -> Path:
        """The directory that has an utterance, for messages."""
        return next((p.directory for p in self.parts if utt in p.lengths), self.directory)

    def _label(self, utt: str) -> np.ndarray:
        return np.array([self._numbers[self._classes[utt]]], np.int32)


class JoinedClasses(Classes):
    """The classes of several directories, as if they were one's."""

    def __init__(self, parts: Sequence[Classes], names: Sequence[str] = ()) -> None:
        """Join them; InputError for an utterance that two of them have."""
        self._parts = tuple(parts)
        lengths = join_tables([(part.directory, part.lengths) for part in parts], "has a class")
        classes = {utt: part._classes[utt] for part in parts for utt in part.lengths}
        super().__init__(parts[0].directory, classes, lengths, names)

    @property
    def parts(self) -> Sequence[Classes]:
        """Those of each directory."""
        return self._parts


def check_class(name: str, utt: str, where: Path, classes: Sequence[str]) -> None:
    """InputError for a class that a training set did not have."""
    if name not in classes:
        raise InputError(
            f"{where}: {utt} is of the class {name}, which no utterance of the training set is of"
            f"{nearest(name, classes)}; known: {', '.join(classes)}"
        )

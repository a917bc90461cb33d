"""Many labels an utterance, in their order, such as its phones: what a decoder writes."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from bayes_asr.base.errors import InputError, nearest
from bayes_asr.data.targets.target import Labels, Target

SEQUENCE = "sequence"
"""The target, and the head that learns it."""

ENDS = "</s>"
"""What the label 0 is called, which begins and ends a sequence."""


class Sequences(Labels):
    """The labels of the utterances of a data directory (`utterance label label ...` a line).

    lengths: frames of each utterance that has features and labels; names: the vocabulary, `ENDS`
    first; digest: a hash of what all say.
    """

    def __init__(
        self,
        directory: Path,
        sequences: Mapping[str, Sequence[str]],
        lengths: Mapping[str, int],
        names: Sequence[str],
    ) -> None:
        """Take the labels of each utterance; InputError for one that is not in the vocabulary."""
        self.directory, self.lengths = directory, lengths
        self._values = {utt: sequences[utt] for utt in lengths}
        self.names = tuple(names)
        self._numbers = {name: number for number, name in enumerate(self.names) if name != ENDS}
        # Utterances are searched only where the vocabulary has an unknown label.
        vocabulary = {label for utt in lengths for label in sequences[utt]}
        for utt in lengths if vocabulary - self._numbers.keys() else ():
            self._check(utt)
        text = "\n".join(" ".join((utt, *sequences[utt])) for utt in lengths)
        self.digest = hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    @property
    def targets(self) -> dict[str, Target]:
        """The numbers of the labels of each utterance."""
        return {SEQUENCE: Target(self._label, len(self.names), "sequence", self.names)}

    def _label(self, utt: str) -> np.ndarray:
        return np.array([self._numbers[label] for label in self._values[utt]], np.int32)

    def _check(self, utt: str) -> None:
        for label in self._values[utt]:
            if label == ENDS:
                raise InputError(
                    f"{self.where(utt)}: {utt} has {ENDS}, which means the end of all labels; take"
                    " it out"
                )
            if label not in self._numbers:
                raise InputError(
                    f"{self.where(utt)}: {utt} has the label {label}, which no utterance of the"
                    f" training set has{nearest(label, self._numbers)}; train on one that has it,"
                    f" or write another of the {len(self._numbers)} known ones"
                )

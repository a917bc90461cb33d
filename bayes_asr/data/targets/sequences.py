"""Many labels an utterance, in their order, such as its phones: what a decoder writes."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from bayes_asr.base.errors import InputError, nearest
from bayes_asr.data.targets.target import Target
from bayes_asr.kaldi_io.sorted_table import join_tables

SEQUENCE = "sequence"
"""The target, and the head that learns it."""

ENDS = "</s>"
"""What the label 0 is called, which begins and ends a sequence."""


class Sequences:
    """The labels of the utterances of a data directory (`utterance label label ...` a line).

    lengths: frames of each utterance that has features and labels; names: the vocabulary, `ENDS`
    first; digest: a hash of what all say.
    """

    def __init__(
        self,
        directory: Path,
        sequences: Mapping[str, Sequence[str]],
        lengths: Mapping[str, int],
        names: Sequence[str] = (),
        parts: "Sequence[Sequences]" = (),
    ) -> None:
        """Take the labels of each utterance; names: the vocabulary, by default made of these;
        parts: those of the directories that they are of, where there are several.

        InputError for a label that is not in it.
        """
        self.directory, self.lengths = directory, lengths
        self._sequences, self._parts = sequences, tuple(parts)
        vocabulary = {label for utt in lengths for label in sequences[utt]}
        self.names = tuple(names) or (ENDS, *sorted(vocabulary))
        self._numbers = {name: number for number, name in enumerate(self.names) if name != ENDS}
        # Utterances are searched only where the vocabulary has an unknown label.
        for utt in lengths if vocabulary - self._numbers.keys() else ():
            self._check(utt)
        text = "\n".join(" ".join((utt, *sequences[utt])) for utt in lengths)
        self.digest = hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    @property
    def parts(self) -> "Sequence[Sequences]":
        """Themselves, or those of several directories."""
        return self._parts or (self,)

    @property
    def targets(self) -> dict[str, Target]:
        """The numbers of the labels of each utterance."""
        return {SEQUENCE: Target(self._label, len(self.names), "sequence", self.names)}

    def where(self, utt: str) -> Path:
        """The directory that has an utterance, for messages."""
        return next((p.directory for p in self.parts if utt in p.lengths), self.directory)

    def _label(self, utt: str) -> np.ndarray:
        return np.array([self._numbers[label] for label in self._sequences[utt]], np.int32)

    def _check(self, utt: str) -> None:
        for label in self._sequences[utt]:
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


def join_sequences(parts: Sequence[Sequences], names: Sequence[str]) -> Sequences:
    """The labels of several directories as one's; InputError for an utterance that two have."""
    if len(parts) == 1:
        return parts[0]
    lengths = join_tables([(part.directory, part.lengths) for part in parts], "has labels")
    sequences = {utt: part._sequences[utt] for part in parts for utt in part.lengths}
    return Sequences(parts[0].directory, sequences, lengths, names, parts)

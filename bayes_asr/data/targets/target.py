"""Targets, the labels of utterances that a network learns, and how frequent each of them is."""

import hashlib
from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self, cast

import numpy as np

from bayes_asr.kaldi_io.sorted_table import join_tables

DISABLED = float(np.sqrt(np.finfo(np.float32).max))  # the log prior that makes a pdf impossible


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


def advise_lengths(*, frames: int, labels: int) -> str:
    """The advice where an utterance has more or fewer labels than frames, for messages."""
    advice = "make both from the same features"
    if 2 * labels <= frames:
        advice += "; alignments by a run of LF-MMI have one of several frames: take other ones"
    return advice


class Labels:
    """Labels of the utterances of a directory or an archive; a subclass is one kind of them.

    lengths: frames of each utterance; digest: a hash of what they say; _values: what `join`
    takes together, by utterance.
    """

    directory: Path
    lengths: Mapping[str, int]
    digest: str
    _values: Mapping[str, Any]
    _parts: Sequence[Self] = ()

    @property
    def parts(self) -> Sequence[Self]:
        """The labels that these stand for: themselves, or those of several directories."""
        return self._parts or (self,)

    @property
    def targets(self) -> Mapping[str, Target]:
        """Targets that a network may learn, by name; "" where the set has one target alone."""
        return {}

    def where(self, utt: str) -> Path:
        """The directory or archive that has an utterance, for messages."""
        return next((part.directory for part in self.parts if utt in part.lengths), self.directory)

    @classmethod
    def join(cls, parts: Sequence[Self]) -> Self:
        """Labels of several directories, which mean the same, as if they were one's.

        InputError for an utterance that two of them have.
        """
        joined = copy(parts[0])
        joined.lengths = join_tables(
            [(part.directory, part.lengths) for part in parts], "has labels"
        )
        joined._values = ChainMap(*(cast(dict, part._values) for part in parts))  # only read
        digests = " ".join(part.digest for part in parts)
        joined.digest = hashlib.blake2b(digests.encode(), digest_size=16).hexdigest()
        joined._parts = tuple(parts)
        return joined


def log_priors(counts: np.ndarray, floor: float = 1e-10) -> np.ndarray:
    """Log prior [P] of each pdf from its count, as Kaldi's nnet-pdf-prior.

    A pdf whose share is below `floor` gets a huge prior: subtracting it makes the pdf impossible,
    never likely.
    """
    share = counts / counts.sum(dtype=np.float64)
    # np.where computes both sides, and the maximum keeps log from 0.
    return np.where(share < floor, DISABLED, np.log(np.maximum(share, floor)))

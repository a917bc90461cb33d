"""Label sets: alignments by a model of their own, or whole numbers that mean anything else."""

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import is_there
from bayes_asr.data.targets.target import Labels, Target
from bayes_asr.kaldi_io.ark import iter_int_vectors
from bayes_asr.kaldi_io.jobs import find_alignments

Items = Iterator[tuple[str, np.ndarray]]
"""Utterances and their labels, int32 [T]."""


class IntegerLabels(Labels):
    """Whole numbers from 0 of every frame: `ali.*.gz` without a model, or an archive."""

    def __init__(
        self,
        path: Path,
        vectors: Mapping[str, np.ndarray],
        lengths: Mapping[str, int],
        digest: str,
        greatest: tuple[str, int],
    ) -> None:
        """Take what `read_integers` or the index has found."""
        self.directory, self._values, self.lengths = path, vectors, lengths
        self.digest, self._greatest = digest, greatest

    @property
    def greatest(self) -> tuple[str, int]:
        """The utterance that has the greatest of them, and this."""
        return max((part._greatest for part in self.parts), key=lambda pair: pair[1])

    @property
    def targets(self) -> Mapping[str, Target]:
        """The numbers, from 0 to the greatest."""
        # Labels from 0 to the greatest are one more than the greatest.
        return {"": Target(self._values.__getitem__, self.greatest[1] + 1)}


class LabelDigest:
    """Passes labels on, and notes what `IntegerLabels` knows of them."""

    def __init__(self) -> None:
        self._hash = hashlib.blake2b(digest_size=16)
        self.greatest = ("", -1)

    def __call__(self, labels: Items) -> Items:
        """Yield all labels."""
        for utt, vector in labels:
            self._hash.update(f"{utt} {len(vector)} ".encode())
            self._hash.update(vector.tobytes())
            # The initial value stands for an utterance without labels, which has no maximum.
            greatest = int(vector.max(initial=-1))
            if greatest > self.greatest[1]:
                self.greatest = utt, greatest
            yield utt, vector

    @property
    def digest(self) -> str:
        """A hash of them."""
        return self._hash.hexdigest()


def has_model(path: Path) -> bool:
    """Whether a label set is of alignments by a model, which say pdfs and phones."""
    return is_there(path / "final.mdl")


def read_integers(path: Path) -> IntegerLabels:
    """Read integer labels into memory; InputError as `iter_integers`."""
    noting = LabelDigest()
    vectors = dict(noting(iter_integers(path)))
    lengths = {utt: len(vector) for utt, vector in vectors.items()}
    return IntegerLabels(path, vectors, lengths, noting.digest, noting.greatest)


def list_label_files(path: Path) -> list[Path]:
    """The archives of integer labels: `ali.*.gz` of a directory, or the file itself."""
    return find_alignments(path) if path.is_dir() else [path]


def iter_integers(path: Path) -> Items:
    """Yield utterances and their labels, int32 [T], of a directory or an archive, binary or text.

    InputError for a negative one, and for an utterance that is repeated.
    """
    utterances: set[str] = set()
    for archive in list_label_files(path):
        for utt, labels in iter_int_vectors(archive):
            if utt in utterances:
                raise InputError(f"{archive}: {utt} is labelled a second time; keep one of them")
            utterances.add(utt)
            if (negative := np.flatnonzero(labels < 0)).size:
                frame = negative[0]
                raise InputError(
                    f"{archive}: {utt}, frame {frame} has the label {labels[frame]}; labels are"
                    " whole numbers from 0: count them anew"
                )
            yield utt, labels

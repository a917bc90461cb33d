"""Label sets: alignments by a model of their own, or whole numbers that mean anything else."""

import hashlib
from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import cast

import numpy as np

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import is_there
from bayes_asr.data.targets.target import Target
from bayes_asr.kaldi_io.ark import iter_int_vectors
from bayes_asr.kaldi_io.jobs import find_alignments
from bayes_asr.kaldi_io.sorted_table import join_tables

Items = Iterator[tuple[str, np.ndarray]]
"""Utterances and their labels, int32 [T]."""


class IntegerLabels:
    """Whole numbers from 0 of every frame: `ali.*.gz` without a model, or an archive.

    greatest: the utterance that has the greatest of them, and this.
    """

    def __init__(
        self,
        path: Path,
        vectors: Mapping[str, np.ndarray],
        lengths: Mapping[str, int],
        digest: str,
        greatest: tuple[str, int],
    ) -> None:
        """Take what `read_integers` or the index has found."""
        self.directory, self._vectors, self.lengths = path, vectors, lengths
        self.digest, self.greatest = digest, greatest

    @property
    def parts(self) -> "Sequence[IntegerLabels]":
        """Themselves."""
        return (self,)

    @property
    def targets(self) -> Mapping[str, Target]:
        """The numbers, from 0 to the greatest."""
        # Labels from 0 to the greatest are one more than the greatest.
        return {"": Target(self._vectors.__getitem__, self.greatest[1] + 1)}

    def where(self, utt: str) -> Path:
        """The directory or archive that has an utterance, for messages."""
        return next((p.directory for p in self.parts if utt in p.lengths), self.directory)


class JoinedIntegers(IntegerLabels):
    """The labels of several directories or archives, as if they were one's."""

    def __init__(self, parts: Sequence[IntegerLabels]) -> None:
        """Join them; InputError for an utterance that two of them have."""
        lengths = join_tables([(part.directory, part.lengths) for part in parts], "is labelled")
        vectors = ChainMap(*(cast(dict, part._vectors) for part in parts))  # only read
        digest = hashlib.blake2b(" ".join(part.digest for part in parts).encode(), digest_size=16)
        greatest = max((part.greatest for part in parts), key=lambda pair: pair[1])
        super().__init__(parts[0].directory, vectors, lengths, digest.hexdigest(), greatest)
        self._parts = tuple(parts)

    @property
    def parts(self) -> Sequence[IntegerLabels]:
        """The labels of each directory or archive."""
        return self._parts


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

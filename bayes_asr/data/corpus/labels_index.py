"""Labels in archives of the index, from which each is read when it is used."""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np

from bayes_asr.base.log import LOGGER
from bayes_asr.data.corpus.index import Arrays, Index, NotKeptError, keeping, name_of, state_of
from bayes_asr.data.targets.alignments import Alignments, add_to_hash, iter_alignments
from bayes_asr.data.targets.labels import (
    IntegerLabels,
    LabelDigest,
    has_model,
    iter_integers,
    list_label_files,
    read_integers,
)
from bayes_asr.data.targets.target import Labels
from bayes_asr.kaldi_io.jobs import find_alignments
from bayes_asr.kaldi_io.mdl import read_transition_model
from bayes_asr.kaldi_io.transition_model import begin_hash
from bayes_asr.kaldi_io.vectors import StoredVectors, VectorIndex, write_vectors

Vectors = Iterator[tuple[str, np.ndarray]]


def open_labels(path: Path, index: Index | None) -> Labels:
    """A label set, held in memory unless there is an index."""
    if has_model(path):
        return open_alignments(path, index)
    return index_integers(path, index) if index else read_integers(path)


def open_alignments(path: Path, index: Index | None) -> Alignments:
    """The alignments of a directory, likewise."""
    return index_alignments(path, index) if index else Alignments(path)


def index_alignments(directory: Path, index: Index) -> Alignments:
    """The alignments of a directory, in an archive from which each is read when it is used."""
    name = f"ali-{name_of(directory)}"

    def make(folder: Path) -> Arrays:
        model = read_transition_model(directory / "final.mdl")
        total = begin_hash(model)
        aligned = add_to_hash(iter_alignments(directory, model), total)
        places = _keep(aligned, folder / f"{name}.ark")
        return {"digest": np.array(total.hexdigest()), **places}

    def use(folder: Path, arrays: Arrays) -> Alignments:
        digest = str(arrays.pop("digest"))
        return Alignments(directory, _open(folder / f"{name}.ark", arrays), digest)

    # The model is among the files: another one gives the same transition-ids other pdfs.
    files = [*find_alignments(directory), directory / "final.mdl"]
    try:
        return index.of(name, _states(files), make, use)
    except NotKeptError as error:
        LOGGER.warning("no index of the alignments, which are held in memory: %s", error)
        return Alignments(directory)


def index_integers(path: Path, index: Index) -> IntegerLabels:
    """Labels that are whole numbers, likewise."""
    name = f"labels-{name_of(path)}"

    def make(folder: Path) -> Arrays:
        noting = LabelDigest()
        # Labels pass the digest on their way to the archive, so they are read once.
        places = _keep(noting(iter_integers(path)), folder / f"{name}.ark")
        utt, greatest = noting.greatest
        about = {"digest": noting.digest, "greatest": greatest, "greatest_of": utt}
        return {**{key: np.array(value) for key, value in about.items()}, **places}

    def use(folder: Path, arrays: Arrays) -> IntegerLabels:
        greatest = str(arrays.pop("greatest_of")), int(arrays.pop("greatest"))
        digest = str(arrays.pop("digest"))
        stored = _open(folder / f"{name}.ark", arrays)
        return IntegerLabels(path, stored, stored.lengths, digest, greatest)

    try:
        return index.of(name, _states(list_label_files(path)), make, use)
    except NotKeptError as error:
        LOGGER.warning("no index of the labels, which are held in memory: %s", error)
        return read_integers(path)


def index_vectors(
    kind: str, path: Path, files: list[Path], read_vectors: Callable[[], Vectors], index: Index
) -> tuple[Mapping[str, np.ndarray], str]:
    """Vectors int32 that are made of files, likewise, and a hash of them.

    kind: what they are, for the name in the index; read_vectors: makes them, where they are not
    kept.
    """
    name = f"{kind}-{name_of(path)}"

    def make(folder: Path) -> Arrays:
        total = hashlib.blake2b(digest_size=16)
        places = _keep(add_to_hash(read_vectors(), total), folder / f"{name}.ark")
        return {"digest": np.array(total.hexdigest()), **places}

    def use(folder: Path, arrays: Arrays) -> tuple[Mapping[str, np.ndarray], str]:
        digest = str(arrays.pop("digest"))
        return _open(folder / f"{name}.ark", arrays), digest

    try:
        return index.of(name, _states(files), make, use)
    except NotKeptError as error:
        LOGGER.warning("no index of the %s, which are held in memory: %s", kind, error)
        total = hashlib.blake2b(digest_size=16)
        return dict(add_to_hash(read_vectors(), total)), total.hexdigest()


def _states(files: list[Path]) -> dict[str, str]:
    return {str(path): state_of(path) for path in files}


def _keep(vectors: Vectors, ark: Path) -> Arrays:
    """Write vectors, and return their places."""
    with keeping():  # where it is the reading that fails, it does so in memory again
        # The fields of a VectorIndex are arrays, so the index holds them as they are.
        return vars(write_vectors(vectors, ark))


def _open(ark: Path, places: Arrays) -> StoredVectors:
    return StoredVectors(ark, VectorIndex(**places))

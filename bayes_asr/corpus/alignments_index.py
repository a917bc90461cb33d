"""Alignments in an archive of the index, from which each is read when it is used."""

from pathlib import Path

import numpy as np

from bayes_asr.corpus.index import (
    Arrays,
    Index,
    NotKeptError,
    keeping,
    name_of,
    state_of,
)
from bayes_asr.log import LOGGER
from bayes_asr.tables.mdl import read_transition_model
from bayes_asr.tables.vectors import Places, StoredVectors, write_vectors
from bayes_asr.targets.alignments import (
    Alignments,
    add_to_hash,
    begin_hash,
    find_archives,
    iter_alignments,
)


def index_alignments(directory: Path, index: Index) -> Alignments:
    """The alignments of a directory, in an archive from which each is read when it is used."""
    name = f"ali-{name_of(directory)}"

    def make(folder: Path) -> Arrays:
        model = read_transition_model(directory / "final.mdl")
        total = begin_hash(model)
        aligned = add_to_hash(iter_alignments(directory, model), total)
        with keeping():  # where it is the reading that fails, it does so in memory again
            places = write_vectors(aligned, folder / f"{name}.ark")
        return {"digest": np.array(total.hexdigest()), **vars(places)}

    def use(folder: Path, found: Arrays) -> Alignments:
        digest = str(found["digest"])
        places = Places(**{key: found[key] for key in found if key != "digest"})
        return Alignments(directory, StoredVectors(folder / f"{name}.ark", places), digest)

    made_from = {str(path): state_of(path) for path in find_archives(directory)}
    made_from[str(directory / "final.mdl")] = state_of(directory / "final.mdl")
    try:
        return index.of(name, made_from, make, use)
    except NotKeptError as error:
        LOGGER.warning("no index of the alignments, which are held in memory: %s", error)
        return Alignments(directory)

"""Alignments and utterances of a set, kept in an index so that the next training starts at once."""

import os
from pathlib import Path

import numpy as np

from bayes_asr.corpus.index import (
    Arrays,
    Index,
    NotKeptError,
    content_hash,
    keeping,
    name_of,
    state_of,
)
from bayes_asr.corpus.listing import Listing, list_utterances
from bayes_asr.log import LOGGER
from bayes_asr.tables.ark import is_pipe, list_archives
from bayes_asr.tables.binary import OpenPipe
from bayes_asr.tables.mdl import read_transition_model
from bayes_asr.tables.sorted import SortedTable, decode, encode
from bayes_asr.tables.text import read_data_dir
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


def index_utterances(
    directory: Path, alignments: Alignments, open_pipe: OpenPipe | None, index: Index
) -> Listing:
    """What `list_utterances` gives, from an index.

    That is kept where feats.scp is as Kaldi sorts it and has no pipes.
    """
    tables = [path for name in ("feats.scp", "utt2spk") if (path := directory / name).exists()]
    made_from = {str(path): content_hash([path.read_bytes()]) for path in tables}
    made_from[str(alignments.directory)] = alignments.digest
    made_from["working directory"] = os.getcwd()  # relative names in feats.scp mean other files

    def make(_: Path) -> Arrays:
        found = list_utterances(directory, alignments, open_pipe)
        feats = found.data.feats or {}
        if list(feats) != sorted(feats) or any(map(is_pipe, feats.values())):
            return {}
        where = [os.path.join(os.getcwd(), one) for one in feats.values()]
        return {
            "names": encode(feats),
            "where": encode(where),
            "archives": encode(map(str, list_archives(where))),
            "lengths": np.array([found.lengths.get(utt, -1) for utt in feats], np.int64),
            "total": np.array(found.total),
            "without_features": encode(found.without_features),
        }

    def use(_: Path, found: Arrays) -> Listing:
        if not found or not all(map(os.path.exists, decode(found["archives"]))):
            return list_utterances(directory, alignments, open_pipe)
        names, lengths = found["names"], found["lengths"]
        aligned = lengths >= 0
        feats = SortedTable(names, found["where"])
        return Listing(
            read_data_dir(directory, open_pipe=open_pipe, feats=feats),
            SortedTable(names[aligned], lengths[aligned]),
            int(found["total"]),
            decode(found["without_features"]),
            decode(names[~aligned]),
        )

    try:
        return index.of(
            f"utterances-{name_of(directory, alignments.directory)}", made_from, make, use
        )
    except NotKeptError as error:
        LOGGER.warning("no index of the utterances, which are read from the tables: %s", error)
        return list_utterances(directory, alignments, open_pipe)

"""The utterances of a set that have features and labels."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bayes_asr.base.files import is_there, read_bytes
from bayes_asr.base.log import LOGGER
from bayes_asr.data.corpus.index import Arrays, Index, NotKeptError, content_hash, name_of
from bayes_asr.data.targets.target import Labels
from bayes_asr.kaldi_io.ark import Moves
from bayes_asr.kaldi_io.byte_reader import OpenPipe
from bayes_asr.kaldi_io.data_dir import combine_data_dirs, read_data_dir
from bayes_asr.kaldi_io.rxfilename import is_pipe, list_archives
from bayes_asr.kaldi_io.sorted_table import SortedTable, decode, encode, join_tables
from bayes_asr.kaldi_io.text import DataDir


@dataclass(frozen=True)
class Listing:
    """The tables of a set, the frames of each utterance that has both, and those that lack one."""

    data: DataDir
    lengths: Mapping[str, int]
    total: int
    without_features: list[str]
    without_labels: list[str]


def list_utterances(
    directory: Path, labels: Labels, open_pipe: OpenPipe | None, moves: Moves = ()
) -> Listing:
    """Read the tables of a data directory, and compare them with labels."""
    data = read_data_dir(directory, open_pipe=open_pipe, moves=moves)
    feats, labelled = data.feats or {}, dict(labels.lengths.items())
    lengths = {utt: labelled[utt] for utt in feats if utt in labelled}
    return Listing(
        data,
        lengths,
        len(data.utt2spk),
        [utt for utt in data.utt2spk if utt not in feats],
        [utt for utt in feats if utt not in lengths],
    )


def join_listings(listings: Sequence[Listing]) -> Listing:
    """The joined listing of several directories; InputError for an utterance that two have."""
    if len(listings) == 1:
        return listings[0]
    return Listing(
        combine_data_dirs([listing.data for listing in listings]),
        join_tables([(listing.data.path, listing.lengths) for listing in listings], "has features"),
        sum(listing.total for listing in listings),
        [utt for listing in listings for utt in listing.without_features],
        [utt for listing in listings for utt in listing.without_labels],
    )


def index_utterances(
    directory: Path, labels: Labels, open_pipe: OpenPipe | None, index: Index, moves: Moves = ()
) -> Listing:
    """The result of `list_utterances`, from an index.

    That is kept where feats.scp is as Kaldi sorts it and has no pipes.
    """
    tables = [path for name in ("feats.scp", "utt2spk") if is_there(path := directory / name)]
    made_from = {str(path): content_hash([read_bytes(path)]) for path in tables}
    made_from |= {str(part.directory): part.digest for part in labels.parts}
    made_from["moved"] = repr(moves)
    made_from["working directory"] = os.getcwd()  # relative names in feats.scp mean other files

    def read() -> Listing:
        return list_utterances(directory, labels, open_pipe, moves)

    def use(_: Path, arrays: Arrays) -> Listing:
        if not arrays or not all(map(os.path.exists, decode(arrays["archives"]))):
            return read()
        feats = SortedTable(arrays["names"], arrays["where"])
        data = read_data_dir(directory, open_pipe=open_pipe, feats=feats, moves=moves)
        return _unpack(arrays, data)

    key = name_of(directory, *(part.directory for part in labels.parts))
    try:
        return index.of(f"utterances-{key}", made_from, lambda _: _pack(read()), use)
    except NotKeptError as error:
        LOGGER.warning("no index of the utterances, which are read from the tables: %s", error)
        return read()


def _pack(listing: Listing) -> Arrays:
    """A listing as arrays, without its tables; none where features are unsorted or of pipes."""
    feats = listing.data.feats or {}
    if list(feats) != sorted(feats) or any(map(is_pipe, feats.values())):
        return {}
    where = [os.path.join(os.getcwd(), path) for path in feats.values()]
    return {
        "names": encode(feats),
        "where": encode(where),
        # The archives are kept apart, so that no table of a million lines is parsed for them.
        "archives": encode(map(str, list_archives(where))),
        # A length of -1 marks an utterance that has features and no labels.
        "lengths": np.array([listing.lengths.get(utt, -1) for utt in feats], np.int64),
        "total": np.array(listing.total),
        "without_features": encode(listing.without_features),
    }


def _unpack(arrays: Arrays, data: DataDir) -> Listing:
    """The listing of `_pack`, with its tables.

    Names are sorted bytes here, and a look-up is a binary search without a dictionary.
    """
    names, lengths = arrays["names"], arrays["lengths"]
    labelled = lengths >= 0
    return Listing(
        data,
        SortedTable(names[labelled], lengths[labelled]),
        int(arrays["total"]),
        decode(arrays["without_features"]),
        decode(names[~labelled]),
    )

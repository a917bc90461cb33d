"""With what a set was decoded, so that nothing tuned on one graph is used with another unawares."""

import json
from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import Any, Protocol

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import is_there, replacing
from bayes_asr.data.corpus.index import content_hash, sample_file
from bayes_asr.decode.search.graph_dir import graph_files
from bayes_asr.decode.search.options import DecodeOptions
from bayes_asr.kaldi_io.side_files import read_json

NAME = "decode.json"
DIGEST, LM = "graph_digest", "lm"
SEARCH = ("acoustic_scale", "beam", "lattice_beam", "max_active", "min_active")

Record = Mapping[str, Any]
"""The folder of the graph, a digest of its files, the language model that was given to it, if one
was, and the options of the search."""


class Options(Protocol):
    """The options of a search, as of DecodeOptions and of a configuration."""

    @property
    def acoustic_scale(self) -> float: ...
    @property
    def beam(self) -> float: ...
    @property
    def lattice_beam(self) -> float: ...
    @property
    def max_active(self) -> int: ...
    @property
    def min_active(self) -> int: ...


def describe_search(graph: Path, options: Options, lm: Path | None = None) -> dict[str, Any]:
    """What the best LM weight and insertion penalty depend on, beside the log-likelihoods.

    lm: what a graph is composed with in place of its G.fst (`graph_files`).
    """
    digest = content_hash(chain.from_iterable(map(sample_file, graph_files(graph, lm))))
    found = {"graph": str(graph.absolute()), DIGEST: digest}
    if lm:
        found[LM] = str(lm.absolute())
    return found | {name: getattr(options, name) for name in SEARCH}


def write_record(record: Record, folder: Path) -> None:
    """Write a record beside the words of a set of a run."""
    with replacing(folder / NAME) as temporary:
        temporary.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def read_record(folder: Path) -> dict[str, Any] | None:
    """Read the record of a decoded set; None where there is none, as of version 0.1."""
    path = folder / NAME
    if not is_there(path):
        return None
    try:
        record = dict(read_json(path))
    except (InputError, ValueError, TypeError):
        raise InputError(f"{path}: not a record of a decoding; decode the set again") from None
    return record


def read_search(folder: Path) -> tuple[Path, DecodeOptions]:
    """Read with which graph and options a folder was decoded, to decode likewise.

    InputError where that is not noted, or the graph is gone or another one by now.
    """
    record = read_record(folder)
    if record is None:
        raise InputError(
            f"{folder / NAME}: missing, so nothing says how these lattices were made; make them by"
            " bayes-asr denlats"
        )
    try:
        graph = Path(record["graph"])
        options = DecodeOptions(**{name: record[name] for name in SEARCH})
    except (LookupError, TypeError, ValueError):
        raise InputError(
            f"{folder / NAME}: does not say how lattices were made; make them by bayes-asr denlats"
        ) from None
    files = graph_files(graph)
    for file in files:
        if not is_there(file):
            raise InputError(
                f"{file}: gone, but the lattices of {folder} were made with it; put it back, or"
                " make them anew by bayes-asr denlats"
            )
    if not has_same_graph(record, describe_search(graph, options)):
        raise InputError(
            f"{' or '.join(map(str, files))}: has changed since the lattices of {folder} were made;"
            " make them anew by bayes-asr denlats"
        )
    return graph, options


def has_same_graph(one: Record, other: Record) -> bool:
    """Whether two records are of graphs with the same content, wherever these lie."""
    return one.get(DIGEST) == other.get(DIGEST)


def describe_differences(one: Record, other: Record) -> str:
    """In what two records differ: "graph A and B, beam 13 and 10"; empty: in nothing."""
    keys = [key for key in SEARCH if one.get(key) != other.get(key)]
    if not has_same_graph(one, other):
        keys = ["graph", *([LM] if LM in {*one, *other} else []), *keys]
    return ", ".join(f"{key} {one.get(key)} and {other.get(key)}" for key in keys)

"""Records of searches, so that nothing tuned on one graph is used with another unawares."""

import json
from collections.abc import Mapping
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import is_there, replacing
from bayes_asr.config.decoding_keys import SEARCH_KEYS, SearchOptions
from bayes_asr.config.schema import Config
from bayes_asr.data.corpus.index import content_hash, sample_file
from bayes_asr.data.directories import locate
from bayes_asr.decode.search.inputs import graph_files
from bayes_asr.kaldi_io.side_files import read_json

RECORD = "decode.json"
DIGEST, LM = "graph_digest", "lm"
HOTWORDS, HOTWORDS_DIGEST = "hotwords", "hotwords_digest"
NETWORK, COUNTS = "network", "pdf_counts"
MBR = "mbr"

Record = Mapping[str, Any]
"""The folder of the graph, a digest of its files, the language model that was given to it, if one
was, a file of hotwords likewise, the options of the search, whether words are of least expected
error and, of a run, digests of the network and of pdf counts in place of those of its training
(`decode.forward.network_record`)."""


def describe_search(
    graph: Path,
    options: SearchOptions,
    lm: Path | None = None,
    hotwords: Path | None = None,
    *,
    mbr: bool = False,
) -> dict[str, Any]:
    """The record of a search: the best LM weight and insertion penalty depend on it.

    lm: what a graph is composed with in place of its G.fst (`graph_files`); mbr: `DecodeJob.mbr`.
    """
    # Large files are sampled: a digest must not cost as much as the search.
    digest = content_hash(chain.from_iterable(map(sample_file, graph_files(graph, lm))))
    record = {"graph": str(graph.absolute()), DIGEST: digest}
    if lm:
        record[LM] = str(lm.absolute())
    if hotwords:
        record[HOTWORDS] = str(hotwords.absolute())
        record[HOTWORDS_DIGEST] = content_hash(sample_file(hotwords))
    return record | {name: getattr(options, name) for name in SEARCH_KEYS} | {MBR: mbr}


def write_record(record: Record, decode_dir: Path) -> None:
    """Write a record beside the words of a set of a run."""
    with replacing(decode_dir / RECORD) as temporary:
        temporary.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def read_record(decode_dir: Path) -> dict[str, Any] | None:
    """Read the record of a decoded set; None where there is none, as of version 0.1."""
    path = decode_dir / RECORD
    if not is_there(path):
        return None
    try:
        record = dict(read_json(path))
        json.dumps(record, ensure_ascii=False).encode()  # it is written again, beside scores
    except (InputError, ValueError, TypeError):
        raise InputError(f"{path}: not a record of a decoding; decode the set again") from None
    return record


def read_search(decode_dir: Path) -> tuple[Path, SearchOptions]:
    """Read the graph and the options of the search that a folder was decoded with.

    InputError where that is not noted, or the graph is gone or another one by now.
    """
    path, record = decode_dir / RECORD, read_record(decode_dir)
    if record is None:
        raise InputError(
            f"{path}: missing, so nothing says how these lattices were made; make them by bayes-asr"
            " denlats"
        )
    try:
        graph = Path(record["graph"])
        options = SearchOptions(**{name: record[name] for name in SEARCH_KEYS})
    except (LookupError, TypeError, ValueError):
        raise InputError(
            f"{path}: does not say how lattices were made; make them by bayes-asr denlats"
        ) from None
    files = graph_files(graph)
    for file in files:
        if not is_there(file):
            raise InputError(
                f"{file}: gone, but the lattices of {decode_dir} were made with it; put it back, or"
                " make them anew by bayes-asr denlats"
            )
    if not has_same_graph(record, describe_search(graph, options)):
        raise InputError(
            f"{' or '.join(map(str, files))}: has changed since the lattices of {decode_dir} were"
            " made; make them anew by bayes-asr denlats"
        )
    return graph, options


def find_graph_of(decode_dir: Path, config: Config) -> Path:
    """The graph that a set of a run was decoded with: that which its record names, or where that
    has moved the run's own; InputError where neither is that graph.
    """
    configured = locate(config.data.graph, config.data, "decoding graph")
    record = read_record(decode_dir)
    if record is None or DIGEST not in record:  # what a decoder wrote has no graph
        return configured
    recorded = Path(record.get("graph", configured))
    options = SearchOptions.from_config(config.decode)
    lm = Path(record[LM]) if LM in record else None
    for graph in (recorded, configured):
        with suppress(InputError, OSError):
            if has_same_graph(record, describe_search(graph, options, lm)):
                return graph
    changed = lm if lm and not is_there(lm) else recorded
    raise InputError(
        f"{changed}: gone or changed, but the lattices of {decode_dir} were made with it; decode"
        " the set again"
    )


def has_same_graph(a: Record, b: Record) -> bool:
    """Whether two records are of graphs with the same content, wherever these lie."""
    return a.get(DIGEST) == b.get(DIGEST)


def has_other_network(a: Record, b: Record) -> bool:
    """Whether two records are of different networks, as far as both say of which."""
    of_a, of_b = a.get(NETWORK), b.get(NETWORK)
    return None not in (of_a, of_b) and of_a != of_b


def describe_differences(a: Record, b: Record) -> str:
    """The differences of two records: "graph A and B, beam 13 and 10"; empty where none is."""
    a, b = {MBR: False, **a}, {MBR: False, **b}  # records of version 0.2 and before lack it
    keys = [key for key in (*SEARCH_KEYS, MBR, COUNTS) if a.get(key) != b.get(key)]
    if a.get(HOTWORDS_DIGEST) != b.get(HOTWORDS_DIGEST):
        keys.append(HOTWORDS)
    if has_other_network(a, b):
        keys.append(NETWORK)
    if not has_same_graph(a, b):
        moved = [key for key in ("graph", LM) if a.get(key) != b.get(key)]
        keys = [*(moved or ["graph"]), *keys]
    return ", ".join(_describe_difference(key, a.get(key), b.get(key)) for key in keys)


def _describe_difference(key: str, a: Any, b: Any) -> str:
    """The values of a key; of a file that has changed in its place, that it has."""
    return f"{key} {a} as it was and as it is" if a == b else f"{key} {a} and {b}"

"""Denominator lattices of utterances, for criteria on lattices.

Kaldi: steps/nnet/make_denlats.sh, whose search options these are.
"""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bayes_asr.base.errors import InputError
from bayes_asr.base.kept_results import KeptResults
from bayes_asr.base.log import LOGGER
from bayes_asr.base.processes import group
from bayes_asr.config.decoding_keys import SearchOptions
from bayes_asr.config.schema import Config
from bayes_asr.data.corpus.directories import data_dir
from bayes_asr.decode.forward.directory import StreamSource, find_streams, log_likelihoods
from bayes_asr.decode.forward.log_likelihoods import LogLikelihoods, load, take_output
from bayes_asr.decode.graph.build import build_lang_graph, write_lang_graph
from bayes_asr.decode.graph.ngram import estimate_witten_bell, refuse_mute
from bayes_asr.decode.graph.transducers import RESERVED
from bayes_asr.decode.search.archive import write_decoding
from bayes_asr.decode.search.embedded_decoder import EmbeddedDecoder, decode_all, lasts
from bayes_asr.decode.search.graph_dir import load_decoding_graph
from bayes_asr.decode.search.job import DecodeJob, DecodeSummary
from bayes_asr.decode.search.search_record import Record, read_search
from bayes_asr.kaldi_io.byte_reader import OpenPipe
from bayes_asr.kaldi_io.mdl import read_transition_model
from bayes_asr.kaldi_io.symbols import check_same_phones, read_symbols
from bayes_asr.kaldi_io.tree import read_tree
from bayes_asr.tasks.task import task_of
from bayes_asr.train.runs.configuration import read_configuration
from bayes_asr.train.runs.run_model import locate_model
from bayes_asr.train.runs.trained_network import TrainedNetwork

SEARCH = {"beam": 13.0, "lattice_beam": 7.0, "max_active": 5000}
ORDER = 1  # of the language model: a weak one lets more words compete


def write_weak_graph(run: Path, lang: Path, out: Path, order: int = ORDER) -> None:
    """Write the decoding graph of an n-gram model of a run's training text to a folder.

    lang: the folder of the words and their pronunciations. InputError where there is no text.
    """
    config = read_configuration(run)
    data, model = data_dir(config, "train"), locate_model(run, config)
    check_same_phones(lang, model.parent)
    if data.text is None:
        raise InputError(
            f"{data.path / 'text'}: there are no transcripts to estimate a language model from;"
            " give the --graph of another one"
        )
    # All words of the lexicon get a probability, also those that the text lacks.
    words = {*read_symbols(lang / "words.txt")} - {*RESERVED}
    spoken = {word for sentence in data.text.values() for word in sentence}
    refuse_mute(data.path / "text", spoken, spoken, sorted(words))
    weak = estimate_witten_bell(data.text.values(), order, sorted(words))
    tree = read_tree(model.parent / "tree")
    graph = build_lang_graph(lang, weak, read_transition_model(model), tree)
    write_lang_graph(graph, lang, out)
    LOGGER.info("%s: %d states, %d arcs", out, graph.hclg.num_states, graph.hclg.num_arcs)


def write_denlats(
    run: Path,
    set_name: str,
    graph: Path,
    out: Path,
    *,
    nj: int = 1,
    open_pipe: OpenPipe | None = None,
    kept: KeptResults | None = None,
    **search: Any,
) -> DecodeSummary:
    """Decode a set of a run by its network, and write lattices as lat.1.gz.

    kept: the results of an ended call; search: options that are not those of `SEARCH`, and not the
    run's acoustic scale. An utterance of which no path reaches an end has no lattice, and is named.
    InputError, once all others are written, for those that cannot be decoded, and at once for a run
    whose outputs are of fewer frames than its alignments.
    """
    config = read_configuration(run)
    if (stride := task_of(config).output_stride) > 1:
        raise InputError(
            f"{run}: has outputs of one of {stride} frames, from which no criterion on lattices"
            " goes on; take a run of cross entropy"
        )
    options: dict[str, Any] = {"acoustic_scale": config.decode.acoustic_scale, **SEARCH, **search}
    source, model = f"{run}, {set_name}", locate_model(run, config)
    job = DecodeJob(source, graph, model, SearchOptions(**options), nj=nj)
    loglikes = _compute_loglikes(run, config, load(run), set_name, open_pipe)
    return _decode(job, loglikes, out, {}, kept)


def write_denlats_of_epoch(
    run: Path,
    network: TrainedNetwork,
    template: Path,
    out: Path,
    entries: Record,
    before_each: Callable[[], object],
    open_pipe: OpenPipe | None = None,
) -> DecodeSummary:
    """Decode the training set of a run by a network, with the search of the folder `template`.

    entries: further ones of the record of `out`; before_each: called before each utterance. What
    stands in `out` stays until all is written. As many processes decode as the training has
    threads, which is the same to the last bit.
    """
    graph, options = read_search(template)
    config = read_configuration(run)
    nj = torch.get_num_threads() * group.size()
    job = DecodeJob(f"{run}, train", graph, locate_model(run, config), options, nj=nj)
    network_outputs = LogLikelihoods(take_output(network))

    def iter_loglikes() -> Iterator[tuple[str, np.ndarray]]:
        # A training that is asked to end must not wait for the whole set.
        for item in _compute_loglikes(run, config, network_outputs, "train", open_pipe):
            before_each()
            yield item

    return _decode(job, iter_loglikes(), out, entries)


def _compute_loglikes(
    run: Path, config: Config, network: LogLikelihoods, set_name: str, open_pipe: OpenPipe | None
) -> Iterator[tuple[str, np.ndarray]]:
    """The log-likelihoods [T, P] of the utterances of a set of a run."""
    source = StreamSource(on=set_name, open_pipe=open_pipe)
    directories = find_streams(run, [network], source)
    return log_likelihoods(
        run, network, directories, config.data.max_skipped, open_pipe, "data.max_skipped"
    )


def _decode(
    job: DecodeJob,
    loglikes: Iterator[tuple[str, np.ndarray]],
    out: Path,
    entries: Record,
    kept: KeptResults | None = None,
) -> DecodeSummary:
    """Write the lattices of utterances, and the record of how they were made."""
    decode = partial(decode_all, load_decoding_graph(job.graph, job.model), job)
    results = kept.go_on(decode, loglikes, lasts) if kept else decode(loglikes)
    return write_decoding(job, EmbeddedDecoder(results), out, entries)

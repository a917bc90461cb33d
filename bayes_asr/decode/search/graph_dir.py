"""The decoding graph of a folder: its files, read and checked for the search."""

from pathlib import Path

import numpy as np

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import is_there, read_text
from bayes_asr.decode.graph.ngram import build_grammar_fst, read_arpa
from bayes_asr.decode.graph.transducers import BACKOFF, check_words
from bayes_asr.decode.search.hotwords import attach_hotwords, read_hotwords
from bayes_asr.decode.search.inputs import build_decoding_graph, graph_files
from bayes_asr.decode.search.job import DecodeJob
from bayes_asr.decode.search.on_the_fly import attach_grammar, check_grammar, warn_left_out
from bayes_asr.decode.search.search_graph import DecodingGraph
from bayes_asr.kaldi_io.fst import read_fst
from bayes_asr.kaldi_io.mdl import read_transition_model
from bayes_asr.kaldi_io.openfst import Fst
from bayes_asr.kaldi_io.symbols import check_same_phones, read_symbols
from bayes_asr.kaldi_io.transition_model import TransitionModel

TOGETHER = "take graph and alignments of one model"


def load_decoding_graph(
    graph_dir: Path, model: Path, lm: Path | None = None, hotwords: Path | None = None
) -> DecodingGraph:
    """Read the files of a graph (`graph_files`), the transition model of `model` and hotwords.

    InputError, among others, where the graph was made with another model.
    """
    # Cheap checks first: a graph may have gigabytes.
    path, *grammar = graph_files(graph_dir, lm)
    model = Path(model)
    transitions = read_transition_model(model)
    _check_pdfs(Path(graph_dir) / "num_pdfs", transitions.num_pdfs, model)
    check_same_phones(Path(graph_dir), model.parent, TOGETHER)
    fst = read_fst(path)
    if not fst.olabel.any():
        raise InputError(
            f"{path}: no word can be said in this graph; make it of a language model and a lexicon"
            " that spell alike"
        )
    symbols = Path(graph_dir) / "words.txt"
    is_named = is_there(symbols)
    words = read_words(symbols) if grammar else read_symbols(symbols) if is_named else {}
    if is_named:
        check_words(fst, words.values(), path)
    if fst.ilabel.max() <= transitions.num_transition_ids:  # else the next line says so
        _check_paths(fst, transitions, path, model)
    graph = build_decoding_graph(fst, transitions, str(path))
    if grammar:
        graph = attach_grammar(graph, read_grammar(grammar[0], words), words, str(grammar[0]))
    if hotwords:
        graph = attach_hotwords(graph, read_hotwords(hotwords), words, str(hotwords))
    return graph


def load_graph(job: DecodeJob) -> DecodingGraph:
    """Read the graph of a job."""
    return load_decoding_graph(job.graph, job.model, job.lm, job.hotwords)


def _check_pdfs(path: Path, pdfs: int, model: Path) -> None:
    """InputError where the graph's num_pdfs is not that of the model."""
    count = read_text(path).strip() if is_there(path) else str(pdfs)
    if count != str(pdfs):
        raise InputError(
            f"{path}: the graph was made with a model of {count} pdfs, but {model} has {pdfs};"
            f" {TOGETHER}"
        )


def _check_paths(fst: Fst, transitions: TransitionModel, path: Path, model: Path) -> None:
    """InputError where an arc of the graph cannot follow one that leads to its state.

    Another model, of as many pdfs, gives the transition-ids other states of other phones.
    """
    emitting = np.flatnonzero(fst.ilabel > 0)
    source = np.repeat(np.arange(len(fst.final)), np.diff(fst.offsets))[emitting]
    passed = fst.ilabel[emitting]
    # Any arc into a state will do: all of them can be followed by all that leave it.
    before = np.zeros(len(fst.final), passed.dtype)
    before[fst.nextstate[emitting]] = passed
    previous = before[source]
    wrong = np.flatnonzero((previous > 0) & ~transitions.may_follow(previous, passed))
    if len(wrong):
        raise InputError(
            f"{path}: transition-id {passed[wrong[0]]} follows {previous[wrong[0]]}, which"
            f" cannot be in {model}: the graph was made with another model; {TOGETHER}"
        )


def read_words(path: Path) -> dict[str, int]:
    """Read words.txt; InputError where it has no #0, without which G could not back off."""
    words = read_symbols(path)
    if BACKOFF not in words:
        raise InputError(
            f"{path}: lacks {BACKOFF}, by which a grammar backs off; take the words.txt of the"
            " graph"
        )
    return words


def read_grammar(path: Path, words: dict[str, int]) -> Fst:
    """Read G: an FST where the name ends in .fst, else an ARPA file; InputError if none is G."""
    if path.suffix == ".fst":
        grammar = read_fst(path)
    else:
        grammar, foreign = build_grammar_fst(read_arpa(path), words, words[BACKOFF])
        warn_left_out(str(path), "words.txt of the graph", foreign)
    check_grammar(grammar, words, str(path))
    return grammar

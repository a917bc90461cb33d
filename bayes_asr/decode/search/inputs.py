"""Inputs of the search: a graph and log-likelihoods, checked against the transition model."""

from pathlib import Path

import numpy as np

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import is_there
from bayes_asr.decode.search.search_graph import DecodingGraph, has_cycle, select_arcs
from bayes_asr.kaldi_io.openfst import LARGEST, Fst
from bayes_asr.kaldi_io.transition_model import TransitionModel

WORDS = 1 << 30  # the determinization numbers phones behind the words, in int32


def graph_files(graph_dir: Path, lm: Path | None = None) -> list[Path]:
    """The files of a graph: HCLG.fst, or HCL.fst and what it is composed with during the search.

    lm: an ARPA file or an FST in place of the G.fst in the folder. InputError where it is given to
    a graph that is composed already.
    """
    composed, uncomposed = (Path(graph_dir) / name for name in ("HCLG.fst", "HCL.fst"))
    if is_there(uncomposed) and (lm or not is_there(composed)):
        return [uncomposed, lm or Path(graph_dir) / "G.fst"]
    if lm:
        raise InputError(
            f"{graph_dir}: has no HCL.fst to compose with {lm}; bayes-asr graph --apart writes it"
        )
    return [composed]


def build_decoding_graph(fst: Fst, model: TransitionModel, name: str = "graph") -> DecodingGraph:
    """Check a graph against the transition model and prepare it for the search.

    Raises InputError naming `name` for an empty graph, an ilabel past the model's transition-ids
    (graph and model of different trees), an olabel past WORDS and a cycle of epsilon arcs (the
    search would not end).
    """
    if fst.start < 0 or not len(fst.final):
        raise InputError(f"{name}: the graph has no start state")
    highest, num_tids = int(fst.ilabel.max(initial=0)), len(model.pdf) - 1
    if highest > num_tids:
        raise InputError(
            f"{name}: ilabel {highest} is past the {num_tids} transition-ids of the model; "
            "take the final.mdl that this graph was made with"
        )
    largest_word = int(fst.olabel.max(initial=0))
    if largest_word >= WORDS:
        raise InputError(f"{name}: olabel {largest_word} is past {WORDS}; number words from 1")
    source = np.repeat(np.arange(len(fst.final)), np.diff(fst.offsets))
    emits = fst.ilabel > 0
    # A phone begins with a transition out of its first state that is no self-loop.
    begins_phone = (model.hmm_state == 0) & ~model.self_loop & (np.arange(num_tids + 1) > 0)
    graph = DecodingGraph(
        start=int(fst.start),
        final=np.ascontiguousarray(fst.final, np.float32),
        emitting=select_arcs(fst, source, emits),
        epsilon=select_arcs(fst, source, ~emits),
        column=np.ascontiguousarray(model.pdf[fst.ilabel[emits]], np.int32),
        phone_start=np.where(begins_phone, model.phone, 0).astype(np.int32),
        num_pdfs=int(model.num_pdfs),
        name=name,
    )
    if has_cycle(graph.epsilon):
        raise InputError(f"{name}: epsilon arcs form a cycle; a decoding graph must have none")
    return graph


def check_loglikes(
    graph: DecodingGraph, name: str, loglikes: np.ndarray | InputError
) -> np.ndarray:
    """Return `loglikes` as float32 [T, num_pdfs], or refuse a wrong width, emptiness, NaN, +inf.

    Finite ones beyond LARGEST are refused too: their sums would leave float32.

    Messages begin with `name`; an error that reading them gave is raised.
    """
    if isinstance(loglikes, InputError):
        raise loglikes
    if loglikes.ndim != 2 or loglikes.shape[1] != graph.num_pdfs:
        raise InputError(
            f"{name}: log-likelihoods of shape {list(loglikes.shape)}, "
            f"but the model has {graph.num_pdfs} pdfs; compute them by the network of this model"
        )
    if _are_posteriors(loglikes):
        raise InputError(
            f"{name}: posteriors, which add up to 1 in each frame, and no log-likelihoods; compute"
            " those by bayes-asr forward without --kind"
        )
    if not len(loglikes):
        raise InputError(f"{name}: log-likelihoods without frames; compute them anew")
    # -inf is a pdf that cannot be; NaN compares false, so that it is bad.
    bad = ~((np.abs(loglikes) <= LARGEST) | (loglikes == -np.inf))
    if bad.any():
        frame, pdf = np.argwhere(bad)[0]
        raise InputError(
            f"{name}: log-likelihood {loglikes[frame, pdf]} at frame {frame}, pdf {pdf}; compute"
            " them anew"
        )
    return np.ascontiguousarray(loglikes, np.float32)


def _are_posteriors(matrix: np.ndarray) -> bool:
    """Whether a matrix [T, P] has probabilities of several pdfs in each frame."""
    if not len(matrix) or matrix.shape[1] < 2 or not (matrix >= 0).all():
        return False
    # Posteriors of 8 bits add up to 1 within a few per cent.
    return bool((np.abs(matrix.sum(1, dtype=np.float64) - 1) < 0.05).all())

"""One utterance in the embedded decoder: log-likelihoods to words, costs and word lattice."""

import logging
import os
from dataclasses import dataclass

import numpy as np

from bayes_asr.base.errors import InputError
from bayes_asr.config.decoding_keys import SearchOptions
from bayes_asr.decode.search import compiled
from bayes_asr.decode.search.determinize import determinize
from bayes_asr.decode.search.engine import Engine
from bayes_asr.decode.search.search import ReferenceSession, best_arcs
from bayes_asr.decode.search.search_graph import DecodingGraph
from bayes_asr.kaldi_io.lattice import CompactLattice, Lattice, scale_acoustic

LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class DecodeResult:
    """The best path of one utterance and, when something survived, its word lattice.

    Acoustic costs are unscaled; `tids` int32 [frames] is the alignment; without words the costs
    are infinite.
    """

    utt: str
    words: list[int]
    tids: np.ndarray
    graph_cost: float
    acoustic_cost: float
    reached_final: bool
    lattice: CompactLattice | None


ENGINES = {
    "numpy": Engine("numpy", ReferenceSession, best_arcs, determinize),
    "native": Engine("native", compiled.CompiledSession, compiled.best_arcs, compiled.determinize),
}
VARIABLE = "BAYES_ASR_DECODER"


def choose_engine() -> Engine:
    """Return the engine that BAYES_ASR_DECODER names, otherwise the C++ one if it was built."""
    name = os.environ.get(VARIABLE, "")
    if name not in ("", *ENGINES):
        raise InputError(f"{VARIABLE}={name}: known engines are {', '.join(ENGINES)}")
    if name not in ("", "native"):
        return ENGINES[name]
    if compiled.LIBRARY.usable:
        return ENGINES["native"]
    if name:
        raise InputError(f"{VARIABLE}={name}: {compiled.LIBRARY.fault}; reinstall with a compiler")
    LOG.warning("%s: decoding in NumPy, about 15 times slower", compiled.LIBRARY.fault)
    return ENGINES["numpy"]


def decode_utterance(
    graph: DecodingGraph,
    utt: str,
    loglikes: np.ndarray,
    options: SearchOptions,
    engine: Engine,
) -> DecodeResult:
    """Decode unscaled log-likelihoods [T, num_pdfs], which `check_loglikes` has passed.

    Without a path to a final state there are no words, or with allow_partial those of the best
    path that goes as far as any.
    """
    lattice, reached = search_lattice(graph, loglikes, options, engine)
    return read_lattice(graph, utt, lattice, reached, options, engine)


def search_lattice(
    graph: DecodingGraph, loglikes: np.ndarray, options: SearchOptions, engine: Engine
) -> tuple[Lattice | None, bool]:
    """Search for a state-level lattice; None without the words that `decode_utterance` gives.

    Its acoustic costs are scaled.  Also returns whether its paths end in final states.
    """
    scaled = np.float32(options.acoustic_scale) * loglikes
    lattice, reached = engine.search(graph, scaled, options)
    return (lattice if reached or options.allow_partial else None), reached


def read_lattice(
    graph: DecodingGraph,
    utt: str,
    lattice: Lattice | None,
    reached: bool,
    options: SearchOptions,
    engine: Engine,
) -> DecodeResult:
    """Return the best path and the word lattice of a state-level lattice with scaled costs."""
    if lattice is None:
        return DecodeResult(utt, [], np.empty(0, np.int32), np.inf, np.inf, False, None)
    # The best path is read before determinization, whose order of additions moves its costs.
    scale = float(np.float32(options.acoustic_scale))
    arcs, last = engine.best_arcs(lattice)
    words, tids = lattice.olabel[arcs], lattice.ilabel[arcs]
    graph_cost = lattice.graph[arcs].sum(dtype=np.float64) + lattice.final_graph[last]
    acoustic_cost = lattice.acoustic[arcs].sum(dtype=np.float64) / scale
    check_precision(lattice, arcs, options.lattice_beam, f"{graph.name}: {utt}")
    compact = engine.determinize(lattice, graph.phone_start, options.lattice_beam)
    return DecodeResult(
        utt,
        words[words > 0].tolist(),
        tids[tids > 0],
        float(graph_cost),
        float(acoustic_cost),
        reached,
        scale_acoustic(compact, 1.0 / scale),
    )


def check_precision(lattice: Lattice, best: np.ndarray, beam: float, name: str) -> None:
    """Refuse costs whose differences within the beam are lost in float32; `best`: a path's arcs."""
    size = np.abs(lattice.graph.astype(np.float64)) + np.abs(lattice.acoustic)
    check_largest(max(size.max(initial=0.0), size[best].sum()), beam, name)


def check_largest(largest: float, beam: float, name: str) -> None:
    """Refuse a cost next to which differences within the beam are lost in float32.

    Determinization might then lose the best path.
    """
    # The spacing of float32 at the largest cost must not exceed what is compared with the beam.
    if np.spacing(np.float32(largest)) > max(beam, 1.0):
        raise InputError(
            f"{name}: costs of {largest:.3g} are too large to be compared; look at the weights of"
            " the graph, the log-likelihoods and the acoustic scale"
        )

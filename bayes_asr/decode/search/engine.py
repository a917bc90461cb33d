"""The steps of decoding an utterance, which Python and C++ both implement."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bayes_asr.decode.search.options import SearchOptions
from bayes_asr.decode.search.search_graph import DecodingGraph
from bayes_asr.kaldi_io.lattice import CompactLattice, Lattice


@dataclass(frozen=True)
class Engine:
    """One implementation of the three steps; all implementations give the same results."""

    name: str
    search: Callable[[DecodingGraph, np.ndarray, SearchOptions], tuple[Lattice | None, bool]]
    best_arcs: Callable[[Lattice], tuple[np.ndarray, int]]
    determinize: Callable[[Lattice, np.ndarray, float], CompactLattice]

"""The steps of decoding an utterance, which Python and C++ both implement."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from bayes_asr.config.decoding_keys import SearchOptions
from bayes_asr.decode.search.search_graph import BestPath, DecodingGraph, LatticeChunk
from bayes_asr.kaldi_io.lattice import CompactLattice, Lattice


class SearchSession(Protocol):
    """The search of one utterance whose log-likelihoods arrive in pieces."""

    def advance(self, loglikes: np.ndarray) -> None:
        """Search further scaled log-likelihoods [T, num_pdfs], float32."""

    def trace(self) -> BestPath:
        """The best path through what has been searched."""

    def take(self) -> LatticeChunk | None:
        """The next piece of the lattice that is over, of a session that was opened for pieces."""

    def finish_piece(self) -> tuple[LatticeChunk | None, bool]:
        """End the utterance as `finish`: the last piece of its lattice."""

    def finish(self) -> tuple[Lattice | None, bool]:
        """End the utterance: its lattice, and was a final state reached?

        Where no token survives a frame, the lattice ends before it with allow_partial, else is
        None.
        """


@dataclass(frozen=True)
class Engine:
    """One implementation of the three steps; all implementations give the same results.

    open: begins an utterance, with True as a third argument one whose lattice comes in pieces.
    """

    name: str
    open: Callable[..., SearchSession]
    best_arcs: Callable[[Lattice], tuple[np.ndarray, int]]
    determinize: Callable[[Lattice, np.ndarray, float], CompactLattice]

    def search(
        self, graph: DecodingGraph, loglikes: np.ndarray, options: SearchOptions
    ) -> tuple[Lattice | None, bool]:
        """Search scaled log-likelihoods [T, num_pdfs] of a whole utterance."""
        session = self.open(graph, options)
        session.advance(loglikes)
        return session.finish()

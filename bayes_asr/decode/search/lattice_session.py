"""Decoding of an utterance that arrives in pieces, with a word lattice that grows meanwhile."""

import numpy as np

from bayes_asr.config.decoding_keys import SearchOptions
from bayes_asr.decode.search.engine import Engine
from bayes_asr.decode.search.pieces import IncrementalDeterminizer
from bayes_asr.decode.search.search_graph import BestPath, DecodingGraph, LatticeChunk
from bayes_asr.decode.search.utterance import check_largest
from bayes_asr.kaldi_io.lattice import CompactLattice, scale_acoustic

MOST_FRAMES = 100  # that are searched before pieces are looked for


class LatticeSession:
    """The decoding of one utterance whose log-likelihoods arrive in pieces, and its word lattice.

    The state-level lattice is kept of the newest frames alone.
    """

    def __init__(
        self, graph: DecodingGraph, name: str, options: SearchOptions, engine: Engine
    ) -> None:
        """Begin the utterance."""
        self._name, self._options = f"{graph.name}: {name}", options
        self._session = engine.open(graph, options, True)
        self._words = IncrementalDeterminizer(engine, graph.phone_start, options.lattice_beam)

    def advance(self, loglikes: np.ndarray) -> bool:
        """Search further unscaled log-likelihoods [T, P]; tell whether the lattice has grown."""
        before = self._words.size
        for begin in range(0, len(loglikes), MOST_FRAMES):
            part = loglikes[begin : begin + MOST_FRAMES]
            self._session.advance(np.float32(self._options.acoustic_scale) * part)
            while (piece := self._session.take()) is not None:
                self._check(piece)
                self._words.add(piece)
        return self._words.size > before

    def read_pieces(self) -> CompactLattice:
        """The word lattice up to the end of the newest piece, with an end for each of its exits."""
        return self._unscale(self._words.read())

    def trace(self) -> BestPath:
        """The best path through what has been searched."""
        return self._session.trace()

    def finish(self) -> tuple[CompactLattice | None, bool]:
        """End the utterance: its lattice, acoustic costs without the scale; does a path of it end
        in a final state?

        Without such a path there is none, or with allow_partial one of paths as long as any.
        """
        piece, reached = self._session.finish_piece()
        if piece is None or not (reached or self._options.allow_partial):
            return None, False
        self._check(piece)
        return self._unscale(self._words.finish(piece)), reached

    def _unscale(self, lattice: CompactLattice) -> CompactLattice:
        return scale_acoustic(lattice, 1 / float(np.float32(self._options.acoustic_scale)))

    def _check(self, piece: LatticeChunk) -> None:
        """Refuse costs that are too large to be compared, of arcs and of the path through all."""
        costs = np.abs(piece.lattice.graph.astype(np.float64)) + np.abs(piece.lattice.acoustic)
        path = max(map(abs, piece.ahead + self._words.cost), default=0.0)
        check_largest(max(costs.max(initial=0.0), path), self._options.lattice_beam, self._name)

"""Lattices as arrays, and Kaldi's binary lattice archives.

A lattice is an acyclic graph whose states are topologically sorted, state 0 first; its arcs are in
compressed rows (those of state s are offsets[s]:offsets[s + 1]).  Costs are pairs, graph and
acoustic, as in Kaldi's LatticeWeight.
"""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Lattice:
    """State-level lattice: one transition-id (ilabel) and word (olabel) an arc, 0 for none.

    `final_graph` and `final_acoustic` [S] hold the final costs, infinite where no path ends.
    """

    offsets: np.ndarray
    ilabel: np.ndarray
    olabel: np.ndarray
    graph: np.ndarray
    acoustic: np.ndarray
    nextstate: np.ndarray
    final_graph: np.ndarray
    final_acoustic: np.ndarray

    @property
    def num_states(self) -> int:
        """Number of states."""
        return len(self.final_graph)


@dataclass(frozen=True)
class CompactLattice:
    """Word-level lattice: each arc bears a word and the transition-ids of its frames.

    Those of arc a are tids[tid_offsets[a]:tid_offsets[a + 1]]; those of the final weight of state
    s are final_tids[final_tid_offsets[s]:final_tid_offsets[s + 1]].
    """

    offsets: np.ndarray
    word: np.ndarray
    graph: np.ndarray
    acoustic: np.ndarray
    nextstate: np.ndarray
    tid_offsets: np.ndarray
    tids: np.ndarray
    final_graph: np.ndarray
    final_acoustic: np.ndarray
    final_tid_offsets: np.ndarray
    final_tids: np.ndarray

    @property
    def num_states(self) -> int:
        """Number of states."""
        return len(self.final_graph)

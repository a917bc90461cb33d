"""The decoding graph as the search walks it: emitting and epsilon arcs apart."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Arcs:
    """Arcs of one kind in compressed rows: those of state s are offsets[s]:offsets[s + 1]."""

    offsets: np.ndarray
    ilabel: np.ndarray
    olabel: np.ndarray
    weight: np.ndarray
    nextstate: np.ndarray

    def leaving(self, states: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return for all arcs of `states`, in order: index into `states`, index of the arc."""
        first, count = self.offsets[states], np.diff(self.offsets)[states]
        owner = np.repeat(np.arange(len(states)), count)
        skipped = np.cumsum(count) - count
        return owner, np.arange(len(owner)) + (first - skipped)[owner]


@dataclass(frozen=True)
class Network:
    """A checked HCLG: `column` holds the pdf of each emitting arc, the column of its likelihood.

    `phone_start` [transition-ids + 1] holds the phone that a transition-id begins, otherwise 0.
    """

    start: int
    final: np.ndarray
    emitting: Arcs
    epsilon: Arcs
    column: np.ndarray
    phone_start: np.ndarray
    num_pdfs: int
    name: str

    @property
    def num_states(self) -> int:
        """Number of graph states."""
        return len(self.final)

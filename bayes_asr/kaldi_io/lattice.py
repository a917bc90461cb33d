"""Lattices as arrays.

A lattice is an acyclic graph whose states are topologically sorted, state 0 first; its arcs are in
compressed rows (those of state s are offsets[s]:offsets[s + 1]).  Costs are pairs, graph and
acoustic, as in Kaldi's LatticeWeight.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np


@dataclass(frozen=True)
class Lattice:
    """State-level lattice: one transition-id (ilabel) and word (olabel) an arc, 0 for none.

    `offsets` int64 [S + 1]; `ilabel`, `olabel`, `nextstate` int32 [A]; `graph`, `acoustic`
    float32 [A]; `final_graph`, `final_acoustic` float32 [S], infinite where no path ends.
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
        """The number of states S."""
        return len(self.final_graph)


@dataclass(frozen=True)
class CompactLattice:
    """Word-level lattice: an arc bears a word (0 for none) and the transition-ids of its frames.

    Those of arc a are tids[tid_offsets[a]:tid_offsets[a + 1]]; those that end a path in state s
    are final_tids[final_tid_offsets[s]:final_tid_offsets[s + 1]].  Shapes as in Lattice.
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
        """The number of states S."""
        return len(self.final_graph)


AnyLattice = TypeVar("AnyLattice", Lattice, CompactLattice)


def scale_acoustic(lattice: AnyLattice, scale: float) -> AnyLattice:
    """Return the lattice with its acoustic costs multiplied by `scale`."""
    return replace(
        lattice,
        acoustic=(lattice.acoustic * np.float64(scale)).astype(np.float32),
        final_acoustic=(lattice.final_acoustic * np.float64(scale)).astype(np.float32),
    )


def row_offsets(counts: Sequence[int]) -> np.ndarray:
    """Return where each row begins when all are laid end to end, and where the last ends."""
    return np.cumsum([0, *counts], dtype=np.int64)


def is_finite(lattice: Lattice | CompactLattice) -> np.ndarray:
    """Whether a path may take each arc, bool [A]."""
    return np.isfinite(lattice.graph) & np.isfinite(lattice.acoustic)


def topological_order(offsets: np.ndarray, nextstate: np.ndarray, start: int) -> np.ndarray | None:
    """Return the states that `start` reaches so that all arcs lead forward; None for a cycle.

    Depth first, so that a path stays together; `offsets` [S + 1] are the rows of `nextstate` [A].
    """
    begins, targets = offsets.tolist(), nextstate.tolist()
    # An iterative search in depth: lattices are deeper than Python's stack. A state is finished
    # after all its successors, so that the reverse of that order is topological.
    position = begins[:]  # the next arc of each state to follow
    finished, stack = [], [start]
    status = bytearray(len(position))  # 1: on the current path, 2: finished
    status[start] = 1
    while stack:
        state = stack[-1]
        if position[state] == begins[state + 1]:
            status[state] = 2
            finished.append(stack.pop())
            continue
        target = targets[position[state]]
        position[state] += 1
        if status[target] == 0:
            status[target] = 1
            stack.append(target)
        elif status[target] == 1:  # an arc back to the current path
            return None
    return np.array(finished[::-1], np.int64)


def connect(lattice: AnyLattice) -> AnyLattice:
    """Return the part of the lattice that lies on paths from state 0 to an end, sorted."""
    order = topological_order(lattice.offsets, lattice.nextstate, 0)
    if order is None:
        raise ValueError("a lattice with a cycle")
    offsets = lattice.offsets.tolist()
    # Backwards, each state comes after all its successors.
    useful = np.isfinite(lattice.final_graph)
    for state in order[::-1].tolist():
        targets = lattice.nextstate[offsets[state] : offsets[state + 1]]
        useful[state] |= useful[targets].any()
    return select_states(lattice, order[useful[order]])


def select_states(lattice: AnyLattice, order: np.ndarray) -> AnyLattice:
    """Return the lattice with the states `order`, in that order, and the finite arcs between."""
    # The new number of each state, -1 for those that are left out with the arcs into them.
    number = np.full(lattice.num_states, -1)
    number[order] = np.arange(len(order))
    arcs, offsets = take_rows(lattice.offsets, order)
    inside = (number[lattice.nextstate[arcs]] >= 0) & is_finite(lattice)[arcs]
    owner = np.repeat(np.arange(len(order)), np.diff(offsets))[inside]
    arcs = arcs[inside]
    changed = {
        "offsets": row_offsets(np.bincount(owner, minlength=len(order)).tolist()),
        "nextstate": number[lattice.nextstate[arcs]].astype(np.int32),
        "graph": lattice.graph[arcs],
        "acoustic": lattice.acoustic[arcs],
        "final_graph": lattice.final_graph[order],
        "final_acoustic": lattice.final_acoustic[order],
    }
    if isinstance(lattice, Lattice):
        changed |= {"ilabel": lattice.ilabel[arcs], "olabel": lattice.olabel[arcs]}
    else:
        tids, tid_offsets = take_rows(lattice.tid_offsets, arcs)
        final_tids, final_tid_offsets = take_rows(lattice.final_tid_offsets, order)
        changed |= {
            "word": lattice.word[arcs],
            "tids": lattice.tids[tids],
            "tid_offsets": tid_offsets,
            "final_tids": lattice.final_tids[final_tids],
            "final_tid_offsets": final_tid_offsets,
        }
    return replace(lattice, **changed)


def take_rows(offsets: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the indices of the items of `rows` end to end, and where each row begins there."""
    counts = np.diff(offsets)[rows]
    begin = np.cumsum([0, *counts], dtype=np.int64)
    # Item i of the result, in row r, is item i - begin[r] + offsets[row] of the old arrays.
    shift = np.repeat(offsets[:-1][rows] - begin[:-1], counts)
    return np.arange(begin[-1]) + shift, begin

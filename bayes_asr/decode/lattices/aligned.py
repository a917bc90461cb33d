"""Lattices as steps through cells, each the transition-id of a path in a frame.

A cell is a pair of a frame and a transition-id. What is computed of the cells of a lattice, such as
scores by a network, is computed once, however many paths pass them.
"""

from dataclasses import dataclass

import numpy as np

from bayes_asr.base.errors import InputError
from bayes_asr.kaldi_io.lattice import CompactLattice, Lattice

PARTS = 5  # numbers at the head of what `pack` gives


@dataclass(frozen=True)
class AlignedLattice:
    """Steps [A] of paths from state 0 to the last one, those into a state before those out of it.

    `source`, `target` int32 [A]; `weight` float64 [A], log-weights; the cells of step a are
    cells[offsets[a]:offsets[a + 1]], int32; `frame`, `tid` int32 [C]: of each cell, sorted by
    frame, then transition-id.
    """

    num_states: int
    num_frames: int
    source: np.ndarray
    target: np.ndarray
    weight: np.ndarray
    offsets: np.ndarray
    cells: np.ndarray
    frame: np.ndarray
    tid: np.ndarray

    def __len__(self) -> int:
        return self.num_frames

    def pack(self) -> np.ndarray:
        """The lattice as one vector int32, its weights in single precision, for `unpack`."""
        counts = (len(self.source), len(self.cells), len(self.frame))
        return np.concatenate(
            [
                np.array([self.num_states, self.num_frames, *counts], np.int32),
                *(self.source, self.target),
                self.weight.astype("<f4").view("<i4"),
                *(self.offsets.astype(np.int32), self.cells, self.frame, self.tid),
            ]
        )

    @classmethod
    def unpack(cls, vector: np.ndarray) -> "AlignedLattice":
        """The lattice of a vector that `pack` returned."""
        states, frames, steps, passed, cells = vector[:PARTS].tolist()
        sizes = (PARTS, steps, steps, steps, steps + 1, passed, cells, cells)
        _, source, target, weight, offsets, *columns = np.split(vector, np.cumsum(sizes)[:-1])
        weights = np.ascontiguousarray(weight).view("<f4").astype(np.float64)
        return cls(states, frames, source, target, weights, offsets.astype(np.int64), *columns)


def count_frames(packed: np.ndarray) -> int:
    """The frames of a lattice that was packed."""
    return int(packed[1])


def align_lattice(
    lattice: Lattice | CompactLattice, acoustic_scale: float, lm_scale: float = 1.0
) -> AlignedLattice:
    """Return a lattice as steps, its costs scaled in single precision, as Kaldi does.

    InputError where it has no path, no transition-ids or such as there are none, or paths of
    different lengths.
    """
    if not lattice.num_states:
        raise InputError("the lattice has no path")
    source, target, weight, lengths, tids = _list_steps(lattice, acoustic_scale, lm_scale)
    if not len(tids):
        raise InputError(
            "the lattice has no transition-ids, which say what a path has in each frame; decode the"
            " utterance again, without steps that drop the alignment"
        )
    if (least := int(tids.min())) < 1:
        raise InputError(f"the lattice has transition-id {least}; they begin with 1")
    states = lattice.num_states + 1
    # The frame of a transition-id is that in which its step begins, and its place in the step.
    begin = find_times(source, target, lengths, states)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    within = np.arange(len(tids)) - np.repeat(offsets[:-1], lengths)
    frame = np.repeat(begin[source], lengths) + within
    width = int(tids.max()) + 1
    # A cell, frame and transition-id as one number, is counted once for all steps that pass it.
    pairs, cells = np.unique(frame * width + tids, return_inverse=True)
    frame, tid = (part.astype(np.int32) for part in np.divmod(pairs, width))
    ends = (source.astype(np.int32), target.astype(np.int32))
    cells = cells.astype(np.int32)
    return AlignedLattice(states, int(begin[-1]), *ends, weight, offsets, cells, frame, tid)


def _list_steps(
    lattice: Lattice | CompactLattice, acoustic_scale: float, lm_scale: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Source, target, log-weight and frames [A] of the arcs and, after them, of a step from each
    state where paths end to one end; and the transition-ids of all, one step after the other.
    """
    # Final costs become steps to one end more, so that all paths end in the last state.
    ends = np.flatnonzero(np.isfinite(lattice.final_graph))
    states = np.arange(lattice.num_states)
    passing = _scale(lattice.graph, lm_scale) + _scale(lattice.acoustic, acoustic_scale)
    ending = _scale(lattice.final_graph[ends], lm_scale)
    ending += _scale(lattice.final_acoustic[ends], acoustic_scale)
    # State-level arcs last a frame or, as epsilons, none; those of a word lattice have strings.
    if isinstance(lattice, Lattice):
        lengths = np.concatenate([lattice.ilabel > 0, np.zeros(len(ends), bool)]).astype(np.int64)
        tids = lattice.ilabel[lattice.ilabel > 0]
    else:
        lengths = np.concatenate(
            [np.diff(lattice.tid_offsets), np.diff(lattice.final_tid_offsets)[ends]]
        )
        ended = np.repeat(np.isfinite(lattice.final_graph), np.diff(lattice.final_tid_offsets))
        tids = np.concatenate([lattice.tids, lattice.final_tids[ended]])
    return (
        np.concatenate([np.repeat(states, np.diff(lattice.offsets)), ends]),
        np.concatenate([lattice.nextstate, np.full(len(ends), lattice.num_states)]),
        -np.concatenate([passing, ending]),
        lengths,
        tids,
    )


def _scale(costs: np.ndarray, scale: float) -> np.ndarray:
    """Costs by a scale, in single precision, then float64."""
    return (costs * np.float64(scale)).astype(np.float32).astype(np.float64)


def find_times(
    source: np.ndarray, target: np.ndarray, lengths: np.ndarray, states: int
) -> np.ndarray:
    """Return the frame in which each state is entered, int64 [S].

    Arcs [A] from `source` to `target` over so many frames, those into a state before those out of
    it.  InputError where paths to a state differ in length.
    """
    times = [0] * states
    for origin, destination, length in zip(
        source.tolist(), target.tolist(), lengths.tolist(), strict=True
    ):
        times[destination] = times[origin] + length
    entered = np.array(times)
    # Each step is checked, not only the last one into a state, which set its time.
    through = entered[source] + lengths
    wrong = np.flatnonzero(through != entered[target])
    if len(wrong):
        step = wrong[0]
        raise InputError(
            f"the lattice has paths of {entered[target[step]]} and of {through[step]} frames to one"
            " state; decode the utterance again"
        )
    return entered

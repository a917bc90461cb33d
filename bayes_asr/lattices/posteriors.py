"""Which transition-ids each frame may have had: forward-backward over the paths of a lattice.

Kaldi: lattice-to-post (lat/lattice-functions.cc, LatticeForwardBackward).
"""

import math
from dataclasses import dataclass

import numpy as np

from bayes_asr.errors import InputError
from bayes_asr.tables.lattice import AnyLattice, CompactLattice, Lattice, scale_acoustic


@dataclass(frozen=True)
class Posteriors:
    """The transition-ids that paths have in each frame, and the share of the paths that do.

    `frame`, `tid` int32 [N] and `share` float64 [N], sorted by frame, then transition-id; those of
    a frame sum to 1. `log_likelihood` is that of all paths together.
    """

    frame: np.ndarray
    tid: np.ndarray
    share: np.ndarray
    num_frames: int
    log_likelihood: float


@dataclass(frozen=True)
class Steps:
    """The arcs of a lattice and, after them, a step from each state where paths end to one end.

    Sorted so that all steps into a state come before those out of it; those of the step a are
    tids[tid_offsets[a]:tid_offsets[a + 1]].
    """

    source: np.ndarray
    target: np.ndarray
    log_likelihood: np.ndarray
    tid_offsets: np.ndarray
    tids: np.ndarray


def compute_posteriors(lattice: AnyLattice, acoustic_scale: float) -> Posteriors:
    """Return the posteriors of the transition-ids in a lattice whose acoustic costs are unscaled.

    Raises InputError where the lattice has no path, or paths of different lengths.
    """
    if not lattice.num_states:
        raise InputError("the lattice has no path")
    steps = list_steps(scale_acoustic(lattice, acoustic_scale))
    lengths = np.diff(steps.tid_offsets)
    begin = find_times(steps.source, steps.target, lengths, lattice.num_states + 1)
    share, total = weigh_steps(steps, lattice.num_states + 1)
    within = np.arange(len(steps.tids)) - np.repeat(steps.tid_offsets[:-1], lengths)
    frame = np.repeat(begin[steps.source], lengths) + within
    width = int(steps.tids.max(initial=0)) + 1
    found, where = np.unique(frame * width + steps.tids, return_inverse=True)
    summed = np.bincount(where, np.repeat(share, lengths), len(found))
    frame, tid = (part.astype(np.int32) for part in np.divmod(found, width))
    return Posteriors(frame, tid, summed, int(begin[-1]), total)


def list_steps(lattice: Lattice | CompactLattice) -> Steps:
    """Return the arcs and endings of a lattice of either kind as one table."""
    ends = np.flatnonzero(np.isfinite(lattice.final_graph))
    states = np.arange(lattice.num_states)
    ending = lattice.final_graph[ends].astype(np.float64) + lattice.final_acoustic[ends]
    passing = lattice.graph.astype(np.float64) + lattice.acoustic
    if isinstance(lattice, Lattice):
        lengths = np.concatenate([lattice.ilabel > 0, np.zeros(len(ends), bool)])
        tids = lattice.ilabel[lattice.ilabel > 0]
    else:
        lengths = np.concatenate(
            [np.diff(lattice.tid_offsets), np.diff(lattice.final_tid_offsets)[ends]]
        )
        ended = np.repeat(np.isfinite(lattice.final_graph), np.diff(lattice.final_tid_offsets))
        tids = np.concatenate([lattice.tids, lattice.final_tids[ended]])
    return Steps(
        np.concatenate([np.repeat(states, np.diff(lattice.offsets)), ends]),
        np.concatenate([lattice.nextstate, np.full(len(ends), lattice.num_states)]),
        -np.concatenate([passing, ending]),
        np.concatenate([[0], np.cumsum(lengths)]),
        tids,
    )


def find_times(
    source: np.ndarray, target: np.ndarray, lengths: np.ndarray, states: int
) -> np.ndarray:
    """Return the frame in which each state is entered, int64 [S].

    Arcs [A] from `source` to `target` over so many frames, those into a state before those out of
    it.  InputError where paths to a state differ in length.
    """
    times = [0] * states
    for before, after, length in zip(
        source.tolist(), target.tolist(), lengths.tolist(), strict=True
    ):
        times[after] = times[before] + length
    found = np.array(times)
    through = found[source] + lengths
    apart = np.flatnonzero(through != found[target])
    if len(apart):
        raise InputError(
            f"the lattice has paths of {found[target[apart[0]]]} and of {through[apart[0]]} frames"
            " to one state; decode the utterance again"
        )
    return found


def weigh_steps(steps: Steps, states: int) -> tuple[np.ndarray, float]:
    """Return the share of the paths that take each step, float64 [A], and the sum of all paths.

    The sum is a log-likelihood.
    """
    ways = list(
        zip(
            steps.source.tolist(), steps.target.tolist(), steps.log_likelihood.tolist(), strict=True
        )
    )
    forward, backward = [-math.inf] * states, [-math.inf] * states
    forward[0] = backward[-1] = 0.0
    for source, target, gained in ways:
        forward[target] = add_logs(forward[target], forward[source] + gained)
    for source, target, gained in reversed(ways):
        backward[source] = add_logs(backward[source], backward[target] + gained)
    before, after = np.array(forward), np.array(backward)
    through = before[steps.source] + steps.log_likelihood + after[steps.target]
    return np.exp(through - forward[-1]), forward[-1]


def add_logs(one: float, other: float) -> float:
    """Return log(exp(one) + exp(other))."""
    more, less = (one, other) if one > other else (other, one)
    return more if less == -math.inf else more + math.log1p(math.exp(less - more))

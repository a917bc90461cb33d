"""Small random lattices as steps through cells, and all of their paths."""

from collections.abc import Iterator

import numpy as np

from bayes_asr.decode.lattices.aligned import AlignedLattice


def random_aligned(seed: int, frames: int = 4, tids: int = 6) -> AlignedLattice:
    """A lattice of a few states at each time, with steps of none to two frames."""
    rng = np.random.default_rng(seed)
    times = np.sort(np.concatenate([[0, frames], rng.integers(0, frames + 1, 2 * frames)]))
    states = len(times)
    chain = [(a, a + 1) for a in range(states - 1)]  # so that every state lies on a path
    more = [
        (int(a), int(b))
        for a, b in rng.integers(0, states, (3 * states, 2))
        if a < b and times[b] - times[a] <= 2
    ]
    steps = sorted(chain + more)
    source, target = (np.array(ends, np.int32) for ends in zip(*steps, strict=True))
    lengths = times[target] - times[source]
    begin = np.repeat(times[source], lengths)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    frame = begin + np.arange(len(begin)) - np.repeat(offsets[:-1], lengths)
    key = frame * (tids + 1) + rng.integers(1, tids + 1, len(frame))
    found, cells = np.unique(key, return_inverse=True)
    frame, tid = (x.astype(np.int32) for x in np.divmod(found, tids + 1))
    weight = rng.normal(0, 2, len(steps)).astype(np.float32).astype(np.float64)
    sizes = (states, frames)
    return AlignedLattice(
        *sizes, source, target, weight, offsets, cells.astype(np.int32), frame, tid
    )


def list_paths(lattice: AlignedLattice, state: int = 0) -> Iterator[tuple[int, ...]]:
    """The steps of every path from a state to the last."""
    if state == lattice.num_states - 1:
        yield ()
        return
    for step in np.flatnonzero(lattice.source == state).tolist():
        for rest in list_paths(lattice, int(lattice.target[step])):
            yield (step, *rest)


def cells_of(lattice: AlignedLattice, path: tuple[int, ...]) -> list[int]:
    """The cells that a path passes, one a frame."""
    slices = (lattice.cells[lattice.offsets[step] : lattice.offsets[step + 1]] for step in path)
    return [cell for part in slices for cell in part.tolist()]

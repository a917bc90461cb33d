"""Lattices and graphs of any shape: arcs led elsewhere, cycles, dead and unreached states."""

import random
from collections.abc import Sequence

import numpy as np

from bayes_asr.kaldi_io.lattice import CompactLattice
from bayes_asr.kaldi_io.openfst import Fst

USUAL = (0.0, 0.5, -0.25, 1.0, 3.0, 7.5)
BEYOND = (np.inf, -np.inf, np.nan, 1e30, -1e30, 3e38, -3e38, 1e-45)


def draw_costs(rng: random.Random, count: int, strange: float) -> np.ndarray:
    """Costs, `strange` of them such as no lattice holds."""
    drawn = [rng.choice(BEYOND if rng.random() < strange else USUAL) for _ in range(count)]
    return np.array(drawn, np.float32)


def draw_arcs(rng: random.Random, states: int, backward: float) -> tuple[np.ndarray, Sequence[int]]:
    """Rows of up to three arcs and where they lead; `backward` of them lead anywhere."""
    counts = [rng.choice((1, 2) if not state else (0, 1, 1, 2, 3)) for state in range(states)]
    targets = [
        rng.randrange(states)
        if rng.random() < backward or state + 1 == states
        else rng.randrange(state + 1, states)
        for state, count in enumerate(counts)
        for _ in range(count if backward or state + 1 < states else 0)
    ]
    if not backward and states:
        counts[-1] = 0
    return np.cumsum([0, *counts], dtype=np.int64), targets


def draw_lattice(rng: random.Random, backward: float = 0.0, strange: float = 0.0) -> CompactLattice:
    """A word lattice of up to nine states, of which some are dead and some are not reached."""
    states = rng.randint(0, 9)
    offsets, targets = draw_arcs(rng, states, backward)
    arcs = len(targets)
    frames = np.cumsum([0, *(rng.randint(0, 3) for _ in range(arcs))], dtype=np.int64)
    ends = np.array([rng.random() < 0.4 for _ in range(states)], bool)
    ways = [draw_costs(rng, states, strange) for _ in range(2)]
    final_graph, final_acoustic = (np.where(ends, way, np.float32(np.inf)) for way in ways)
    return CompactLattice(
        offsets=offsets,
        word=np.array([rng.randint(0, 3) for _ in range(arcs)], np.int32),
        graph=draw_costs(rng, arcs, strange),
        acoustic=draw_costs(rng, arcs, strange),
        nextstate=np.array(targets, np.int32),
        tid_offsets=frames,
        tids=np.ones(int(frames[-1]), np.int32),
        final_graph=final_graph,
        final_acoustic=final_acoustic,
        final_tid_offsets=np.zeros(states + 1, np.int64),
        final_tids=np.zeros(0, np.int32),
    )


def draw_graph(rng: random.Random, labels: int, words: int, strange: float) -> Fst:
    """A decoding graph of any shape; epsilon arcs may form a cycle."""
    states = rng.randint(1, 8)
    offsets, targets = draw_arcs(rng, states, 0.4)
    arcs = len(targets)
    ends = [rng.random() < 0.4 for _ in range(states)]
    return Fst(
        start=rng.randrange(states),
        final=np.where(ends, draw_costs(rng, states, strange), np.float32(np.inf)),
        offsets=offsets,
        ilabel=np.array([rng.randint(0, labels) for _ in range(arcs)], np.int32),
        olabel=np.array([rng.randint(0, words) for _ in range(arcs)], np.int32),
        weight=draw_costs(rng, arcs, strange),
        nextstate=np.array(targets, np.int32),
    )


def draw_grammar(rng: random.Random, words: int, backoff: int, strange: float) -> Fst:
    """An acceptor of words of up to six states, each of which may back off to one before it."""
    states = rng.randint(1, 6)
    rows = [
        [
            *((rng.randint(1, words), rng.randrange(states)) for _ in range(rng.randint(0, 3))),
            *([(backoff, rng.randrange(state))] if state and rng.random() < 0.7 else ()),
        ]
        for state in range(states)
    ]
    labels = np.array([label for row in rows for label, _ in row], np.int32)
    ends = [rng.random() < 0.5 for _ in rows]
    return Fst(
        start=rng.randrange(states),
        final=np.where(ends, draw_costs(rng, states, strange), np.float32(np.inf)),
        offsets=np.cumsum([0, *map(len, rows)], dtype=np.int64),
        ilabel=labels,
        olabel=np.where(labels == backoff, 0, labels).astype(np.int32),
        weight=draw_costs(rng, len(labels), strange),
        nextstate=np.array([target for row in rows for _, target in row], np.int32),
    )

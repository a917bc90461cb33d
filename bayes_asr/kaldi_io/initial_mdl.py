"""Transition models before any training: of a topology, and of monophones."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from bayes_asr.base import elementary
from bayes_asr.kaldi_io.transition_model import (
    Topology,
    TopologyState,
    TransitionModel,
    number_transitions,
)

STATES = 3  # of a phone, unless another number is given


def build_transition_model(
    topology: Topology, tuples: Iterable[tuple[int, int, int, int]]
) -> TransitionModel:
    """Return the model of these transition-states, with the probabilities of the topology.

    A tuple is phone, HMM state, pdf of the forward transitions and pdf of the self-loop.
    """
    rows = sorted(set(tuples))
    probs = [p for phone, state, *_ in rows for _, p in topology[phone][state].transitions]
    # Entry 0 is unused: the log of 1 is 0 there.
    log_prob = elementary.log(np.array([1.0, *probs], np.float32)).astype(np.float32)
    return number_transitions(topology, np.array(rows, np.int32).reshape(-1, 4), log_prob)


def build_monophone_model(
    phones: Sequence[int], states: Mapping[int, int] | int = STATES
) -> TransitionModel:
    """Return the model in which every phone has left-to-right states of its own.

    `states` is the number of emitting states, for all phones or by phone; pdf-ids count up by
    phone and state. Self-loops have probability 0.75, as in Kaldi's gen_topo.
    """
    counts = {p: states if isinstance(states, int) else states[p] for p in sorted(set(phones))}
    topology = {phone: build_left_to_right(count) for phone, count in counts.items()}
    rows = [(phone, state) for phone, count in counts.items() for state in range(count)]
    return build_transition_model(topology, ((*row, pdf, pdf) for pdf, row in enumerate(rows)))


def build_left_to_right(count: int) -> tuple[TopologyState, ...]:
    """Return the entry of `count` emitting states with a pdf-class each, and the last state."""
    emitting = (
        TopologyState(state, state, ((state, 0.75), (state + 1, 0.25))) for state in range(count)
    )
    return (*emitting, TopologyState(-1, -1, ()))

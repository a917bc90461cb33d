"""Transition models by transition-state: self-loops, probabilities of leaving, costs in a graph."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bayes_asr.base import elementary
from bayes_asr.base.errors import InputError
from bayes_asr.kaldi_io.transition_model import TransitionModel

LEAST_LEAVING = 1e-10  # of a state whose self-loop has probability 1


@dataclass(frozen=True)
class Transitions:
    """The transitions of a TransitionModel, transition-states counted from 1.

    `state`: the transition-state of each transition-id; `loop` and `leave`: the self-loop (0 if it
    has none) and the log probability of leaving of each transition-state; `first_tid`: the first
    transition-id by (phone, HMM state, forward pdf, self-loop pdf).
    """

    state: np.ndarray
    loop: np.ndarray
    leave: np.ndarray
    first_tid: dict[tuple[int, ...], int]


def index_transitions(model: TransitionModel) -> Transitions:
    """Index the transitions of `model`."""
    counts = [len(model.topology[phone][state].transitions) for phone, state, *_ in model.tuples]
    state = np.repeat(np.arange(len(counts) + 1), [1, *counts])
    loop = np.zeros(len(counts) + 1, np.int64)
    tids = np.flatnonzero(model.self_loop)
    loop[state[tids]] = tids
    # Leaving is what the self-loop does not take.
    stay = np.where(loop > 0, elementary.exp(model.log_prob[loop]), 0.0)
    starts = 1 + np.cumsum([0, *counts[:-1]])
    return Transitions(
        state=state,
        loop=loop,
        leave=elementary.log(np.maximum(1.0 - stay, LEAST_LEAVING)),
        first_tid=dict(zip(map(tuple, model.tuples.tolist()), starts.tolist(), strict=True)),
    )


def find_first_transition(
    phone: int,
    number: int,
    pdfs: Sequence[int],
    model: TransitionModel,
    transitions: Transitions,
) -> int:
    """The first transition-id of an HMM state of a phone whose pdf-classes have `pdfs`.

    0 where the state emits nothing; InputError where the model has no such state.
    """
    state = model.topology[phone][number]
    if state.forward_class < 0:
        return 0
    key = (phone, number, pdfs[state.forward_class], pdfs[state.self_loop_class])
    if key not in transitions.first_tid:
        raise InputError(
            f"the tree gives state {number} of phone {phone} the pdfs {key[2:]}, which the "
            "model does not have there: tree and model do not belong together"
        )
    return transitions.first_tid[key]


def transition_costs(
    model: TransitionModel,
    transitions: Transitions,
    transition_scale: float = 1.0,
    self_loop_scale: float = 0.1,
) -> np.ndarray:
    """The cost of each transition-id in a graph, float32 [transition-ids + 1]; 0 for epsilon.

    A self-loop, and the choice to leave it, has `self_loop_scale`; the choice among transitions
    that leave has `transition_scale` (AddTransitionProbs).
    """
    leave = transitions.leave[transitions.state]
    # log p(transition) = log p(transition | leaves) + log p(leaves), scaled apart.
    onward = transition_scale * (model.log_prob - leave) + self_loop_scale * leave
    costs = -np.where(model.self_loop, self_loop_scale * model.log_prob, onward)
    costs[0] = 0.0
    return costs.astype(np.float32)

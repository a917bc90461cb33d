"""Transition probabilities by the counts of transition-ids in alignments."""

from dataclasses import replace

import numpy as np

from bayes_asr.base import elementary
from bayes_asr.decode.graph.transition_index import index_transitions
from bayes_asr.kaldi_io.transition_model import TransitionModel

FLOORINGS = 3  # Kaldi floors and normalises that often


def count_transitions(model: TransitionModel, transition_ids: np.ndarray) -> np.ndarray:
    """Counts float64 [N + 1] of the transition-ids of an alignment."""
    return np.bincount(transition_ids, minlength=model.num_transition_ids + 1).astype(np.float64)


def update_transitions(
    model: TransitionModel,
    counts: np.ndarray,
    *,
    floor: float = 0.01,
    min_count: float = 5.0,
) -> TransitionModel:
    """Return the model with the probabilities of greatest likelihood for `counts` [N + 1].

    As Kaldi's TransitionModel::MleUpdate: a state of less than `min_count` keeps its
    probabilities, and none is below `floor`.
    """
    state = index_transitions(model).state[1:] - 1
    begins = np.flatnonzero(np.diff(state, prepend=-1))
    # A table of transition-states by their transitions, padded to the longest state.
    place = np.arange(len(state)) - begins[state]  # among the transitions of its state
    table = np.zeros((len(begins), place.max(initial=-1) + 1))
    table[state, place] = counts[1:]
    exists = np.zeros(table.shape, bool)
    exists[state, place] = True
    totals = table.sum(1)
    # A state with a single transition keeps its probability of 1.
    updated = (totals >= min_count) & (exists.sum(1) > 1)
    probs = _floor(table[updated] / totals[updated, None], exists[updated], floor)
    logs = np.zeros(table.shape, np.float32)
    logs[updated] = elementary.log(probs)
    log_prob = model.log_prob.copy()
    log_prob[1:] = np.where(updated[state], logs[state, place], log_prob[1:])
    return replace(model, log_prob=log_prob)


def _floor(shares: np.ndarray, exists: np.ndarray, floor: float) -> np.ndarray:
    """Floor and normalise probabilities [states, transitions] in turns, float32."""
    probs = shares.astype(np.float32)
    for _ in range(FLOORINGS):
        scale = (1.0 / probs.sum(1, dtype=np.float64).astype(np.float32)).astype(np.float32)
        probs = np.where(exists, np.maximum(probs * scale[:, None], np.float32(floor)), 0)
    return probs

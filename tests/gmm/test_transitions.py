"""Transition probabilities: Kaldi's from the same alignments, floors, counts and shared pdfs."""

import numpy as np
import pytest

from bayes_asr.gmm.transitions import count_transitions, update_transitions
from bayes_asr.kaldi_io.initial_mdl import build_monophone_model, build_transition_model
from tests.support.mixtures import golden_gmms


@pytest.mark.parametrize("system", ["mono", "tri1", "tri2", "tri3"])
def test_kaldis_last_update_is_ours(system: str) -> None:
    model, _ = golden_gmms().model(f"{system}/final.mdl")
    counts = sum(count_transitions(model, a) for a in golden_gmms().alignments(system).values())
    begun = build_transition_model(model.topology, map(tuple, model.tuples.tolist()))
    seen = np.flatnonzero(begun.log_prob != update_transitions(begun, counts).log_prob)
    assert len(seen) > 0.5 * len(model.log_prob)
    updated = update_transitions(model, counts)
    np.testing.assert_allclose(updated.log_prob, model.log_prob, rtol=0, atol=1e-6)


def test_a_state_with_little_data_keeps_its_probabilities() -> None:
    model = build_monophone_model([1], 2)
    updated = update_transitions(model, np.array([0, 3, 1, 4, 1.0]))
    np.testing.assert_allclose(np.exp(updated.log_prob[1:]), [0.75, 0.25, 0.8, 0.2], rtol=1e-6)


def test_probabilities_are_floored_and_normalised_three_times() -> None:
    model = build_monophone_model([1], 1)
    updated = update_transitions(model, np.array([0, 1000.0, 0]), floor=0.1)
    expected = np.array([1.0, 0.0])
    for _ in range(3):
        expected = np.maximum(expected / expected.sum(), 0.1)
    np.testing.assert_allclose(np.exp(updated.log_prob[1:]), expected, rtol=1e-6)

"""The frames of phones in an alignment."""

import numpy as np

from bayes_asr.kaldi_io.transition_model import TransitionModel


def phone_spans(
    model: TransitionModel, transition_ids: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The phone-ids [N] of an alignment [T], their first frames, and the first after each."""
    # A phone begins where its first state is entered; all later transitions are of other states
    # or self-loops.
    enters = (model.hmm_state[transition_ids] == 0) & ~model.self_loop[transition_ids]
    start = np.flatnonzero(enters)
    return model.phone[transition_ids[start]], start, np.append(start[1:], len(transition_ids))

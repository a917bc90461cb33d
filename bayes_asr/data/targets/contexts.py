"""The phones of an alignment, and the windows of phones around each."""

from dataclasses import dataclass

import numpy as np

from bayes_asr.base.errors import InputError
from bayes_asr.kaldi_io.transition_model import TransitionModel


@dataclass(frozen=True)
class TransitionPlaces:
    """The place of each transition-id in a model: arrays by transition-id; entry 0 is unused.

    `state`: its transition-state, from 1; `place`: its number among all transitions in the topology
    of its phone; `pdf_class`: what it emits; `last`: whether it leaves the phone.
    """

    state: np.ndarray
    place: np.ndarray
    pdf_class: np.ndarray
    last: np.ndarray


@dataclass(frozen=True)
class Phones:
    """The S phones of an alignment of T frames.

    `phones` [S] are phone ids, `of_frame` [T] is the number of the phone that a frame belongs to.
    """

    phones: np.ndarray
    of_frame: np.ndarray

    def windows(self, width: int, center: int) -> np.ndarray:
        """The `width` phones around each [S, width], itself at `center`; 0 beyond an end."""
        # Entry i + center of the padded phones is phone i, so window i begins at entry i.
        padded = np.pad(self.phones, (center, width - 1 - center))
        return padded[np.arange(len(self.phones))[:, None] + np.arange(width)]


def locate_transitions(model: TransitionModel) -> TransitionPlaces:
    """Return where the transition-ids of `model` stand."""
    rows = [(0, 0, 0, False)]
    for number, (phone, hmm_state, *_) in enumerate(model.tuples.tolist(), 1):
        states = model.topology[phone]
        # Transitions of a phone are counted over its states, one after the other.
        offset = sum(len(state.transitions) for state in states[:hmm_state])
        state = states[hmm_state]
        for place, (target, _) in enumerate(state.transitions, offset):
            emitted = state.self_loop_class if target == hmm_state else state.forward_class
            # The last state of a topology is the final one, which emits nothing.
            rows.append((number, place, emitted, target == len(states) - 1))
    number_of, place_of, emitted_by, last = np.array(rows).T
    return TransitionPlaces(number_of, place_of, emitted_by, last.astype(bool))


def split_phones(
    utt: str, transition_ids: np.ndarray, model: TransitionModel, places: TransitionPlaces
) -> Phones:
    """Split an alignment int [T] into phones, as Kaldi's SplitToPhones (hmm/hmm-utils.cc).

    The self-loops of a state follow the transition that leaves it, as in all alignments of Kaldi
    and of this package. InputError where they do not, or a phone does not come to its end.
    """
    if not len(transition_ids):
        return Phones(np.zeros(0, np.int64), np.zeros(0, np.int64))
    state, loops = places.state[transition_ids], model.self_loop[transition_ids]
    entries = np.flatnonzero(~loops)  # frames of each visit to a state
    # The forward transition opens a visit, so it says whether the phone ends with this visit.
    ends = places.last[transition_ids[entries]]
    begins = np.zeros(len(transition_ids), bool)
    # A phone begins where the visit before it has left its phone.
    begins[entries] = np.append(True, ends[:-1])
    of_frame = np.cumsum(begins) - 1
    phones = model.phone[transition_ids[begins]].astype(np.int64)
    # A self-loop must go on with the state of the frame before it.
    strays = loops & (state != np.append(0, state[:-1]))
    strays |= model.phone[transition_ids] != phones[of_frame]
    if strays.any() or not ends[-1]:
        frame = int(np.argmax(strays)) if strays.any() else len(transition_ids) - 1
        raise InputError(
            f"{utt}: the alignment has transition-id {transition_ids[frame]} at frame {frame} of"
            f" {len(transition_ids)}, where its phone cannot go on or is not complete; align it"
            " again with the model that is given"
        )
    return Phones(phones, of_frame)

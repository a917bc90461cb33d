"""The transition model of Kaldi: the meaning of transition-ids."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np


@dataclass(frozen=True)
class TopologyState:
    """An HMM state: its pdf-classes (-1: emits nothing), transitions (next state, probability)."""

    forward_class: int
    self_loop_class: int
    transitions: tuple[tuple[int, float], ...]


Topology = Mapping[int, tuple[TopologyState, ...]]


@dataclass(frozen=True)
class TransitionModel:
    """Arrays indexed by transition-id, all of length num_transition_ids + 1; entry 0 is unused.

    `tuples` [N, 4] int32 holds, for each transition-state, phone, HMM state, pdf of the forward
    transitions and pdf of the self-loop. `topology` maps a phone to its HMM states.
    """

    pdf: np.ndarray
    phone: np.ndarray
    hmm_state: np.ndarray
    self_loop: np.ndarray
    log_prob: np.ndarray
    topology: Topology
    tuples: np.ndarray

    @property
    def num_transition_ids(self) -> int:
        """The largest transition-id."""
        return len(self.pdf) - 1

    @property
    def num_pdfs(self) -> int:
        """One more than the largest pdf-id."""
        return int(self.tuples[:, 2:].max(initial=-1)) + 1

    def may_follow(self, previous: np.ndarray, following: np.ndarray) -> np.ndarray:
        """Whether transition-ids [N] may be neighbours on a path, bool [N].

        Self-loops of a state may come before its other transition or, as in decoding graphs, after.
        """
        # Three cases: the same transition-state; another state of the phone; the next phone.
        state, reached, begins, ends = self._moves
        phone, hmm_state = (
            (array[previous], array[following]) for array in (self.phone, self.hmm_state)
        )
        stays = state[previous] == state[following]
        moves = (phone[0] == phone[1]) & reached[phone[0], hmm_state[0], hmm_state[1]]
        return stays | moves | (ends[phone[0], hmm_state[0]] & begins[phone[1], hmm_state[1]])

    @cached_property
    def _moves(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """The transition-state of each transition-id; which HMM states of a phone each of them
        leads to, bool [phone, S, S]; which may be a phone's first, and which its last, bool
        [phone, S].
        """
        counts = [len(self.topology[phone][s].transitions) for phone, s, *_ in self.tuples.tolist()]
        state = np.concatenate([[-1], np.repeat(np.arange(len(counts)), counts)])
        phones, longest = max(self.topology) + 1, max(map(len, self.topology.values()))
        reached = np.zeros((phones, longest, longest), bool)
        begins, ends = np.zeros((phones, longest), bool), np.zeros((phones, longest), bool)
        for phone, states in self.topology.items():
            leads = reached[phone]
            for number, described in enumerate(states):
                for target, _ in described.transitions:
                    # Self-loops are no moves; the first case of `may_follow` covers them.
                    leads[number, target] = target != number
            for number, described in enumerate(states):
                if described.forward_class < 0:  # emits nothing: what leads to it leads on
                    leads |= np.outer(leads[:, number], leads[number])
            # The last state of an entry is such a one: a transition into it leaves the phone.
            ends[phone] = leads[:, len(states) - 1]
            begins[phone] = leads[0] if states[0].forward_class < 0 else np.arange(longest) == 0
        return state, reached, begins, ends


def number_transitions(
    topology: Topology, tuples: np.ndarray, log_prob: np.ndarray
) -> TransitionModel:
    """Number the transitions in the order of `tuples` (hmm/transition-model.cc, ComputeDerived)."""
    rows = [(0, 0, 0, 0)]  # transition-ids begin at 1
    for phone, state, forward_pdf, self_loop_pdf in tuples.tolist():
        for target, _ in topology[phone][state].transitions:
            loop = target == state
            rows.append((self_loop_pdf if loop else forward_pdf, phone, state, int(loop)))
    pdf, phone_of, hmm_state, self_loop = np.array(rows, np.int32).T
    return TransitionModel(
        pdf=pdf.copy(),
        phone=phone_of.copy(),
        hmm_state=hmm_state.copy(),
        self_loop=self_loop.astype(bool),
        log_prob=log_prob,
        topology=topology,
        tuples=tuples,
    )


def pdf_class_counts(topology: Topology) -> dict[int, int]:
    """The number of pdf-classes of each phone (GetPhoneToNumPdfClasses)."""
    return {
        phone: 1 + max(max(state.forward_class, state.self_loop_class) for state in states)
        for phone, states in topology.items()
    }


def phone_spans(
    model: TransitionModel, transition_ids: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The phone-ids [N] of an alignment [T], their first frames, and the first after each."""
    # A phone begins where its first state is entered; all later transitions are of other states
    # or self-loops.
    enters = (model.hmm_state[transition_ids] == 0) & ~model.self_loop[transition_ids]
    start = np.flatnonzero(enters)
    return model.phone[transition_ids[start]], start, np.append(start[1:], len(transition_ids))


def begin_hash(model: TransitionModel) -> "hashlib.blake2b":
    """Begin a hash, as of alignments, by what the transition-ids of their model stand for."""
    # Probabilities are left out: training changes them, and they change no label.
    return hashlib.blake2b(model.tuples.tobytes() + model.pdf.tobytes(), digest_size=16)

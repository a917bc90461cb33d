"""Which transitions may follow one another, on paths through topologies of every kind."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayes_asr.kaldi_io.initial_mdl import build_left_to_right, build_transition_model
from bayes_asr.kaldi_io.transition_model import TopologyState, TransitionModel


def emitting(pdf_class: int, *targets: int, loop_class: int | None = None) -> TopologyState:
    """A state that emits; its self-loop has a class of its own in chains."""
    own = pdf_class if loop_class is None else loop_class
    return TopologyState(pdf_class, own, tuple((t, 1 / len(targets)) for t in targets))


def silent(*targets: int) -> TopologyState:
    return TopologyState(-1, -1, tuple((t, 1 / len(targets)) for t in targets))


TOPOLOGIES = {
    "left to right": build_left_to_right(3),
    "ergodic": (
        emitting(0, 0, 1, 2, 3),
        *(emitting(s, 1, 2, 3, 4) for s in (1, 2, 3)),
        emitting(4, 4, 5),
        silent(),
    ),
    "chain": (emitting(0, 0, 1, loop_class=1), silent()),
    "skip": (emitting(0, 0, 1, 2), emitting(1, 1, 2), emitting(2, 2, 3), silent()),
    "silent within": (emitting(0, 0, 1), silent(2, 3), emitting(1, 2, 3), silent()),
    "silent first": (silent(1, 2), emitting(0, 1, 2), emitting(1, 2, 3), silent()),
}


def model_of(kind: str) -> TransitionModel:
    """Two phones of a topology."""
    states = TOPOLOGIES[kind]
    rows, pdf = [], 0
    for phone in (1, 2):
        for number, state in enumerate(states):
            if state.forward_class >= 0:
                apart = state.self_loop_class != state.forward_class
                rows.append((phone, number, pdf, pdf + apart))
                pdf += 2
    return build_transition_model(dict.fromkeys((1, 2), states), rows)


def walk(model: TransitionModel, rng: np.random.Generator, reorder: bool) -> list[int]:
    """The transition-ids of a path through some phones; reorder: self-loops come behind."""
    transitions = (
        (phone, state, place)
        for phone, state, *_ in model.tuples.tolist()
        for place in range(len(model.topology[phone][state].transitions))
    )
    ids = {transition: number for number, transition in enumerate(transitions, 1)}
    path: list[int] = []
    for phone in rng.integers(1, 3, 5).tolist():
        states, state = model.topology[phone], 0
        loops: list[int] = []
        while state < len(states) - 1:
            place = int(rng.integers(len(states[state].transitions)))
            target = states[state].transitions[place][0]
            if states[state].forward_class >= 0:
                transition = ids[phone, state, place]
                if target == state and reorder:
                    loops.append(transition)
                else:
                    path += [transition, *loops]
                    loops = []
            state = target
    return path


@pytest.mark.parametrize("kind", TOPOLOGIES)
@given(seed=st.integers(0, 10**6), reorder=st.booleans())
def test_all_of_a_path_follow_one_another(kind: str, seed: int, reorder: bool) -> None:
    model = model_of(kind)
    path = np.array(walk(model, np.random.default_rng(seed), reorder), np.int32)
    assert model.may_follow(path[:-1], path[1:]).all()


@pytest.mark.parametrize("kind", ["left to right", "skip", "silent within", "silent first"])
def test_a_phone_does_not_begin_within_another(kind: str) -> None:
    model = model_of(kind)
    ids = np.arange(1, model.num_transition_ids + 1)
    firsts = min(model.hmm_state[1:])
    within = ids[model.hmm_state[ids] == firsts]
    later = ids[model.hmm_state[ids] == model.hmm_state.max()]
    previous, following = (a.ravel() for a in np.meshgrid(within, later))
    other = model.phone[previous] != model.phone[following]
    assert not model.may_follow(previous[other], following[other]).any()
    back = model.may_follow(following[~other], previous[~other])
    assert back.all()  # from the last state to the first of the same phone, once more

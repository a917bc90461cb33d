"""HMMs as transducers: H, from transition-ids to phones in context, and self-loops."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from bayes_asr.errors import InputError
from bayes_asr.graph.transducers import Arc, build_fst, sort_arcs, sources
from bayes_asr.tables.fst import Fst
from bayes_asr.tables.mdl import TransitionModel
from bayes_asr.tables.tree import Tree

LEAST_LEAVING = 1e-10  # of a state whose self-loop has probability 1


@dataclass(frozen=True)
class Transitions:
    """What graph building asks of a TransitionModel, transition-states counted from 1.

    `state`: the transition-state of each transition-id; `loop` and `leave`: the self-loop (0 if it
    has none) and the log probability of leaving of each transition-state; `first`: the first
    transition-id by (phone, HMM state, forward pdf, self-loop pdf).
    """

    state: np.ndarray
    loop: np.ndarray
    leave: np.ndarray
    first: dict[tuple[int, ...], int]


def index_transitions(model: TransitionModel) -> Transitions:
    """Index the transitions of `model`."""
    counts = [len(model.topology[phone][state].transitions) for phone, state, *_ in model.tuples]
    state = np.repeat(np.arange(len(counts) + 1), [1, *counts])
    loop = np.zeros(len(counts) + 1, np.int64)
    tids = np.flatnonzero(model.self_loop)
    loop[state[tids]] = tids
    stay = np.where(loop > 0, np.exp(model.log_prob[loop].astype(float)), 0.0)
    starts = 1 + np.cumsum([0, *counts[:-1]])
    return Transitions(
        state=state,
        loop=loop,
        leave=np.log(np.maximum(1.0 - stay, LEAST_LEAVING)),
        first=dict(zip(map(tuple, model.tuples.tolist()), starts.tolist(), strict=True)),
    )


def build_hmm_fst(
    windows: Sequence[Sequence[int]], model: TransitionModel, tree: Tree, scale: float
) -> tuple[Fst, list[int]]:
    """Return H without self-loops: transition-ids to the indices of `windows` (make-h-transducer).

    A window is the phones around a phone, or minus a disambiguation symbol; each of these gets a
    transition-id beyond the model's, listed in the second result. Windows whose phones have equal
    pdfs share states.
    """
    transitions = index_transitions(model)
    loop, states = 0, 1
    arcs: list[Arc] = []
    entries: dict[tuple[int, ...], int] = {}
    stand_ins: list[int] = []
    for index, window in enumerate(windows):
        if len(window) == 0:  # epsilon
            continue
        if len(window) == 1 and window[0] <= 0:
            stand_ins.append(model.num_transition_ids + 1 + len(stand_ins))
            arcs.append((loop, stand_ins[-1], index, 0.0, loop))
            continue
        phone = window[tree.center]
        pdfs = window_pdfs(window, model, tree)
        if (phone, *pdfs) not in entries:
            entries[phone, *pdfs] = states
            arcs += iter_hmm_arcs(phone, pdfs, model, transitions, scale, states)
            states += len(model.topology[phone])
            arcs.append((states - 1, 0, 0, 0.0, loop))
        arcs.append((loop, 0, index, 0.0, entries[phone, *pdfs]))
    return build_fst(arcs, {loop: 0.0}, loop), stand_ins


def window_pdfs(window: Sequence[int], model: TransitionModel, tree: Tree) -> tuple[int, ...]:
    """The pdf of each pdf-class of the topology of the phone in the centre of `window`."""
    phone = window[tree.center]
    if phone not in model.topology:
        raise InputError(f"phone {phone} of the lexicon is not in the topology of the model")
    classes = [c for s in model.topology[phone] for c in (s.forward_class, s.self_loop_class)]
    return tuple(tree.pdf(window, pdf_class) for pdf_class in range(max(classes) + 1))


def iter_hmm_arcs(
    phone: int,
    pdfs: Sequence[int],
    model: TransitionModel,
    transitions: Transitions,
    scale: float,
    states: int,
) -> Iterator[Arc]:
    """Arcs of one HMM, its states numbered from `states`, its self-loops left out (GetHmmAsFsa)."""
    for number, state in enumerate(model.topology[phone]):
        emits = state.forward_class >= 0
        first = find_first_transition(phone, number, pdfs, model, transitions)
        for tid, (target, probability) in enumerate(state.transitions, first):
            if target == number:
                continue
            log_prob = math.log(probability)
            if emits:
                log_prob = float(model.log_prob[tid] - transitions.leave[transitions.state[tid]])
            yield states + number, tid if emits else 0, 0, -scale * log_prob, states + target


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
    if key not in transitions.first:
        raise InputError(
            f"the tree gives state {number} of phone {phone} the pdfs {key[2:]}, which the "
            "model does not have there: tree and model do not belong together"
        )
    return transitions.first[key]


def transition_costs(
    model: TransitionModel,
    transitions: Transitions,
    transition_scale: float = 1.0,
    self_loop_scale: float = 0.1,
) -> np.ndarray:
    """What each transition-id costs in a graph, float32 [transition-ids + 1]; 0 for epsilon.

    A self-loop, and the choice to leave it, has `self_loop_scale`; the choice among transitions
    that leave has `transition_scale` (AddTransitionProbs).
    """
    leave = transitions.leave[transitions.state]
    onward = transition_scale * (model.log_prob - leave) + self_loop_scale * leave
    costs = -np.where(model.self_loop, self_loop_scale * model.log_prob, onward)
    costs[0] = 0.0
    return costs.astype(np.float32)


def add_self_loops(
    fst: Fst, model: TransitionModel, scale: float, transitions: Transitions | None = None
) -> Fst:
    """Give each state the self-loop of the transition that leads into it, and its cost of leaving.

    States entered from several transition-states are split first, each part going on to the old
    state by an epsilon (add-self-loops --reorder=true).
    """
    transitions = transitions or index_transitions(model)
    source, target = sources(fst), fst.nextstate.astype(np.int64)
    entering = transitions.state[fst.ilabel]
    lowest = np.full(fst.num_states, len(transitions.loop))
    highest = np.zeros(fst.num_states, np.int64)
    lowest[fst.start] = 0
    np.minimum.at(lowest, target, entering)
    np.maximum.at(highest, target, entering)
    split = (lowest < highest)[target] & (fst.ilabel > 0)
    parts, part = np.unique(np.stack([target[split], entering[split]]), axis=1, return_inverse=True)
    target[split] = fst.num_states + part
    highest[lowest < highest] = 0
    entered = np.concatenate([highest, parts[1]])
    looping = np.flatnonzero(transitions.loop[entered])
    loop = transitions.loop[entered[looping]]
    leaving = -scale * transitions.leave[entered]
    new = fst.num_states + np.arange(parts.shape[1])
    return sort_arcs(
        source=np.concatenate([source, new, looping]),
        ilabel=np.concatenate([fst.ilabel, np.zeros_like(new), loop]),
        olabel=np.concatenate([fst.olabel, np.zeros_like(new), np.zeros_like(loop)]),
        weight=np.concatenate(
            [fst.weight + leaving[source], leaving[new], -scale * model.log_prob[loop]]
        ),
        nextstate=np.concatenate([target, parts[0], looping]),
        final=np.append(fst.final, np.full(len(new), np.inf)) + leaving,
        start=fst.start,
    )

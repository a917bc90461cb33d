"""HMMs as transducers: H, from transition-ids to phones in context, and self-loops."""

from collections.abc import Iterator, Sequence

import numpy as np

from bayes_asr.base import elementary
from bayes_asr.decode.graph.transducers import Arc, build_fst, sort_arcs, sources
from bayes_asr.decode.graph.transition_index import (
    Transitions,
    find_first_transition,
    index_transitions,
)
from bayes_asr.kaldi_io.context_dependency import Tree, window_pdfs
from bayes_asr.kaldi_io.openfst import Fst
from bayes_asr.kaldi_io.transition_model import TransitionModel


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
        # State 0 writes the index and enters the HMM, whose last state leads back to it.
        if (phone, *pdfs) not in entries:
            entries[phone, *pdfs] = states
            arcs += iter_hmm_arcs(phone, pdfs, model, transitions, scale, states)
            states += len(model.topology[phone])
            arcs.append((states - 1, 0, 0, 0.0, loop))
        arcs.append((loop, 0, index, 0.0, entries[phone, *pdfs]))
    return build_fst(arcs, {loop: 0.0}, loop), stand_ins


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
        first_tid = find_first_transition(phone, number, pdfs, model, transitions)
        for tid, (target, probability) in enumerate(state.transitions, first_tid):
            if target == number:
                continue
            # Among the transitions that leave: the self-loop's share is paid by add_self_loops.
            if emits:
                log_prob = float(model.log_prob[tid] - transitions.leave[transitions.state[tid]])
            else:
                log_prob = float(elementary.log(probability))
            yield states + number, tid if emits else 0, 0, -scale * log_prob, states + target


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
    # A state is entered by one transition-state if the lowest and the highest are the same; 0 are
    # epsilons and the start.
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

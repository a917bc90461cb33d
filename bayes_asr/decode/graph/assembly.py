"""Graphs of HMMs from acceptors of phones: context, tree and topology, without epsilons between.

The graph is that of Kaldi's compile-train-graphs before it is minimized, with self-loops that
follow their transition (--reorder=true) and without transition probabilities.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bayes_asr.decode.graph.transducers import NO_PHONE, PhoneAcceptor, sort_arcs
from bayes_asr.decode.graph.transition_index import find_first_transition, index_transitions
from bayes_asr.kaldi_io.context_dependency import Tree, window_pdfs
from bayes_asr.kaldi_io.openfst import Fst
from bayes_asr.kaldi_io.transition_model import TransitionModel

ENTRY = -1
WindowArc = tuple[int, tuple[int, ...], float, int]  # source, phones in context, cost, next state


@dataclass(frozen=True)
class Hmm:
    """The arcs of the HMM of one phone, int64 [A, 3]: source, transition-id, target.

    Inner states count from 0; the source ENTRY is where the HMM begins, the targets -1, -2, ... are
    its exits. A state is entered by one transition-state only. `exits` [E] holds those of the
    exits, whose self-loops are not among the arcs; 0 for none.
    """

    arcs: np.ndarray
    states: int
    exits: np.ndarray


NOTHING = Hmm(np.array([[ENTRY, 0, -1]]), 0, np.zeros(1, np.int64))  # an epsilon


class Hmms:
    """The HMMs of phones in context, by a transition model and its tree; each is made once."""

    def __init__(self, model: TransitionModel, tree: Tree) -> None:
        """Take a model and the tree that it was made with."""
        self.model, self.tree = model, tree
        self.transitions = index_transitions(model)
        self._of_window: dict[tuple[int, ...], Hmm] = {(): NOTHING}
        self._of_pdfs: dict[tuple[int, ...], Hmm] = {}

    def __getitem__(self, window: tuple[int, ...]) -> Hmm:
        """The HMM of the phone in the centre of `window`; that of () reads nothing.

        InputError where tree, model and phones do not belong together.
        """
        hmm = self._of_window.get(window)
        if hmm is None:
            phone, pdfs = window[self.tree.center], window_pdfs(window, self.model, self.tree)
            if (phone, *pdfs) not in self._of_pdfs:
                self._of_pdfs[phone, *pdfs] = self._build(phone, pdfs)
            hmm = self._of_window[window] = self._of_pdfs[phone, *pdfs]
        return hmm

    def _build(self, phone: int, pdfs: Sequence[int]) -> Hmm:
        """Walk through the states of a phone, each once for every transition-state before it."""
        topology, loop = self.model.topology[phone], self.transitions.loop
        last = len(topology) - 1
        # A self-loop follows its transition, so that a state is split by the transition-state that
        # leads into it.
        begin = (0, 0)  # HMM state, transition-state before it
        numbers, queue = {begin: ENTRY}, [begin]
        inner, exits = 0, 0
        arcs: list[tuple[int, int, int]] = []
        for pair in queue:  # which grows
            state, _ = pair
            emits = topology[state].forward_class >= 0
            first_tid = find_first_transition(phone, state, pdfs, self.model, self.transitions)
            for tid, (target, _) in enumerate(topology[state].transitions, first_tid):
                if target == state:
                    continue
                successor = (target, int(self.transitions.state[tid]) if emits else 0)
                if successor not in numbers and target == last:
                    exits += 1
                    numbers[successor] = -exits
                elif successor not in numbers:
                    numbers[successor] = inner
                    inner += 1
                    queue.append(successor)
                arcs.append((numbers[pair], tid if emits else 0, numbers[successor]))
        loops = [(n, int(loop[by]), n) for (_, by), n in numbers.items() if n >= 0 and loop[by]]
        ends = [by for (_, by), n in numbers.items() if n < 0 and (_, by) != begin]
        return Hmm(np.array(arcs + loops), inner, np.array(ends, np.int64))


def expand_context(acceptor: PhoneAcceptor, tree: Tree) -> tuple[list[WindowArc], dict[int, float]]:
    """Split states by the phones before them, and read each phone when those after it are known.

    The window of an arc is () where no phone is read yet. Beyond an end phones are 0, as in
    Kaldi's compose-context. State 0 is the start.
    """
    # C of Mohri, Pereira & Riley (2002): its states are the last width - 1 phones.
    leaving: dict[int, list[tuple[int, float, int]]] = {}
    for source, phone, cost, target in acceptor.arcs:
        leaving.setdefault(source, []).append((phone, cost, target))
    late = tree.width - 1 - tree.center  # phones that are read beyond the end
    # As many arcs of phone 0 flush the context after a final state, through states -1, -2, ...
    for state, cost in acceptor.final.items() if late else ():
        leaving.setdefault(state, []).append((0, cost, -1))
    for beyond in range(1, late):
        leaving[-beyond] = [(0, 0.0, -beyond - 1)]
    ends = {-late: 0.0} if late else acceptor.final
    start = (0, (0,) * (tree.width - 1))
    number, queue = {start: 0}, [start]
    arcs: list[WindowArc] = []
    for source, (state, history) in enumerate(queue):  # which grows
        for phone, cost, target in leaving.get(state, ()):
            # Without a phone the context stays what it is, and there is nothing to read.
            window = (*history, phone) if phone != NO_PHONE else (0, *history)
            successor = (target, window[1:])
            index = number.setdefault(successor, len(queue))
            if index == len(queue):
                queue.append(successor)
            arcs.append(
                (source, window if phone != NO_PHONE and window[tree.center] else (), cost, index)
            )
    return arcs, {n: ends[state] for (state, _), n in number.items() if state in ends}


def assemble(arcs: Sequence[WindowArc], final: Mapping[int, float], hmms: Hmms) -> Fst:
    """Put HMMs in the place of windows: transition-ids on input labels, no output labels.

    A state of the arcs becomes one for each transition-state that leads to it, with the self-loop
    of that. What the arcs cost is paid on entering their HMMs.
    """
    source, windows, cost, target = zip(*arcs, strict=True)
    parts = [hmms[window] for window in windows]
    exits = np.concatenate([part.exits for part in parts])
    # Parts are laid end to end: the inner states of part i begin at first_state[i].
    counts = np.array([(len(part.arcs), part.states, len(part.exits)) for part in parts])
    part_of = np.repeat(np.arange(len(parts)), counts[:, 0])
    # Joints: the start, then pairs of a state of the arcs and a transition-state before it.
    # A pair is one number, state * width + transition-state.
    width = len(hmms.transitions.loop)
    keys, joint_of_exit = np.unique(
        np.repeat(np.array(target), counts[:, 2]) * width + exits, return_inverse=True
    )
    joined, entered_by = np.divmod(np.concatenate(([0], keys)), width)
    first_state, first_exit = (np.cumsum(counts[:, 1:], axis=0) - counts[:, 1:]).T
    first_state += len(joined)
    from_state, tid, to_state = np.concatenate([part.arcs for part in parts]).T
    # Targets: exit -e of a part is the joint of its e-th exit, others are inner states.
    leaves, enters = to_state < 0, from_state == ENTRY
    to_state[leaves] = 1 + joint_of_exit[(first_exit[part_of] - 1 - to_state)[leaves]]
    to_state[~leaves] += first_state[part_of][~leaves]
    # Sources: an arc from ENTRY leaves every joint of its state, so it is copied for each.
    state = np.array(source)[part_of]
    begin = np.searchsorted(joined, state)
    copies = np.where(enters, np.searchsorted(joined, state, "right") - begin, 1)
    from_state = np.where(enters, begin, first_state[part_of] + from_state)
    row = np.repeat(np.arange(len(from_state)), copies)
    nth = np.arange(len(row)) - np.repeat(np.cumsum(copies) - copies, copies)
    from_state = from_state[row] + nth
    # A joint has the self-loop of the transition-state that leads to it (--reorder=true).
    loop = hmms.transitions.loop[entered_by]
    looping = np.flatnonzero(loop)
    ends = np.full(len(joined) + counts[:, 1].sum(), np.inf)
    ends[: len(joined)] = [final.get(place, np.inf) for place in joined.tolist()]
    ilabel = np.concatenate([tid[row], loop[looping]])
    weight = np.where(enters, np.array(cost)[part_of], 0.0)[row]
    return sort_arcs(
        source=np.concatenate([from_state, looping]),
        ilabel=ilabel,
        olabel=np.zeros_like(ilabel),
        weight=np.concatenate([weight, np.zeros(len(looping))]),
        nextstate=np.concatenate([to_state[row], looping]),
        final=ends,
        start=0,
    )

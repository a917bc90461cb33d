"""The first model of a new tree: its transitions, a Gaussian for each leaf, its alignment.

As Kaldi's gmm-init-model and convert-ali.
"""

from collections.abc import Mapping

import numpy as np

from bayes_asr.base.errors import InputError
from bayes_asr.base.log import LOGGER
from bayes_asr.data.targets.contexts import locate_transitions, split_phones
from bayes_asr.decode.graph.transition_index import index_transitions
from bayes_asr.gmm.clusterable import VARIANCE_FLOOR, sum_by
from bayes_asr.gmm.tree_statistics import TreeStatistics
from bayes_asr.kaldi_io.context_dependency import (
    PDF_CLASS,
    Leaf,
    Node,
    Split,
    Tree,
    iter_leaves,
    window_pdfs,
)
from bayes_asr.kaldi_io.initial_mdl import build_transition_model
from bayes_asr.kaldi_io.mixtures import Mixtures
from bayes_asr.kaldi_io.transition_model import Topology, TopologyState, TransitionModel


def derive_transitions(tree: Tree, topology: Topology) -> TransitionModel:
    """Return the transitions that `tree` and `topology` allow, with the topology's probabilities.

    InputError where a state has another pdf-class for its self-loop, which Gaussian mixtures of
    Kaldi do not have, or the tree has no pdf for a state.
    """
    tuples = []
    for phone, states in topology.items():
        for number, state in enumerate(states):
            if state.forward_class != state.self_loop_class:
                raise InputError(
                    f"the topology gives state {number} of phone {phone} one pdf-class, and its"
                    " self-loop another; write <PdfClass> for both"
                )
            if state.forward_class >= 0:
                # Any context may occur: a state has each pdf that some window leads to.
                pdfs = _reachable_pdfs(
                    tree.root, {tree.center: phone, PDF_CLASS: state.forward_class}
                )
                if not pdfs:
                    raise InputError(f"the tree has no pdf for state {number} of phone {phone}")
                tuples += [(phone, number, pdf, pdf) for pdf in pdfs]
    return build_transition_model(topology, tuples)


def init_mixtures(tree: Tree, statistics: TreeStatistics) -> tuple[Mixtures, np.ndarray]:
    """Return one Gaussian for each leaf of `tree`, and the frames float64 [P] of each.

    Arithmetic is float32, as Kaldi's. A leaf without frames gets the Gaussian of all frames.
    """
    pdfs, sums = sum_by(tree.pdfs(statistics.events), statistics.sums)
    of_pdf = np.zeros((1 + max(iter_leaves(tree.root)), statistics.sums.shape[1]))
    of_pdf[pdfs] = sums
    frames = of_pdf[:, 0].copy()
    unseen = np.flatnonzero(frames == 0)
    if len(unseen):
        LOGGER.warning(
            "pdfs %s have no frames: their phones are in no alignment; let them share the roots of"
            " others in roots.int",
            unseen.tolist(),
        )
        of_pdf[unseen] = sums.sum(0)
    # Kaldi computes moments in float32 here, in the order: scale, then subtract the square.
    scale = (1 / of_pdf[:, :1]).astype(np.float32)
    means, squares = np.split(of_pdf[:, 1:].astype(np.float32) * scale, 2, axis=1)
    variances = np.maximum(squares - means * means, VARIANCE_FLOOR)
    offsets = np.arange(len(of_pdf) + 1)
    return Mixtures.from_moments(offsets, np.ones(len(of_pdf)), means, variances), frames


class Converter:
    """Converter of alignments to the transition-ids of another model and tree (convert-ali)."""

    def __init__(self, old: TransitionModel, new: TransitionModel, tree: Tree) -> None:
        """InputError where the phones of `old` have other states or transitions in `new`."""
        self._old, self._new, self._tree = old, new, tree
        self._places = locate_transitions(old)
        self._first_tid = index_transitions(new).first_tid
        self._most = 1 + int(self._places.place.max())
        self._cache: dict[tuple[int, ...], np.ndarray] = {}
        for phone, states in old.topology.items():
            if list(map(_outline, states)) != list(map(_outline, new.topology.get(phone, ()))):
                raise InputError(
                    f"phone {phone} has other states in the new topology than in the one of the"
                    " alignments; align again with a model of this topology"
                )

    def convert_alignment(self, utt: str, transition_ids: np.ndarray) -> np.ndarray:
        """Return the transition-ids int32 [T] of the new model, of the same phones and states.

        InputError where the alignment is not of the old model.
        """
        split = split_phones(utt, transition_ids, self._old, self._places)
        windows = split.windows(self._tree.width, self._tree.center).tolist()
        # Row: a phone of the alignment; column: a transition of the phone's topology.
        rows = [self._transitions(tuple(window)) for window in windows]
        table = np.stack(rows) if rows else np.zeros((0, self._most), np.int32)
        return table[split.of_frame, self._places.place[transition_ids]]

    def _transitions(self, window: tuple[int, ...]) -> np.ndarray:
        """The transition-ids of the phone amid `window`, by their place in its topology."""
        if window not in self._cache:
            phone = window[self._tree.center]
            pdfs = window_pdfs(window, self._new, self._tree)
            # Transition-ids of a state are consecutive, in the order of its transitions.
            ids: list[int] = []
            for number, state in enumerate(self._new.topology[phone]):
                key = (phone, number, pdfs[state.forward_class], pdfs[state.self_loop_class])
                begin = self._first_tid[key] if state.forward_class >= 0 else 0
                ids += range(begin, begin + len(state.transitions))
            self._cache[window] = np.pad(ids, (0, self._most - len(ids))).astype(np.int32)
        return self._cache[window]


def _reachable_pdfs(node: Node, values: Mapping[int, int]) -> set[int]:
    """The pdfs below `node` for all events with these values; other keys may have any value."""
    if isinstance(node, Leaf):
        return {node.pdf}
    value = values.get(node.key)
    if isinstance(node, Split):
        if value is not None:
            return _reachable_pdfs(node.yes if value in node.values else node.no, values)
        return _reachable_pdfs(node.yes, values) | _reachable_pdfs(node.no, values)
    inside = node.children if value is None else node.children[value : value + 1]
    return set().union(*(_reachable_pdfs(child, values) for child in inside if child is not None))


def _outline(state: TopologyState) -> tuple[int, int, list[int]]:
    """A state of a topology without its probabilities."""
    targets = [target for target, _ in state.transitions]
    return state.forward_class, state.self_loop_class, targets

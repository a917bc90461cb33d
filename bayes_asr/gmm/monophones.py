"""The first model: a tree without context, and the same Gaussian for each of its pdfs."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count

import numpy as np

from bayes_asr.errors import InputError
from bayes_asr.features.front_end import statistics
from bayes_asr.tables.gmm import Mixtures
from bayes_asr.tables.mdl import (
    Topology,
    TransitionModel,
    build_transition_model,
    pdf_class_counts,
)
from bayes_asr.tables.tree import PDF_CLASS, Leaf, Node, Split, Table, Tree


def build_first_model(
    topology: Topology, sets: Sequence[Sequence[int]], features: Iterable[np.ndarray]
) -> tuple[Tree, TransitionModel, Mixtures]:
    """Return what Kaldi's gmm-init-mono writes.

    sets: phones that share their pdfs, as in `phones/sets.int`; features: of some utterances
    [T, D], train_mono.sh takes ten. InputError where a phone of the topology is not in one set, or
    a feature does not vary.
    """
    tree = build_first_tree(topology, sets)
    states = (
        (phone, number, state.forward_class, state.self_loop_class)
        for phone, entry in topology.items()
        for number, state in enumerate(entry)
        if state.forward_class >= 0
    )
    transitions = build_transition_model(
        topology,
        (
            (phone, number, tree.pdf([phone], forward), tree.pdf([phone], self_loop))
            for phone, number, forward, self_loop in states
        ),
    )
    return tree, transitions, _repeat_gaussian(features, transitions.num_pdfs)


def build_first_tree(topology: Topology, sets: Sequence[Sequence[int]]) -> Tree:
    """Return the tree of phones without context (Kaldi's MonophoneContextDependencyShared).

    pdf-ids count up in the order of `sets`. InputError where a phone of the topology is not in
    one set.
    """
    phones = [phone for phones in sets for phone in phones]
    strange = sorted({*topology, *phones} - {p for p in topology if phones.count(p) == 1})
    if strange or not phones:
        raise InputError(
            f"{len(phones)} phones in sets, {len(topology)} in the topology: {strange[:5]} are not"
            " once in each; make phones/sets.int and topo of the lang folder again"
        )
    return Tree(width=1, center=0, root=_build_node(sets, pdf_class_counts(topology), count()))


def _build_node(
    sets: Sequence[Sequence[int]], classes: Mapping[int, int], pdfs: Iterator[int]
) -> Node:
    """A leaf for each set and pdf-class, found as Kaldi finds it (GetStubMap)."""
    if len(sets) == 1:
        most = max(classes[phone] for phone in sets[0])
        return Table(PDF_CLASS, tuple(Leaf(next(pdfs)) for _ in range(most)))
    highest = max(map(max, sets))
    if max(map(len, sets)) == 1 and len(sets) <= 2 * highest:
        nodes = {phones[0]: _build_node([phones], classes, pdfs) for phones in sets}
        return Table(0, tuple(nodes.get(phone) for phone in range(highest + 1)))
    half = len(sets) // 2
    yes, no = (_build_node(part, classes, pdfs) for part in (sets[:half], sets[half:]))
    return Split(0, frozenset(phone for phones in sets[:half] for phone in phones), yes, no)


def _repeat_gaussian(features: Iterable[np.ndarray], num_pdfs: int) -> Mixtures:
    """One Gaussian for each pdf, all of the mean and variance of `features`."""
    stats = np.atleast_2d(statistics(features))
    frames = stats[0, -1]
    if not frames:
        raise InputError("no features to begin with: the data has no utterance of any frame")
    mean = stats[0, :-1] / frames
    variance = stats[1, :-1] / frames - mean**2
    if variance.min() <= 0:
        raise InputError(
            f"feature {variance.argmin()} of {len(variance)} has the variance {variance.min():g}"
            f" over the {frames:.0f} frames to begin with; remove it, or give more speech"
        )
    inverse = (1 / variance).astype(np.float32)
    return Mixtures(
        first=np.arange(num_pdfs + 1),
        weights=np.ones(num_pdfs, np.float32),
        inverse_variances=np.tile(inverse, (num_pdfs, 1)),
        means_inverse_variances=np.tile(mean.astype(np.float32) * inverse, (num_pdfs, 1)),
    )

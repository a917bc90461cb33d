"""The first model of monophones: a tree without context, and equal Gaussians (gmm-init-mono)."""

from collections.abc import Iterable, Sequence

import numpy as np

from bayes_asr.base.errors import InputError
from bayes_asr.data.features.front_end import cmvn_statistics
from bayes_asr.gmm.first_model import derive_transitions
from bayes_asr.gmm.roots import Root, build_stub
from bayes_asr.kaldi_io.context_dependency import Tree
from bayes_asr.kaldi_io.mixtures import Mixtures
from bayes_asr.kaldi_io.transition_model import Topology, TransitionModel, pdf_class_counts


def init_monophones(
    topology: Topology,
    sets: Sequence[Sequence[int]],
    features: Iterable[np.ndarray],
    name: object,
) -> tuple[Tree, TransitionModel, Mixtures]:
    """Return the tree, transitions and mixtures that Kaldi's gmm-init-mono writes.

    sets: phones that share their pdfs, as in `phones/sets.int`; features: of some utterances
    [T, D], train_mono.sh takes ten; name: of their data, in errors. InputError where a phone of the
    topology is not in one set, or a feature does not vary.
    """
    tree = build_shared_tree(topology, sets)
    transitions = derive_transitions(tree, topology)
    return tree, transitions, _repeat_gaussian(features, transitions.num_pdfs, name)


def build_shared_tree(topology: Topology, sets: Sequence[Sequence[int]]) -> Tree:
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
    roots = [Root(tuple(sorted(phones)), shared=False) for phones in sets]
    return Tree(width=1, center=0, root=build_stub(roots, pdf_class_counts(topology), 0))


def _repeat_gaussian(features: Iterable[np.ndarray], num_pdfs: int, name: object) -> Mixtures:
    """One Gaussian for each pdf, all of the mean and variance of `features`."""
    # Kaldi's CMVN statistics [2, D + 1]: sums and count, sums of squares.
    stats = np.atleast_2d(cmvn_statistics(features))
    frames = stats[0, -1]
    if not frames:
        raise InputError(f"{name}: no features to begin with: no utterance has any frame")
    mean = stats[0, :-1] / frames
    variance = stats[1, :-1] / frames - mean**2
    if variance.min() <= 0:
        raise InputError(
            f"{name}: feature {variance.argmin()} of {len(variance)} has the variance"
            f" {variance.min():g} over the {frames:.0f} frames to begin with; remove it, or give"
            " more speech"
        )
    inverse = (1 / variance).astype(np.float32)
    return Mixtures(
        offsets=np.arange(num_pdfs + 1),
        weights=np.ones(num_pdfs, np.float32),
        inverse_variances=np.tile(inverse, (num_pdfs, 1)),
        means_inverse_variances=np.tile(mean.astype(np.float32) * inverse, (num_pdfs, 1)),
    )

"""A small model of the chain topology: three phones, of which one asks for the phone before it."""

import numpy as np

from bayes_asr.kaldi_io.context_dependency import PDF_CLASS, Leaf, Split, Table, Tree
from bayes_asr.kaldi_io.initial_mdl import build_transition_model
from bayes_asr.kaldi_io.transition_model import TopologyState, TransitionModel
from bayes_asr.tasks.chain.denominator_fst import build_denominator_fst
from bayes_asr.tasks.chain.denominator_graph import DenominatorGraph
from bayes_asr.tasks.chain.phone_lm import PhoneLmOptions, estimate_phone_lm

ENTRY = (TopologyState(0, 1, ((0, 0.5), (1, 0.5))), TopologyState(-1, -1, ()))
PHONES = (1, 2, 3)


def chain_tree() -> Tree:
    """Pdfs: 1 has 0 and 1; 2 has 2 and 3 after 1, otherwise 4 for both; 3 has 5 and 1, as 1."""

    def classes(first: int, loop: int) -> Table:
        return Table(PDF_CLASS, (Leaf(first), Leaf(loop)))

    second = Split(0, frozenset({1}), classes(2, 3), Leaf(4))
    return Tree(2, 1, Table(1, (None, classes(0, 1), second, classes(5, 1))))


def chain_model() -> TransitionModel:
    """The transition model of that tree, its self-loops with probability 0.5."""
    pairs = [(1, 0, 1), (2, 2, 3), (2, 4, 4), (3, 5, 1)]
    model = build_transition_model(
        dict.fromkeys(PHONES, ENTRY), [(phone, 0, *pdfs) for phone, *pdfs in pairs]
    )
    np.testing.assert_allclose(model.log_prob[1:], np.log(0.5), rtol=1e-6)
    return model


def spread_phones(phones: list[int], durations: list[int], tree: Tree) -> list[int]:
    """The pdfs of phones that last so many frames: the first, then the self-loop's."""
    found = []
    for before, phone, frames in zip([0, *phones], phones, durations, strict=False):
        window = (before, phone)
        found += [tree.pdf(window, 0)] + [tree.pdf(window, 1)] * (frames - 1)
    return found


MODEL, TREE = chain_model(), chain_tree()
SAID = [[1, 2, 3], [3, 3, 2], [2], [1, 1, 2, 3], [3, 2], [1, 3, 1, 2], [2, 2]]
GRAPH = DenominatorGraph.of_fst(
    build_denominator_fst(estimate_phone_lm(SAID, PhoneLmOptions(3, 9, 3)), MODEL, TREE),
    MODEL.num_pdfs,
)

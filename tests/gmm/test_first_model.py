"""First models of trees: transitions of Kaldi's models, and the likelihood of the statistics."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bayes_asr.base.errors import InputError
from bayes_asr.gmm.clusterable import objective
from bayes_asr.gmm.first_model import Converter, derive_transitions, init_mixtures
from bayes_asr.gmm.likelihood import log_likelihoods
from bayes_asr.gmm.questions import compile_questions
from bayes_asr.gmm.roots import Root
from bayes_asr.gmm.splitting import TreeOptions, build_tree
from bayes_asr.gmm.tree_statistics import Context, accumulate
from bayes_asr.kaldi_io.ark import iter_int_vectors
from bayes_asr.kaldi_io.context_dependency import Leaf, Table, Tree, find_leaves
from bayes_asr.kaldi_io.mdl import read_transition_model
from bayes_asr.kaldi_io.transition_model import TopologyState
from bayes_asr.kaldi_io.tree import read_tree
from tests.support.event_sums import random_statistics, topology_of
from tests.support.mixtures import golden_gmms


@pytest.mark.parametrize(
    ("corpus", "system"),
    [("timit_sample", "mono_ali"), ("timit_sample", "tri3_ali"), ("an4", "tri3_ali")],
)
def test_transitions_of_a_tree_are_kaldis(
    kaldi_corpus: Callable[[str], Path], corpus: str, system: str
) -> None:
    folder = kaldi_corpus(corpus) / "exp" / system
    theirs = read_transition_model(folder / "final.mdl")
    ours = derive_transitions(read_tree(folder / "tree"), theirs.topology)
    for name in ("tuples", "pdf", "phone", "hmm_state", "self_loop"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))


@pytest.mark.parametrize("corpus", ["timit_sample", "an4"])
def test_an_alignment_converted_there_and_back_is_the_same(
    kaldi_corpus: Callable[[str], Path], corpus: str
) -> None:
    exp = kaldi_corpus(corpus) / "exp"
    trees = {name: read_tree(exp / name / "tree") for name in ("mono_ali", "tri3_ali")}
    models = {name: read_transition_model(exp / name / "final.mdl") for name in trees}
    there = Converter(models["tri3_ali"], models["mono_ali"], trees["mono_ali"])
    back = Converter(models["mono_ali"], models["tri3_ali"], trees["tri3_ali"])
    checked = 0
    for utt, tids in iter_int_vectors(exp / "tri3_ali" / "ali.1.gz"):
        simple = there.convert_alignment(utt, tids)
        for name in ("phone", "hmm_state", "self_loop"):
            column = getattr(models["mono_ali"], name)[simple]
            np.testing.assert_array_equal(column, getattr(models["tri3_ali"], name)[tids])
        np.testing.assert_array_equal(back.convert_alignment(utt, simple), tids)
        checked += 1
    assert checked >= 40


def test_converted_alignments_have_the_pdfs_of_the_tree() -> None:
    """What golden mono_ali says in the transition-ids of tri1, which starts from it."""
    golden = golden_gmms()
    mono, _ = golden.model("mono/final.mdl")
    tri1, _ = golden.model("tri1/final.mdl")
    tree = read_tree(golden.root / "tri1" / "tree")
    convert = Converter(mono, tri1, tree).convert_alignment
    for utt, tids in list(golden.alignments("mono_ali").items())[:10]:
        ones = np.ones((len(tids), 1), np.float32)
        old = accumulate([(utt, tids, ones)], mono, Context())
        new = accumulate([(utt, convert(utt, tids), ones)], tri1, Context())
        np.testing.assert_array_equal(old.events, new.events)
        counts = np.bincount(tri1.pdf[convert(utt, tids)], minlength=tri1.num_pdfs)
        expected = np.bincount(tree.pdfs(old.events), old.sums[:, 0], tri1.num_pdfs)
        np.testing.assert_array_equal(counts, expected)


@pytest.mark.slow
def test_first_mixtures_are_as_likely_as_their_statistics() -> None:
    golden = golden_gmms()
    model, _ = golden.model("mono/final.mdl")
    alignments = golden.alignments("mono_ali")
    names = [utt for utt in golden.features if utt in alignments]
    aligned = [(utt, alignments[utt], golden.features[utt]) for utt in names]
    statistics = accumulate(aligned, model, Context(3, 1, frozenset({1})))
    tree = read_tree(golden.root / "tri1" / "tree")
    mixtures, frames = init_mixtures(tree, statistics)
    leaf_of = tree.pdfs(statistics.events)
    expected = sum(
        float(objective(statistics.sums[leaf_of == leaf].sum(0))) for leaf in np.unique(leaf_of)
    )
    transitions = derive_transitions(tree, model.topology)
    converter = Converter(model, transitions, tree)
    total = 0.0
    for utt, tids, x in aligned:
        pdfs = transitions.pdf[converter.convert_alignment(utt, tids)]
        total += float(log_likelihoods(mixtures, x)[np.arange(len(x)), pdfs].sum(dtype=float))
    assert frames.sum() == sum(len(x) for _, _, x in aligned)
    assert total / frames.sum() == pytest.approx(expected / frames.sum(), abs=1e-3)


def test_leaves_without_frames_get_the_gaussian_of_all(messages: Callable[[], str]) -> None:
    statistics = random_statistics(3, 0)
    tree = Tree(3, 1, Table(1, (None, Leaf(0), Leaf(1), Leaf(2), Leaf(3))))
    mixtures, frames = init_mixtures(tree, statistics)
    assert frames[3] == 0
    assert "pdfs [3] have no frames" in messages()
    total = statistics.sums.sum(0)
    np.testing.assert_allclose(mixtures.means[3], total[1:4] / total[0], rtol=1e-4)


def test_what_does_not_belong_together_is_named() -> None:
    statistics, topology = random_statistics(2, 0), topology_of(2)
    questions = compile_questions([(1,), (2,)], topology, 3)
    roots = [Root((1,)), Root((2,))]
    tree = build_tree(statistics, questions, roots, topology, TreeOptions(8))
    model = derive_transitions(tree, topology)
    assert model.num_pdfs == len(set(find_leaves(tree.root, statistics.events)))
    other = derive_transitions(
        build_tree(statistics, questions, roots, topology_of(2, states=3), TreeOptions(8)),
        topology_of(2, states=3),
    )
    with pytest.raises(InputError, match="phone 1 has other states"):
        Converter(other, model, tree)
    with pytest.raises(InputError, match="the tree has no pdf for state 0 of phone 3"):
        derive_transitions(tree, topology_of(3))
    split = replace(topology[1][0], self_loop_class=1)
    assert isinstance(split, TopologyState)
    with pytest.raises(InputError, match="state 0 of phone 1 one pdf-class, and its self-loop"):
        derive_transitions(tree, {**topology, 1: (split, *topology[1][1:])})

"""The first model, which Kaldi's gmm-init-mono has made of the same features."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from bayes_asr.base.errors import InputError
from bayes_asr.gmm.monophones import build_shared_tree, init_monophones
from bayes_asr.kaldi_io.context_dependency import Leaf, Split, Table
from bayes_asr.kaldi_io.initial_mdl import build_monophone_model
from bayes_asr.kaldi_io.mdl import read_transition_model
from bayes_asr.kaldi_io.tree import write_tree
from tests.support.mixtures import golden_gmms


def read_sets(path: Path) -> list[list[int]]:
    return [[int(phone) for phone in line.split()] for line in path.read_text().splitlines()]


def test_first_model_is_kaldis(kaldi_corpus: Callable[[str], Path], tmp_path: Path) -> None:
    golden = golden_gmms()
    transitions, mixtures = golden.model("mono/0.mdl")
    sets = read_sets(kaldi_corpus("timit_sample") / "data" / "lang" / "phones" / "sets.int")
    ten = [golden.features[utt] for utt in sorted(golden.features)[:10]]
    tree, ours, first = init_monophones(transitions.topology, sets, ten, "train")
    write_tree(tree, tmp_path / "tree")
    assert (tmp_path / "tree").read_bytes() == (golden.root / "mono" / "tree").read_bytes()
    for name in ("pdf", "phone", "tuples", "log_prob"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(transitions, name))
    for name in ("weights", "gconsts", "variances"):
        np.testing.assert_allclose(getattr(first, name), getattr(mixtures, name), rtol=1e-5)
    np.testing.assert_allclose(first.means, mixtures.means, rtol=0, atol=1e-5)
    assert first.offsets.tolist() == mixtures.offsets.tolist()


def test_first_tree_and_transitions_of_word_positions_are_kaldis(
    kaldi_corpus: Callable[[str], Path], tmp_path: Path
) -> None:
    root = kaldi_corpus("an4")
    theirs = read_transition_model(root / "exp" / "mono_ali" / "final.mdl")
    sets = read_sets(root / "data" / "lang" / "phones" / "sets.int")
    tree, ours, _ = init_monophones(theirs.topology, sets, [np.eye(3)], "train")
    write_tree(tree, tmp_path / "tree")
    assert (tmp_path / "tree").read_bytes() == (root / "exp" / "mono" / "tree").read_bytes()
    np.testing.assert_array_equal(ours.tuples, theirs.tuples)


def test_phones_of_a_set_share_their_pdfs() -> None:
    topology = build_monophone_model([1, 2, 3, 4], {1: 2, 2: 1, 3: 1, 4: 3}).topology
    tree = build_shared_tree(topology, [[1, 2], [3], [4]])
    assert tree.root == Split(
        0,
        frozenset({1, 2}),
        Table(-1, (Leaf(0), Leaf(1))),
        Table(0, (None, None, None, Table(-1, (Leaf(2),)), Table(-1, (Leaf(3), Leaf(4), Leaf(5))))),
    )
    _, transitions, _ = init_monophones(topology, [[1, 2], [3], [4]], [np.eye(2)], "train")
    assert transitions.tuples[:, :3].tolist() == [
        *([1, 0, 0], [1, 1, 1], [2, 0, 0], [3, 0, 2]),
        *([4, 0, 3], [4, 1, 4], [4, 2, 5]),
    ]


@pytest.mark.parametrize(
    ("sets", "strange"), [([[1], [1, 2]], [1]), ([[1]], [2]), ([[1], [2], [9]], [9]), ([], [1, 2])]
)
def test_sets_that_do_not_fit_the_topology_are_named(
    sets: list[list[int]], strange: list[int]
) -> None:
    with pytest.raises(InputError) as error:
        build_shared_tree(build_monophone_model([1, 2]).topology, sets)
    assert f"2 in the topology: {strange} are not once in each" in str(error.value)


def test_features_that_do_not_vary_are_refused() -> None:
    topology = build_monophone_model([1]).topology
    with pytest.raises(
        InputError, match="train: feature 1 of 2 has the variance 0 over the 3 frames"
    ):
        init_monophones(topology, [[1]], [np.array([[1.0, 5.0], [2.0, 5.0], [3.0, 5.0]])], "train")
    with pytest.raises(InputError, match="train: no features to begin with"):
        init_monophones(topology, [[1]], [], "train")

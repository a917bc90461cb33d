"""Trees, against trees grown by trying every question on every leaf, one after the other."""

import numpy as np
import pytest

from bayes_asr.base.errors import InputError
from bayes_asr.gmm.clusterable import objective
from bayes_asr.gmm.questions import compile_questions
from bayes_asr.gmm.roots import Root
from bayes_asr.gmm.splitting import TreeOptions, build_tree
from bayes_asr.gmm.tree_statistics import TreeStatistics
from bayes_asr.kaldi_io.context_dependency import ABSENT, PDF_CLASS, Leaf, Split, iter_leaves
from bayes_asr.kaldi_io.qst import Questions
from tests.support.event_sums import random_statistics, topology_of

SETS = [(1,), (2,), (3,), (4,), (1, 2), (3, 4), (2, 3)]
ROOTS = [Root((1,)), Root((2, 3)), Root((4,))]
EACH = [Root((phone,)) for phone in range(1, 5)]
TOPOLOGY = topology_of(4)
QUESTIONS = compile_questions(SETS, TOPOLOGY, 3)


def value(statistics: TreeStatistics, rows: np.ndarray) -> float:
    return float(objective(statistics.sums[rows].sum(0)))


def best_split(
    statistics: TreeStatistics, rows: np.ndarray, questions: Questions
) -> tuple[float, np.ndarray, np.ndarray]:
    best = (0.0, rows, rows[:0])
    for key in sorted(questions):
        for asked in questions[key]:
            yes = np.isin(statistics.events[rows, 1 + key], asked)
            parts = rows[yes], rows[~yes]
            if len(parts[0]) and len(parts[1]):
                gain = sum(value(statistics, part) for part in parts) - value(statistics, rows)
                best = max(best, (gain, *parts), key=lambda found: found[0])
    return best


def grow(statistics: TreeStatistics, roots: list[Root], leaves: int) -> set[frozenset[int]]:
    """The events of each leaf, by brute force; without merging."""
    parts = [np.flatnonzero(np.isin(statistics.phones, root.phones)) for root in roots]
    splits = [best_split(statistics, rows, QUESTIONS) for rows in parts]
    while len(parts) < leaves:
        number = max(range(len(parts)), key=lambda n: splits[n][0])
        _, yes, no = splits[number]
        for rows in (yes, no):
            parts.append(rows)
            splits.append(best_split(statistics, rows, QUESTIONS))
        del parts[number], splits[number]
    return {frozenset(rows.tolist()) for rows in parts}


def events_of_leaves(leaf_of: np.ndarray) -> set[frozenset[int]]:
    return {frozenset(np.flatnonzero(leaf_of == leaf).tolist()) for leaf in np.unique(leaf_of)}


@pytest.mark.parametrize("seed", range(3))
def test_every_split_is_the_best(seed: int) -> None:
    statistics = random_statistics(4, seed, kept=0.8)
    tree = build_tree(
        statistics,
        QUESTIONS,
        ROOTS,
        TOPOLOGY,
        TreeOptions(leaves=12, cluster_threshold=0, rounded=False),
    )
    ours = events_of_leaves(tree.pdfs(statistics.events))
    assert ours == grow(statistics, ROOTS, 12)
    assert sorted(set(iter_leaves(tree.root))) == list(range(12))


def test_no_split_gains_less_than_the_threshold() -> None:
    statistics = random_statistics(4, 0)
    tree = build_tree(
        statistics,
        QUESTIONS,
        ROOTS,
        TOPOLOGY,
        TreeOptions(leaves=0, threshold=2000, cluster_threshold=0, rounded=False),
    )
    leaf_of = tree.pdfs(statistics.events)
    for leaf in np.unique(leaf_of):
        rows = np.flatnonzero(leaf_of == leaf)
        assert best_split(statistics, rows, QUESTIONS)[0] < 2001
    everything = sum(value(statistics, np.flatnonzero(leaf_of == n)) for n in np.unique(leaf_of))
    alone = [np.flatnonzero(np.isin(statistics.phones, root.phones)) for root in ROOTS]
    gained = everything - sum(value(statistics, rows) for rows in alone)
    assert gained > 2000 * (len(np.unique(leaf_of)) - 3)


def test_merging_leaves_a_multiple_of_eight_and_no_root_is_lost() -> None:
    statistics = random_statistics(4, 0)
    tree = build_tree(
        statistics, QUESTIONS, ROOTS, TOPOLOGY, TreeOptions(leaves=21, cluster_threshold=0)
    )
    leaf_of = tree.pdfs(statistics.events)
    assert sorted(set(leaf_of.tolist())) == list(range(16))
    for leaf in range(16):
        phones = set(statistics.phones[leaf_of == leaf].tolist())
        assert any(phones <= set(root.phones) for root in ROOTS)


def test_the_smallest_split_is_what_merging_may_cost() -> None:
    statistics = random_statistics(4, 1)

    def leaves(cluster_threshold: float | None) -> int:
        tree = build_tree(
            statistics,
            QUESTIONS,
            EACH,
            TOPOLOGY,
            TreeOptions(leaves=20, rounded=False, cluster_threshold=cluster_threshold),
        )
        return len(set(iter_leaves(tree.root)))

    assert leaves(1e9) == 4 < leaves(None) <= leaves(0) == 20


def test_phones_that_are_not_split_keep_their_leaf() -> None:
    statistics = random_statistics(4, 0)
    roots = [Root((1,), split=False), Root((2, 3)), Root((4,), shared=False, split=False)]
    tree = build_tree(statistics, QUESTIONS, roots, TOPOLOGY, TreeOptions(leaves=0, rounded=False))
    leaf_of = tree.pdfs(statistics.events)
    assert len(np.unique(leaf_of[statistics.phones == 1])) == 1
    for pdf_class in (0, 1):
        rows = (statistics.phones == 4) & (statistics.pdf_classes == pdf_class)
        assert len(np.unique(leaf_of[rows])) == 1


def test_the_context_of_independent_phones_is_not_asked_for() -> None:
    statistics = random_statistics(4, 0)
    alone = statistics.phones == 1
    statistics.events[np.ix_(alone, [1, 3])] = ABSENT
    tree = build_tree(statistics, QUESTIONS, EACH, TOPOLOGY, TreeOptions(leaves=0, rounded=False))
    classes = statistics.pdf_classes[alone]
    leaf_of = tree.pdfs(statistics.events[alone])
    assert len(set(zip(leaf_of, classes, strict=True))) == 2
    node = tree.root.children[1]  # type: ignore[union-attr]
    assert isinstance(node, Split)
    assert node.key == PDF_CLASS
    with pytest.raises(InputError, match="the tree has no pdf"):  # they cannot share a root
        build_tree(
            statistics, QUESTIONS, [Root((1, 2, 3, 4))], TOPOLOGY, TreeOptions(leaves=0)
        ).pdfs(np.array([[0, ABSENT, 2, ABSENT]]))


def test_roots_without_frames_keep_a_leaf() -> None:
    statistics = random_statistics(3, 0)
    roots = [Root((1,)), Root((2,)), Root((3,)), Root((4,))]
    tree = build_tree(statistics, QUESTIONS, roots, TOPOLOGY, TreeOptions(leaves=10, rounded=False))
    assert tree.root.children[4] == Leaf(3)  # type: ignore[union-attr]


def test_a_phone_without_a_root_is_named() -> None:
    with pytest.raises(InputError, match=r"phones \[3, 4\] are aligned, but have no root"):
        build_tree(random_statistics(4, 0), QUESTIONS, EACH[:2], TOPOLOGY, TreeOptions(leaves=0))

"""Decision trees that are grown by the questions of greatest gain, as by Kaldi's build-tree.

All events of a leaf are summed for each value of a position, and one matrix product then answers
all questions about that position.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import chain

import numpy as np

from bayes_asr.base.errors import InputError
from bayes_asr.base.log import LOGGER
from bayes_asr.gmm.clusterable import merge_clusters, objective, sum_by
from bayes_asr.gmm.linear_algebra import multiply
from bayes_asr.gmm.roots import Root, build_stub
from bayes_asr.gmm.tree_statistics import TreeStatistics
from bayes_asr.kaldi_io.context_dependency import (
    ABSENT,
    Leaf,
    Node,
    Split,
    Tree,
    find_leaves,
    iter_leaves,
    replace_leaves,
)
from bayes_asr.kaldi_io.qst import Questions
from bayes_asr.kaldi_io.transition_model import Topology, pdf_class_counts

MIN_GAIN = 300.0  # in log-likelihood, of a split
NO_SPLIT = 1e20  # the smallest gain where nothing was split
MULTIPLE = 8  # of which the number of leaves is one


@dataclass(frozen=True)
class TreeOptions:
    """Options of Kaldi's build-tree: --max-leaves, --thresh, --cluster-thresh, --round-num-leaves.

    leaves: at most, 0: no limit; threshold: in log-likelihood, that a split has to gain;
    cluster_threshold: the most that merging two leaves of a root may cost (None: the gain of the
    smallest split; 0: nothing is merged); rounded: merge on to a multiple of eight leaves.
    """

    leaves: int
    threshold: float = MIN_GAIN
    cluster_threshold: float | None = None
    rounded: bool = True


@dataclass(eq=False)
class _Branch:
    """A leaf while the tree grows: its events, its best split, and its children once it is split.

    yes_set: the values for which its question is answered by yes; order: of branches with equal
    gains the one of the smallest order is split: the later root, then yes before no.
    """

    number: int
    rows: np.ndarray
    order: tuple[int, ...]
    gain: np.float32
    key: int
    yes_set: frozenset[int]
    children: "tuple[_Branch, _Branch] | None" = None

    def __lt__(self, other: "_Branch") -> bool:
        return (-self.gain, self.order) < (-other.gain, other.order)

    def freeze(self) -> Node:
        """The subtree that has grown from this leaf."""
        if self.children is None:
            return Leaf(self.number)
        yes, no = self.children
        return Split(self.key, self.yes_set, yes.freeze(), no.freeze())


class _QuestionScorer:
    """Finds the best question about the events of a leaf."""

    def __init__(self, statistics: TreeStatistics, questions: Questions) -> None:
        self.statistics = statistics
        self.questions = questions
        largest = (max(chain(*sets), default=0) for sets in questions.values())
        values = 1 + max(int(statistics.events.max(initial=0)), *largest)
        self.answers = {
            key: _tabulate(sets, values) for key, sets in sorted(questions.items()) if sets
        }

    def branch(self, number: int, rows: np.ndarray, order: tuple[int, ...]) -> _Branch:
        """A leaf of the events `rows`, with its best question, the first of equal ones."""
        best = _Branch(number, rows, order, np.float32(0), 0, frozenset())
        for key, answers in self.answers.items():
            # Column 0 is the pdf-class, whose key is -1; the positions of the window follow.
            values = self.statistics.events[rows, 1 + key]
            if len(rows) < 2 or values.min() == ABSENT:
                continue
            gains = self._gains(rows, values, answers)
            question = int(np.argmax(gains))
            if gains[question] > best.gain:
                best.gain, best.key = gains[question], key
                best.yes_set = frozenset(self.questions[key][question])
        return best

    def divide(self, branch: _Branch, new: int) -> tuple[_Branch, _Branch]:
        """The children of a branch by its question: yes keeps its number, no gets the `new` one."""
        values = self.statistics.events[branch.rows, 1 + branch.key]
        yes = np.isin(values, list(branch.yes_set))
        return (
            self.branch(branch.number, branch.rows[yes], (*branch.order, 0)),
            self.branch(new, branch.rows[~yes], (*branch.order, 1)),
        )

    def _gains(self, rows: np.ndarray, values: np.ndarray, answers: np.ndarray) -> np.ndarray:
        """Gains float32 [Q] of the questions with the `answers` [Q, V] to all values."""
        distinct, by_value = sum_by(values, self.statistics.sums[rows])
        total = by_value.sum(0)
        yes = multiply(answers[:, distinct], by_value)
        # L(no) + L(yes) - L(all), in one call: calls cost more time than elements.
        objectives = objective(np.concatenate((total - yes, yes, total[None])))
        return objectives[: len(yes)] + objectives[len(yes) : -1] - objectives[-1]


def _tabulate(sets: Sequence[Sequence[int]], values: int) -> np.ndarray:
    """Whether each of `values` is in each of Q sets: 0 or 1 [Q, values]."""
    answers = np.zeros((len(sets), values))
    for number, members in enumerate(sets):
        answers[number, list(members)] = 1
    return answers


def build_tree(
    statistics: TreeStatistics,
    questions: Questions,
    roots: Sequence[Root],
    topology: Topology,
    options: TreeOptions,
) -> Tree:
    """Split the roots, then merge leaves of one root (build-tree).

    InputError for a phone in the statistics that has no root.
    """
    context = statistics.context
    stub = build_stub(roots, pdf_class_counts(topology), context.center)
    _check_phones(statistics, roots)
    # Phase 1 of build-tree: split. Phase 2: merge what costs no more than the worst split gained.
    root, smallest = _split(statistics, questions, roots, stub, options)
    grown = _count_leaves(root)
    root_of = find_leaves(stub, statistics.events)
    threshold = options.cluster_threshold
    cost = smallest if threshold is None else np.float32(threshold)
    if cost > 0:
        root = _merge(root, statistics, root_of, cost, 0)
    # Phase 3: merge on to a multiple of eight, whatever it costs.
    # Kaldi counts roots without events as leaves, and merges nothing where roots would get none.
    used_roots = len(np.unique(root_of))
    least = _count_leaves(root) // MULTIPLE * MULTIPLE - (1 + root_of.max() - used_roots)
    if options.rounded and least >= used_roots:
        root = _merge(root, statistics, root_of, np.float32(np.inf), least)
    LOGGER.info("the tree has %d leaves, of %d before merging", _count_leaves(root), grown)
    return Tree(context.width, context.center, _renumber(root))


def _check_phones(statistics: TreeStatistics, roots: Sequence[Root]) -> None:
    rooted = {phone for root in roots for phone in root.phones}
    strangers = sorted(set(np.unique(statistics.phones).tolist()) - rooted)
    if strangers:
        raise InputError(
            f"phones {strangers} are aligned, but have no root; name every phone in roots.int"
        )


def _split(
    statistics: TreeStatistics,
    questions: Questions,
    roots: Sequence[Root],
    stub: Node,
    options: TreeOptions,
) -> tuple[Node, np.float32]:
    """Split the leaves of `stub`; the tree and the smallest gain."""
    fixed = [phone for root in roots if not root.split for phone in root.phones]
    # Events of roots that are not split stay in their leaf of the stub.
    rows = np.flatnonzero(~np.isin(statistics.phones, fixed))
    leaf_of = find_leaves(stub, statistics.events[rows])
    asker = _QuestionScorer(statistics, questions)
    grown = {
        leaf: asker.branch(leaf, rows[leaf_of == leaf], (-leaf,)) for leaf in np.unique(leaf_of)
    }
    heap = list(grown.values())
    heapify(heap)
    count, smallest = _count_leaves(stub), np.float32(NO_SPLIT)
    threshold, limit = np.float32(options.threshold), options.leaves
    while heap and heap[0].gain > threshold and (limit <= 0 or count < limit):
        branch = heappop(heap)
        smallest = min(smallest, branch.gain)
        branch.children = asker.divide(branch, count)
        for child in branch.children:
            heappush(heap, child)
        count += 1
    return replace_leaves(stub, {leaf: top.freeze() for leaf, top in grown.items()}), smallest


def _merge(
    root: Node, statistics: TreeStatistics, root_of: np.ndarray, threshold: np.float32, least: int
) -> Node:
    """Merge leaves, those of events with equal `root_of` [E], and leave at least `least`."""
    leaf_of = find_leaves(root, statistics.events)
    leaves, sums = sum_by(leaf_of, statistics.sums)
    # The root of each leaf is that of its first event; leaves of different roots never merge.
    roots = root_of[np.unique(leaf_of, return_index=True)[1]]
    groups = [roots == number for number in np.unique(roots)]
    numbers = merge_clusters([sums[group] for group in groups], threshold, least)
    new = {
        leaf: Leaf(into)
        for group, number in zip(groups, numbers, strict=True)
        for leaf, into in zip(leaves[group].tolist(), leaves[group][number].tolist(), strict=True)
    }
    return replace_leaves(root, new)


def _count_leaves(root: Node) -> int:
    return len(set(iter_leaves(root)))


def _renumber(root: Node) -> Node:
    """Number the leaves without gaps, in the order of their numbers."""
    order = sorted(set(iter_leaves(root)))
    return replace_leaves(root, {old: Leaf(new) for new, old in enumerate(order)})

"""Questions of decision trees: sets of phones that sound alike, found by clustering.

As Kaldi's cluster-phones and compile-questions.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bayes_asr.base.errors import InputError
from bayes_asr.base.log import LOGGER
from bayes_asr.gmm.clusterable import split_in_two, sum_by
from bayes_asr.gmm.randomness import Random
from bayes_asr.gmm.tree_statistics import TreeStatistics
from bayes_asr.kaldi_io.binary import INTEGER, iter_lines
from bayes_asr.kaldi_io.context_dependency import PDF_CLASS
from bayes_asr.kaldi_io.qst import Questions
from bayes_asr.kaldi_io.transition_model import Topology, pdf_class_counts

MIDDLE = (1,)  # the middle one of three pdf-classes, by which phones are compared
Phones = tuple[int, ...]


class _Cluster(NamedTuple):
    """A cluster of the top-down tree: its points, what its best split gains, and their halves."""

    points: np.ndarray
    gain: np.float32
    halves: np.ndarray


def cluster_phones(
    statistics: TreeStatistics,
    phone_sets: Sequence[Phones],
    random: Random,
    pdf_classes: Sequence[int] = MIDDLE,
) -> list[Phones]:
    """Cluster sets of phones from the top down; return the clusters of all sizes, then the sets.

    Phones are compared by the frames of `pdf_classes`; clusters start from `random` numbers. As
    AutomaticallyObtainQuestions (tree/build-tree.cc). InputError where a phone is in two sets.
    """
    sets = [tuple(sorted(phones)) for phones in phone_sets]
    listed = [phone for phones in sets for phone in phones]
    if len(set(listed)) < len(listed) or not listed:
        raise InputError("a phone is in two of the sets of phones, or there are none; correct them")
    selected = np.isin(statistics.pdf_classes, pdf_classes)
    phones, sums = sum_by(statistics.phones[selected], statistics.sums[selected])
    # One point per set; a set without frames is a row of zeros, and joins any cluster for free.
    points = np.stack([sums[np.isin(phones, members)].sum(0) for members in sets])
    if np.count_nonzero(points[:, 0]) < 2:
        LOGGER.warning(
            "phones are compared by pdf-classes %s, of which less than two sets of phones have any"
            " frames: no phones are found to sound alike",
            list(pdf_classes),
        )
    clusters = [
        tuple(sorted(phone for point in members for phone in sets[point]))
        for members in _cluster_top_down(points, random)
    ]
    return list(dict.fromkeys([*clusters, *sets]))


def _cluster_top_down(points: np.ndarray, random: Random) -> list[np.ndarray]:
    """Split a cluster in two again and again, the best split first; return the points of each.

    Larger clusters come first, and all points together are none (TreeCluster, ObtainSetsOfPhones).
    """
    leaves = [_find_split(np.arange(len(points)), points, random)]
    inner = []
    while True:
        number = max(range(len(leaves)), key=lambda leaf: leaves[leaf].gain)
        cluster = leaves[number]
        if not cluster.gain > 0:
            break
        inner.append(cluster.points)
        left_half, right_half = (
            _find_split(cluster.points[cluster.halves == half], points, random) for half in (0, 1)
        )
        leaves[number] = left_half
        leaves.append(right_half)
    # inner[0] holds all points, which is no question.
    return [*inner[1:], *(leaf.points for leaf in reversed(leaves))]


def _find_split(members: np.ndarray, points: np.ndarray, random: Random) -> _Cluster:
    if len(members) < 2:
        return _Cluster(members, np.float32(0), np.zeros(len(members), np.int64))
    return _Cluster(members, *split_in_two(points[members], random))


def compile_questions(sets: Iterable[Sequence[int]], topology: Topology, width: int) -> Questions:
    """Return the questions of a tree over windows of `width` phones: `sets` at every position.

    The pdf-class is asked whether it is among the first ones. InputError for a phone that is not
    in `topology`.
    """
    phone_sets = tuple(sorted({tuple(sorted(phones)) for phones in sets}))
    strangers = {phone for phones in phone_sets for phone in phones} - set(topology)
    if strangers:
        raise InputError(
            f"phones {sorted(strangers)} are asked for, but the topology has no such phones; remove"
            " them from the questions"
        )
    classes = range(1, max(pdf_class_counts(topology).values()))
    questions: Questions = {PDF_CLASS: tuple(tuple(range(count)) for count in classes)}
    return {**questions, **dict.fromkeys(range(width), phone_sets)}


def read_phone_sets(path: Path) -> list[Phones]:
    """Read a file of sets of phone ids, one a line (`sets.int`, `extra_questions.int`)."""
    sets = []
    for number, fields in iter_lines(path):
        if not all(map(INTEGER.fullmatch, fields)):
            raise InputError(f"{path}, line {number}: phone ids are due, not {' '.join(fields)!r}")
        sets.append(tuple(map(int, fields)))
    return sets

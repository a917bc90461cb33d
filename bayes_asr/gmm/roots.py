"""Roots of decision trees: the phones that share one, and those that are not split."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bayes_asr.base.errors import InputError
from bayes_asr.kaldi_io.binary import INTEGER, iter_lines
from bayes_asr.kaldi_io.context_dependency import PDF_CLASS, Leaf, Node, Split, Table


@dataclass(frozen=True)
class Root:
    """The root of some phones, ascending; `shared` by all pdf-classes, or one of each.

    split: whether their states are told apart by questions.
    """

    phones: tuple[int, ...]
    shared: bool = True
    split: bool = True


def read_roots(path: Path) -> list[Root]:
    """Read Kaldi's `roots.int`; InputError where a line is none, or a phone has two roots."""
    roots: list[Root] = []
    rooted: set[int] = set()
    for number, fields in iter_lines(path):
        shared, split, phones = fields[0], fields[1:2], fields[2:]
        if (
            shared not in ("shared", "not-shared")
            or split not in (["split"], ["not-split"])
            or not phones
            or not all(map(INTEGER.fullmatch, phones))
        ):
            raise InputError(
                f"{path}, line {number}: `shared split 1 2 ...` is due, or not-shared, not-split,"
                f" not {' '.join(fields)[:60]!r}"
            )
        ids = sorted(map(int, phones))
        if ids[0] < 1 or len(set(ids)) < len(ids) or rooted & set(ids):
            raise InputError(
                f"{path}, line {number}: a phone is repeated, or below 1; give each one root"
            )
        rooted |= set(ids)
        roots.append(Root(tuple(ids), shared == "shared", split == ["split"]))
    if not roots:
        raise InputError(f"{path}: holds no roots; write one line for each set of phones")
    return roots


def build_stub(roots: Sequence[Root], pdf_classes: Mapping[int, int], center: int) -> Node:
    """Return a tree with a leaf for each root, or for each pdf-class where a root is not shared.

    `pdf_classes`: how many each phone has; `center`: the position of the phone. As GetStubMap
    (tree/build-tree-utils.cc). InputError for a phone that has no pdf-classes.
    """
    phones = [phone for root in roots for phone in root.phones]
    strangers = sorted(set(phones) - set(pdf_classes))
    if strangers:
        raise InputError(
            f"phones {strangers} have roots, but the topology has no such phones; make the roots"
            " and the topology of the same phones"
        )
    sizes = [
        1 if root.shared else max(pdf_classes[phone] for phone in root.phones) for root in roots
    ]
    # Leaves are numbered in the order of the roots.
    begins = [sum(sizes[:number]) for number in range(len(roots))]
    subtrees = [
        (root, _build_root(root, range(begin, begin + size)))
        for root, begin, size in zip(roots, begins, sizes, strict=True)
    ]
    return _join(subtrees, center)


def _build_root(root: Root, leaves: range) -> Node:
    if root.shared:
        return Leaf(leaves[0])
    return Table(PDF_CLASS, tuple(map(Leaf, leaves)))


def _join(subtrees: Sequence[tuple[Root, Node]], center: int) -> Node:
    """Ask for the phone: by a table where it is dense enough, by halves otherwise."""
    if len(subtrees) == 1:
        return subtrees[0][1]
    largest = max(root.phones[-1] for root, _ in subtrees)
    if all(len(root.phones) == 1 for root, _ in subtrees) and len(subtrees) <= 2 * largest:
        of_phone = {root.phones[0]: node for root, node in subtrees}
        return Table(center, tuple(of_phone.get(phone) for phone in range(largest + 1)))
    # Kaldi splits here: the first half of the roots answers yes.
    half = len(subtrees) // 2
    phones = frozenset(phone for root, _ in subtrees[:half] for phone in root.phones)
    return Split(center, phones, _join(subtrees[:half], center), _join(subtrees[half:], center))

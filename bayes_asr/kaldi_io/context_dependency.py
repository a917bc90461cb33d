"""Context dependency: the pdf of an HMM state, given its phone and the phones around it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bayes_asr.base.errors import InputError
from bayes_asr.kaldi_io.transition_model import TransitionModel

PDF_CLASS = -1  # the key of a question about the pdf-class; others are positions in the window
ABSENT = -1  # the value of an event where nothing may be asked


@dataclass(frozen=True)
class Leaf:
    """CE, a constant: the answer."""

    pdf: int


@dataclass(frozen=True)
class Table:
    """TE, a table: one child for each value at `key`, None where the value cannot occur."""

    key: int
    children: tuple["Node | None", ...]


@dataclass(frozen=True)
class Split:
    """SE, a question: is the value at `key` one of `values`?"""

    key: int
    values: frozenset[int]
    yes: "Node"
    no: "Node"


Node = Leaf | Table | Split


@dataclass(frozen=True)
class Tree:
    """Context dependency: windows of N `width` phones, the phone itself at position P `center`."""

    width: int
    center: int
    root: Node

    def pdf(self, phones: Sequence[int], pdf_class: int) -> int:
        """Return the pdf-id of `pdf_class` in a window of phone ids (0 beyond an utterance)."""
        if len(phones) != self.width:
            raise ValueError(f"a window of {len(phones)} phones for a tree over {self.width}")
        # A question about the pdf-class has the key -1, which no position has.
        node: Node | None = self.root
        while not isinstance(node, Leaf):
            value = pdf_class if node is None or node.key == PDF_CLASS else phones[node.key]
            if isinstance(node, Split):
                node = node.yes if value in node.values else node.no
            elif node is not None and 0 <= value < len(node.children):
                node = node.children[value]
            else:
                raise InputError(f"the tree has no pdf of class {pdf_class} for phones {phones}")
        return node.pdf

    def pdfs(self, events: np.ndarray) -> np.ndarray:
        """Return the pdf-ids int64 [E] of events [E, 1 + N]: pdf-classes, then windows of phones.

        InputError for an event that the tree does not know.
        """
        return find_leaves(self.root, events)


def window_pdfs(window: Sequence[int], model: TransitionModel, tree: Tree) -> tuple[int, ...]:
    """The pdf of each pdf-class of the topology of the phone in the centre of `window`."""
    phone = window[tree.center]
    if phone not in model.topology:
        raise InputError(f"phone {phone} of the lexicon is not in the topology of the model")
    classes = [c for s in model.topology[phone] for c in (s.forward_class, s.self_loop_class)]
    return tuple(tree.pdf(window, pdf_class) for pdf_class in range(max(classes) + 1))


def find_leaves(root: Node, events: np.ndarray) -> np.ndarray:
    """Return the answer int64 [E] of the tree below `root` to each of `events` [E, 1 + N]."""
    answers = np.full(len(events), ABSENT, np.int64)
    # All events go down together, so that each question is asked once for all that reach it.
    open_: list[tuple[Node | None, np.ndarray]] = [(root, np.arange(len(events)))]
    while open_:
        node, rows = open_.pop()
        if isinstance(node, Leaf):
            answers[rows] = node.pdf
        elif node is not None and len(rows):
            open_ += _divide(node, rows, events[rows, 1 + node.key])
    unknown = np.flatnonzero(answers == ABSENT)
    if len(unknown):
        pdf_class, *phones = events[unknown[0]].tolist()
        raise InputError(f"the tree has no pdf of class {pdf_class} for phones {phones}")
    return answers


def iter_leaves(node: Node) -> Iterator[int]:
    """Yield the numbers of the leaves below `node`, one that is there twice each time."""
    if isinstance(node, Leaf):
        yield node.pdf
        return
    for child in (node.yes, node.no) if isinstance(node, Split) else node.children:
        if child is not None:
            yield from iter_leaves(child)


def replace_leaves(node: Node, new: Mapping[int, Node]) -> Node:
    """Return the tree below `node` with `new` nodes instead of the leaves of their numbers."""
    if isinstance(node, Leaf):
        return new.get(node.pdf, node)
    if isinstance(node, Split):
        yes, no = replace_leaves(node.yes, new), replace_leaves(node.no, new)
        return Split(node.key, node.values, yes, no)
    children = (None if child is None else replace_leaves(child, new) for child in node.children)
    return Table(node.key, tuple(children))


def _divide(
    node: Table | Split, rows: np.ndarray, values: np.ndarray
) -> list[tuple[Node | None, np.ndarray]]:
    """The children of `node`, each with those of `rows` that go there; ABSENT goes nowhere."""
    if isinstance(node, Split):
        yes = np.isin(values, list(node.values))
        return [(node.yes, rows[yes]), (node.no, rows[~yes & (values != ABSENT)])]
    valid = (value for value in np.unique(values) if 0 <= value < len(node.children))
    return [(node.children[value], rows[values == value]) for value in valid]


def build_monophone_tree(pdfs: Mapping[int, Sequence[int]]) -> Tree:
    """Return the tree without context: phone -> the pdf-ids of its pdf-classes 0, 1, ..."""
    tables = [
        Table(PDF_CLASS, tuple(Leaf(pdf) for pdf in pdfs[phone])) if phone in pdfs else None
        for phone in range(max(pdfs) + 1)
    ]
    return Tree(width=1, center=0, root=Table(0, tuple(tables)))

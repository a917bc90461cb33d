"""Roots of trees, against the tops of Kaldi's trees."""

from collections.abc import Callable
from pathlib import Path

import pytest

from bayes_asr.base.errors import InputError
from bayes_asr.gmm.roots import Root, build_stub, read_roots
from bayes_asr.kaldi_io.context_dependency import PDF_CLASS, Leaf, Node, Split, Table
from bayes_asr.kaldi_io.mdl import read_transition_model
from bayes_asr.kaldi_io.transition_model import pdf_class_counts
from bayes_asr.kaldi_io.tree import read_tree


def begins_with(tree: Node | None, stub: Node | None) -> bool:
    """Whether a tree is `stub`, but for what has grown from its leaves."""
    if isinstance(stub, Leaf):
        return tree is not None
    if isinstance(stub, Split):
        return (
            isinstance(tree, Split)
            and (tree.key, tree.values) == (stub.key, stub.values)
            and begins_with(tree.yes, stub.yes)
            and begins_with(tree.no, stub.no)
        )
    if isinstance(stub, Table):
        return (
            isinstance(tree, Table)
            and (tree.key, len(tree.children)) == (stub.key, len(stub.children))
            and all(map(begins_with, tree.children, stub.children))
        )
    return tree is None


@pytest.mark.parametrize("corpus", ["timit_sample", "an4"])
def test_kaldis_trees_grow_from_our_roots(kaldi_corpus: Callable[[str], Path], corpus: str) -> None:
    root = kaldi_corpus(corpus)
    roots = read_roots(root / "data" / "lang" / "phones" / "roots.int")
    folder = root / "exp" / "tri3_ali"
    topology = read_transition_model(folder / "final.mdl").topology
    stub = build_stub(roots, pdf_class_counts(topology), center=1)
    assert begins_with(read_tree(folder / "tree").root, stub)


def test_a_root_of_each_pdf_class() -> None:
    roots = [Root((1,)), Root((2, 4), shared=False), Root((3,), split=False)]
    assert build_stub(roots, {1: 3, 2: 2, 3: 3, 4: 3}, 1) == Split(
        1,
        frozenset({1}),
        Leaf(0),
        Split(1, frozenset({2, 4}), Table(PDF_CLASS, (Leaf(1), Leaf(2), Leaf(3))), Leaf(4)),
    )


def test_single_phones_are_found_by_a_table_unless_it_were_sparse() -> None:
    single = [Root((phone,)) for phone in (1, 3, 4)]
    table = Table(1, (None, Leaf(0), None, Leaf(1), Leaf(2)))
    assert build_stub(single, dict.fromkeys((1, 3, 4), 3), 1) == table


def test_roots_are_read(tmp_path: Path) -> None:
    path = tmp_path / "roots.int"
    path.write_text("shared split 2 1\nnot-shared not-split 3\n")
    assert read_roots(path) == [Root((1, 2)), Root((3,), shared=False, split=False)]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("share split 1\n", "line 1: .*'share split 1'"),
        ("shared split 1\nshared 2\n", "line 2: .*'shared 2'"),
        ("shared split\n", "line 1"),
        ("shared split sil\n", "line 1"),
        ("shared split 1 1\n", "line 1: a phone is repeated"),
        ("shared split 1\nshared split 2 1\n", "line 2: a phone is repeated"),
        ("shared split 0\n", "below 1"),
        ("", "holds no roots"),
    ],
)
def test_what_is_no_root_is_named(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "roots.int"
    path.write_text(text)
    with pytest.raises(InputError, match=f"roots.int.*{says}"):
        read_roots(path)


def test_phones_of_another_topology_are_named() -> None:
    with pytest.raises(InputError, match=r"phones \[2\] have roots"):
        build_stub([Root((1, 2))], {1: 3}, 1)

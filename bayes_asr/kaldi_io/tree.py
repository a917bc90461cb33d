"""Files of context dependency, Kaldi's `tree`."""

import struct
from pathlib import Path

from bayes_asr.base.files import replacing
from bayes_asr.kaldi_io.binary import KaldiReader, open_bytes, pack_int, pack_ints
from bayes_asr.kaldi_io.byte_reader import SPARSE
from bayes_asr.kaldi_io.context_dependency import (
    PDF_CLASS,
    Leaf,
    Node,
    Split,
    Table,
    Tree,
    iter_leaves,
)

WIDEST = 15  # windows of phones: graphs have a state for each window that words can make
DEEPEST = 200  # no tree of speech is that deep, and a deeper one would overrun the stack


def read_tree(path: Path) -> Tree:
    """Read a binary or text `tree`; InputError where it is truncated, damaged or no tree."""
    with open_bytes(Path(path)) as source:
        reader = KaldiReader(source)
        reader.expect("ContextDependency")
        width, center = reader.integer(), reader.integer()
        if not 0 <= center < width <= WIDEST:
            raise reader.fail(f"the phone is at {center} in a window of {width}, {WIDEST} at most")
        reader.expect("ToPdf")
        root = _read_node(reader, width, 0)
        reader.expect("EndContextDependency")
        if root is None:
            raise reader.fail("the tree is empty")
        leaves = [*iter_leaves(root)]
        # Pdf-ids count from 0, and each has a leaf: one far beyond is damage, and costs memory.
        largest = max(leaves, default=0)
        if largest >= max(SPARSE, len(leaves)):
            raise reader.fail(f"a leaf has the pdf-id {largest}; there are {len(leaves)} leaves")
        return Tree(width, center, root)


def write_tree(tree: Tree, path: Path) -> None:
    """Write `tree` in Kaldi's binary format, complete or not at all."""
    head = b"\0BContextDependency " + pack_int(tree.width) + pack_int(tree.center) + b"ToPdf "
    with replacing(Path(path)) as temporary:
        temporary.write_bytes(head + _pack_node(tree.root) + b"EndContextDependency ")


def _read_node(reader: KaldiReader, width: int, depth: int) -> Node | None:
    kind = reader.expect("NULL", "CE", "TE", "SE")
    if kind == "NULL":
        return None
    if kind == "CE":
        return Leaf(reader.count())
    key = reader.integer()
    if not PDF_CLASS <= key < width or depth > DEEPEST:
        raise reader.fail(f"a question about position {key} of {width}, {depth} questions deep")
    if kind == "TE":
        return _read_table(reader, key, width, depth)
    return _read_split(reader, key, width, depth)


def _read_table(reader: KaldiReader, key: int, width: int, depth: int) -> Table:
    size = reader.count()
    reader.expect("(")
    children = tuple(_read_node(reader, width, depth + 1) for _ in range(size))
    reader.expect(")")
    return Table(key, children)


def _read_split(reader: KaldiReader, key: int, width: int, depth: int) -> Split:
    values = frozenset(reader.integers().tolist())
    reader.expect("{")
    yes, no = _read_node(reader, width, depth + 1), _read_node(reader, width, depth + 1)
    reader.expect("}")
    if yes is None or no is None:
        raise reader.fail(f"a question without an answer before offset {reader.source.position}")
    return Split(key, values, yes, no)


def _pack_node(node: Node | None) -> bytes:
    if node is None:
        return b"NULL "
    if isinstance(node, Leaf):
        return b"CE " + pack_int(node.pdf)
    if isinstance(node, Table):
        children = b"".join(map(_pack_node, node.children))
        # A table's size is unsigned, which Kaldi marks by the width -4.
        size = struct.pack("<bI", -4, len(node.children))
        return b"TE " + pack_int(node.key) + size + b"( " + children + b") "
    answers = _pack_node(node.yes) + _pack_node(node.no)
    values = pack_ints(sorted(node.values))
    return b"SE " + pack_int(node.key) + values + b"{ " + answers + b"} "

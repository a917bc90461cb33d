"""Topologies, trees and tables of symbols that contradict themselves, or would cost memory."""

import struct
from contextlib import nullcontext
from pathlib import Path

import pytest

from bayes_asr.base.errors import InputError
from bayes_asr.kaldi_io.mdl import read_topology
from bayes_asr.kaldi_io.symbols import read_symbols
from bayes_asr.kaldi_io.tree import read_tree

FIRST = "<State> 0 <PdfClass> 0 <Transition> 0 0.75 <Transition> 1 0.25 </State>"
LAST = "<State> 1 </State>"


def entry(*states: str, phones: str = "1 2") -> str:
    return f"<TopologyEntry> <ForPhones> {phones} </ForPhones> {' '.join(states)} </TopologyEntry>"


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ("", "the topology has no phones"),
        (entry(FIRST, LAST, phones=""), "the topology has no phones"),
        (
            f"{entry(FIRST, LAST)} {entry(FIRST, LAST, phones='')}",
            "no phones in one of its entries",
        ),
        (f"{entry(FIRST, LAST)} {entry(FIRST, LAST, phones='3 2')}", "phone 2 twice"),
        (entry(FIRST, LAST, phones="3 3"), "phone 3 twice"),
        (entry(FIRST, LAST, phones="2000000000"), "phone 2000000000"),
        (entry(FIRST, LAST, phones="0"), "phone 0"),
        (entry(), "an entry of 0 states|a topology entry of 0 states"),
        (entry("<State> 0 </State>"), "a topology entry of 1 states"),
        (entry("<State> 0 <PdfClass> 0 <Transition> 0 1 </State>", LAST), "not all on a path"),
        (entry(FIRST.replace("PdfClass> 0", "PdfClass> 2000000000"), LAST), r"\[2000000000\]"),
        (entry(FIRST, "<State> 1 <PdfClass> 1 </State>"), "is the last"),
        (entry(FIRST, "<State> 1 <Transition> 1 1 </State>"), "without a pdf-class|is the last"),
        (entry(FIRST.replace("Transition> 1", "Transition> 7"), LAST), "goes to state 7"),
        (entry(FIRST.replace("Transition> 1", "Transition> 0"), LAST), "twice"),
        (entry(FIRST.replace("<PdfClass> 0", ""), LAST), "without a pdf-class"),
    ],
)
def test_topology_that_no_phone_can_have_is_refused(
    entries: str, said: str, tmp_path: Path
) -> None:
    path = tmp_path / "topo"
    path.write_text(f"<Topology> {entries} </Topology>\n")
    with pytest.raises(InputError, match=f"topo: .*({said})"):
        read_topology(path)


@pytest.mark.parametrize(("unused", "refused"), [(0, False), (1, True)])
def test_binary_topology_with_an_entry_of_no_phone_is_refused(
    unused: int, refused: bool, tmp_path: Path
) -> None:
    def number(value: int) -> bytes:
        return struct.pack("<bi", 4, value)

    moves = b"".join(number(to) + struct.pack("<bf", 4, p) for to, p in ((0, 0.75), (1, 0.25)))
    states = number(2) + number(0) + number(2) + moves + number(-1) + number(0)
    phones = struct.pack("<bi2i", 4, 2, 1, 2) + struct.pack("<bi3i", 4, 3, -1, 0, 0)
    count = 1 + unused
    path = tmp_path / "topo"
    path.write_bytes(b"\0B<Topology> " + phones + number(count) + states * count + b"</Topology> ")
    with pytest.raises(InputError, match="no phones") if refused else nullcontext():
        assert [*read_topology(path)] == [1, 2]


@pytest.mark.parametrize(
    ("tree", "said"),
    [
        ("ContextDependency 1000000 1 ToPdf CE 0 EndContextDependency ", "window of 1000000"),
        ("ContextDependency 3 1 ToPdf CE 2000000000 EndContextDependency ", "pdf-id 2000000000"),
    ],
)
def test_tree_whose_numbers_cost_memory_is_refused(tree: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "tree").write_text(tree)
    with pytest.raises(InputError, match=f"tree: .*{said}"):
        read_tree(tmp_path / "tree")


def test_symbol_whose_number_costs_memory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("<eps> 0\na 999999999\n")
    with pytest.raises(InputError, match=r"words.txt, line 2: the id 999999999 in a table of 2"):
        read_symbols(tmp_path / "words.txt")

"""FSTs: arc by arc what OpenFst reads and writes; nothing a decoder would run out of bounds on."""

import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import kaldifst
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayes_asr.base.errors import InputError
from bayes_asr.kaldi_io.fst import read_fst, write_fst
from bayes_asr.kaldi_io.openfst import Fst

GRAPHS = [(c, g) for c in ("timit_sample", "an4") for g in ("mono", "tri3")]
ARRAYS = ("final", "offsets", "ilabel", "olabel", "weight", "nextstate")
HEADER_AT = 4 + 4 + len("const") + 4 + len("standard")  # of a const FST


def same(a: Fst, b: Fst) -> None:
    assert a.start == b.start
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)
        assert getattr(a, name).dtype == getattr(b, name).dtype


def as_openfst_sees_it(path: Path) -> Fst:
    """Read an FST with OpenFst's own code, arc by arc."""
    fst = kaldifst.StdFst.read(str(path))
    assert fst is not None, f"OpenFst cannot read {path}"
    arcs, offsets, final = [], [0], []
    for state in kaldifst.StateIterator(fst):
        for arc in kaldifst.ArcIterator(fst, state):
            arcs.append((arc.ilabel, arc.olabel, arc.weight.value, arc.nextstate))
        offsets.append(len(arcs))
        final.append(fst.final(state).value)
    ilabel, olabel, weight, nextstate = zip(*arcs, strict=True) if arcs else ((),) * 4
    return Fst(
        start=fst.start,
        final=np.array(final, np.float32),
        offsets=np.array(offsets, np.int64),
        ilabel=np.array(ilabel, np.int32),
        olabel=np.array(olabel, np.int32),
        weight=np.array(weight, np.float32),
        nextstate=np.array(nextstate, np.int32),
    )


@st.composite
def fsts(draw: st.DrawFn) -> Fst:
    states = draw(st.integers(1, 6))
    counts = draw(st.lists(st.integers(0, 4), min_size=states, max_size=states))
    arcs = sum(counts)
    costs = st.floats(-100, 100, width=32)

    def column(values: st.SearchStrategy, dtype: type) -> np.ndarray:
        return np.array(draw(st.lists(values, min_size=arcs, max_size=arcs)), dtype)

    final = draw(st.lists(costs | st.just(np.inf), min_size=states, max_size=states))
    return Fst(
        start=draw(st.integers(0, states - 1)),
        final=np.array(final, np.float32),
        offsets=np.concatenate(([0], np.cumsum(counts, dtype=np.int64))),
        ilabel=column(st.integers(0, 2**31 - 1), np.int32),
        olabel=column(st.integers(0, 3), np.int32),
        weight=column(costs, np.float32),
        nextstate=column(st.integers(0, states - 1), np.int32),
    )


@pytest.mark.parametrize(("corpus", "graph"), GRAPHS)
def test_the_graphs_of_kaldi(
    kaldi_corpus: Callable[[str], Path], corpus: str, graph: str, tmp_path: Path
) -> None:
    path = kaldi_corpus(corpus) / "exp" / graph / "graph" / "HCLG.fst"
    fst = read_fst(path)
    assert fst.num_arcs > 1000
    same(fst, as_openfst_sees_it(path))
    write_fst(fst, tmp_path / "const.fst")
    write_fst(fst, tmp_path / "vector.fst", "vector")
    same(as_openfst_sees_it(tmp_path / "const.fst"), fst)
    same(as_openfst_sees_it(tmp_path / "vector.fst"), fst)
    theirs, ours = path.read_bytes(), (tmp_path / "const.fst").read_bytes()
    assert ours[HEADER_AT + 16 :] == theirs[HEADER_AT + 16 :]  # all but version, flags, properties


@pytest.mark.slow
@given(fsts())
def test_any_fst_round_trips_through_us_and_openfst(
    tmp_path_factory: pytest.TempPathFactory, fst: Fst
) -> None:
    folder = tmp_path_factory.mktemp("fst")
    for kind in ("const", "vector"):
        write_fst(fst, folder / kind, kind)
        same(read_fst(folder / kind), fst)
        same(as_openfst_sees_it(folder / kind), fst)


def test_epsilon_counts_are_openfsts(kaldi_corpus: Callable[[str], Path], tmp_path: Path) -> None:
    fst = read_fst(kaldi_corpus("an4") / "exp" / "tri3" / "graph" / "HCLG.fst")
    write_fst(fst, tmp_path / "const.fst")
    theirs = kaldifst.StdFst.read(str(tmp_path / "const.fst"))
    labels = np.split(fst.ilabel, fst.offsets[1:-1])
    for state in range(fst.num_states):
        assert theirs.num_input_epsilons(state) == (labels[state] == 0).sum()
        assert theirs.num_arcs(state) == len(labels[state])


def test_embedded_symbols_are_passed_over(tmp_path: Path) -> None:
    text = "0 1 1 2 0.5\n1 0.25\n"
    theirs = kaldifst.compile(text)
    theirs.input_symbols = kaldifst.SymbolTable.from_str("<eps> 0\na 1\n")
    theirs.output_symbols = kaldifst.SymbolTable.from_str("<eps> 0\nÄther 2\n")
    theirs.write(str(tmp_path / "x.fst"))
    fst = read_fst(tmp_path / "x.fst")
    assert (fst.ilabel.tolist(), fst.olabel.tolist(), fst.weight.tolist()) == ([1], [2], [0.5])
    assert fst.final.tolist() == [np.inf, 0.25]


@pytest.mark.parametrize(("version", "flags"), [(2, 4), (1, 0)])
def test_aligned_const_fst(tmp_path: Path, version: int, flags: int) -> None:
    """mapped-file.cc: states and arcs begin at multiples of 16 bytes of the file."""
    raw = struct.pack("<ii5si8s", 2125659606, 5, b"const", 8, b"standard")
    raw += struct.pack("<iiQqqq", version, flags, 1, 0, 2, 1)
    raw += bytes(-len(raw) % 16)
    raw += struct.pack("<fIIII", np.inf, 0, 1, 0, 0) + struct.pack("<fIIII", 0.25, 1, 0, 0, 0)
    raw += bytes(-len(raw) % 16) + struct.pack("<iifi", 1, 2, 0.5, 1)
    (tmp_path / "x.fst").write_bytes(raw)
    fst = read_fst(tmp_path / "x.fst")
    assert (fst.ilabel.tolist(), fst.olabel.tolist(), fst.nextstate.tolist()) == ([1], [2], [1])
    same(as_openfst_sees_it(tmp_path / "x.fst"), fst)


SMALL = Fst(
    start=0,
    final=np.array([np.inf, 0], np.float32),
    offsets=np.array([0, 2, 2]),
    ilabel=np.array([1, 2], np.int32),
    olabel=np.array([3, 0], np.int32),
    weight=np.array([0.5, 1], np.float32),
    nextstate=np.array([1, 0], np.int32),
)


@pytest.mark.parametrize("kind", ["const", "vector"])
def test_every_truncation_is_an_error(tmp_path: Path, kind: str) -> None:
    write_fst(SMALL, tmp_path / "whole", kind)
    whole = (tmp_path / "whole").read_bytes()
    for end in range(len(whole)):
        (tmp_path / "cut.fst").write_bytes(whole[:end])
        with pytest.raises(InputError, match=r"cut\.fst: ") as error:
            read_fst(tmp_path / "cut.fst")
        assert "\n" not in str(error.value)


def test_truncation_names_both_numbers(tmp_path: Path) -> None:
    write_fst(SMALL, tmp_path / "x.fst")
    whole = (tmp_path / "x.fst").read_bytes()
    (tmp_path / "x.fst").write_bytes(whole[:-1])
    with pytest.raises(InputError, match=f"32 bytes at offset .* the file has {len(whole) - 1}"):
        read_fst(tmp_path / "x.fst")


@pytest.mark.parametrize(
    ("field", "value", "part"),
    [
        ("start", 2, "start state 2 is not one of 2"),
        ("start", -1, "start state -1"),
        ("nextstate", [1, 2], "arc 1 has the next state 2 of 2"),
        ("nextstate", [-1, 0], "arc 0 has the next state -1"),
        ("ilabel", [1, -2], "arc 1 has the input label -2"),
        ("olabel", [-3, 0], "arc 0 has the output label -3"),
        ("weight", [0.5, np.nan], "arc 1 has the weight nan"),
        ("weight", [-np.inf, 1], "arc 0 has the weight -inf"),
        ("final", [np.nan, 0], "state 0 has the weight nan"),
    ],
)
@pytest.mark.parametrize("kind", ["const", "vector"])
def test_an_improper_fst_is_refused(
    tmp_path: Path, kind: str, field: str, value: object, part: str
) -> None:
    column = value if field == "start" else np.array(value, getattr(SMALL, field).dtype)
    write_fst(Fst(**{**vars(SMALL), field: column}), tmp_path / "x.fst", kind)
    with pytest.raises(InputError, match=part):
        read_fst(tmp_path / "x.fst")


def test_other_types_are_named(tmp_path: Path) -> None:
    write_fst(SMALL, tmp_path / "x.fst")
    lattice = (tmp_path / "x.fst").read_bytes().replace(b"standard", b"lattice4")
    for content, part in ((lattice, "lattice4"), (b"no FST at all", "not a binary OpenFst file")):
        (tmp_path / "y.fst").write_bytes(content)
        with pytest.raises(InputError, match=part):
            read_fst(tmp_path / "y.fst")


@pytest.mark.parametrize("kind", ["const", "vector"])
@pytest.mark.parametrize("where", [24, 32])  # the number of states, of arcs, in the header
@pytest.mark.parametrize("count", [2**62, 2**31, -1, 3])
def test_forged_counts_neither_pass_nor_allocate(
    tmp_path: Path, kind: str, where: int, count: int
) -> None:
    write_fst(SMALL, tmp_path / "x.fst", kind)
    raw = bytearray((tmp_path / "x.fst").read_bytes())
    at = HEADER_AT + len(kind) - len("const") + where
    struct.pack_into("<q", raw, at, count)
    (tmp_path / "x.fst").write_bytes(raw)
    tracemalloc.start()
    if kind == "vector" and where == 32:
        same(read_fst(tmp_path / "x.fst"), SMALL)  # OpenFst does not rely on this number either
    else:
        with pytest.raises(InputError):
            read_fst(tmp_path / "x.fst")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 << 20


@pytest.mark.parametrize("state", [0, 1])
def test_numbers_of_arcs_are_whole(tmp_path: Path, state: int) -> None:
    """Their high words count too, as for OpenFst."""
    write_fst(SMALL, tmp_path / "x.fst", "vector")
    raw = bytearray((tmp_path / "x.fst").read_bytes())
    states = HEADER_AT + len("vector") - len("const") + 40
    raw[states + 12 * state + 16 * SMALL.offsets[state] + 8] = 1
    (tmp_path / "x.fst").write_bytes(raw)
    with pytest.raises(InputError, match=f"state {state} of 2 has 2\\^32 arcs or more"):
        read_fst(tmp_path / "x.fst")

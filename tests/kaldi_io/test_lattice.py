"""Lattice archives: what Kaldi reads, what it writes, and damage of every kind."""

import gzip
import struct
from itertools import starmap
from pathlib import Path

import kaldifst
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayes_asr.base.errors import InputError
from bayes_asr.config.decoding_keys import UNLIMITED, SearchOptions
from bayes_asr.decode.search.determinize import determinize
from bayes_asr.decode.search.utterance import ENGINES
from bayes_asr.kaldi_io.lattice import (
    CompactLattice,
    Lattice,
    connect,
    scale_acoustic,
    select_states,
    topological_order,
)
from bayes_asr.kaldi_io.lattice_files import iter_lattices, lattice_bytes, write_lattices
from tests.support.decode_cases import assert_same_arrays, random_network, rows, word_paths


def real_lattices(seed: int) -> tuple[Lattice, CompactLattice]:
    network = random_network(seed)
    loglikes = np.random.default_rng(seed).normal(0, 2, (8, 8)).astype(np.float32)
    options = SearchOptions(1.0, 30.0, UNLIMITED, 0, 3.0, allow_partial=True)
    lattice, _ = ENGINES["numpy"].search(network, loglikes, options)
    assert lattice is not None
    return lattice, determinize(lattice, network.phone_start, 3.0)


def named_lattices(count: int) -> list[tuple[str, Lattice | CompactLattice]]:
    pairs = (zip("sw", real_lattices(n), strict=True) for n in range(count))
    return [(f"u{n}-{kind}", one) for n, pair in enumerate(pairs) for kind, one in pair]


@pytest.mark.parametrize("name", ["lat.ark", "lat.1.gz"])
def test_what_is_written_is_read(name: str, tmp_path: Path) -> None:
    items = named_lattices(4)
    assert write_lattices(items, tmp_path / name) == 8
    found = list(iter_lattices(tmp_path / name))
    assert [utt for utt, _ in found] == [utt for utt, _ in items]
    for (_, one), (_, other) in zip(items, found, strict=True):
        assert type(one) is type(other)
        assert_same_arrays(one, other)
    if name.endswith("gz"):
        (tmp_path / "plain.ark").write_bytes(gzip.decompress((tmp_path / name).read_bytes()))
        assert len(list(iter_lattices(tmp_path / "plain.ark"))) == 8


def test_bytes_are_those_of_openfst() -> None:
    """Field by field as fst/vector-fst.h and fstext/lattice-weight.h write them."""
    lattice = CompactLattice(
        offsets=np.array([0, 1, 1]),
        word=np.array([7], np.int32),
        graph=np.array([1.5], np.float32),
        acoustic=np.array([-2.5], np.float32),
        nextstate=np.array([1], np.int32),
        tid_offsets=np.array([0, 2]),
        tids=np.array([3, 4], np.int32),
        final_graph=np.array([np.inf, 0.5], np.float32),
        final_acoustic=np.array([np.inf, 0], np.float32),
        final_tid_offsets=np.array([0, 0, 1]),
        final_tids=np.array([9], np.int32),
    )
    names = b"\6\0\0\0vector\x10\0\0\0compactlattice44"
    header = struct.pack("<iiQqqq", 2, 0, 3, 0, 2, 1)
    first = struct.pack("<ffiq", np.inf, np.inf, 0, 1)
    arc = struct.pack("<iiffiiii", 7, 7, 1.5, -2.5, 2, 3, 4, 1)
    second = struct.pack("<ffiiq", 0.5, 0.0, 1, 9, 0)
    magic = struct.pack("<i", 2125659606)
    assert lattice_bytes("utt", lattice) == (
        b"utt " + magic + names + header + first + arc + second
    )


def test_openfst_reads_state_level_lattices(tmp_path: Path) -> None:
    lattice, _ = real_lattices(1)
    path = tmp_path / "one.fst"
    path.write_bytes(lattice_bytes("u", lattice)[2:])
    read = kaldifst.Lattice.read(str(path))
    assert read is not None
    assert read.num_states == lattice.num_states
    best = kaldifst.get_linear_symbol_sequence(kaldifst.shortest_path(read))
    cost = best[3].value1 + best[3].value2
    arc_cost = lattice.graph.astype(np.float64) + lattice.acoustic
    ahead = lattice.final_graph.astype(np.float64)
    for state in range(lattice.num_states - 1, -1, -1):
        own = slice(lattice.offsets[state], lattice.offsets[state + 1])
        through = arc_cost[own] + ahead[lattice.nextstate[own]]
        ahead[state] = min(ahead[state], through.min(initial=np.inf))
    assert cost == pytest.approx(ahead[0], abs=1e-3)


@pytest.mark.parametrize("seed", range(5))
def test_states_come_out_sorted(seed: int, tmp_path: Path) -> None:
    _, lattice = real_lattices(seed)
    order = np.random.default_rng(seed).permutation(lattice.num_states)
    shuffled = select_states(lattice, order)
    entry = bytearray(lattice_bytes("u", shuffled))
    start = int(np.flatnonzero(order == 0)[0])
    at = entry.index(b"compactlattice44") + 16 + 4 + 4 + 8
    entry[at : at + 8] = struct.pack("<q", start)
    (tmp_path / "lat.ark").write_bytes(entry)
    ((_, found),) = iter_lattices(tmp_path / "lat.ark")
    owner = np.repeat(np.arange(found.num_states), np.diff(found.offsets))
    assert (found.nextstate > owner).all()
    assert isinstance(found, CompactLattice)
    assert sorted(word_paths(found)) == sorted(word_paths(lattice))


@given(seed=st.integers(0, 10_000))
def test_order_is_topological_or_there_is_a_cycle(seed: int) -> None:
    rng = np.random.default_rng(seed)
    source = np.sort(rng.integers(0, 6, 8))
    nextstate = rng.integers(0, 6, 8)
    order = topological_order(rows(source, 6), nextstate, 0)
    reach = np.eye(6, dtype=bool)
    for _ in range(6):
        for before, after in zip(source, nextstate, strict=True):
            reach[:, after] |= reach[:, before]
    arcs = [(b, a) for b, a in zip(source, nextstate, strict=True) if reach[0, b]]
    if order is None:
        assert any(reach[after, before] for before, after in arcs)
        return
    place = {state: at for at, state in enumerate(order.tolist())}
    assert set(place) == set(np.flatnonzero(reach[0]).tolist())
    assert all(place[before] < place[after] for before, after in arcs)


def test_unconnected_states_are_left_out() -> None:
    _, lattice = real_lattices(2)
    ends = np.flatnonzero(np.isfinite(lattice.final_graph))
    lattice.final_graph[ends[1:]] = np.inf
    lattice.final_acoustic[ends[1:]] = np.inf
    found = connect(lattice)
    assert sorted(word_paths(found)) == sorted(word_paths(lattice))
    assert np.isfinite(found.final_graph).any()
    leads = np.isfinite(found.final_graph)
    for state in range(found.num_states - 1, -1, -1):
        leads[state] |= leads[
            found.nextstate[found.offsets[state] : found.offsets[state + 1]]
        ].any()
    assert leads.all()


def test_scaling_leaves_graph_costs() -> None:
    _, lattice = real_lattices(3)
    scaled = scale_acoustic(lattice, 2.0)
    np.testing.assert_array_equal(scaled.acoustic, 2 * lattice.acoustic)
    np.testing.assert_array_equal(scaled.graph, lattice.graph)
    assert np.isinf(scaled.final_acoustic).any()


def refused(content: bytes, tmp_path: Path, message: str) -> None:
    path = tmp_path / "lat.ark"
    path.write_bytes(content)
    with pytest.raises(InputError, match=rf"lat\.ark: .*{message}"):
        list(iter_lattices(path))


def test_what_is_no_lattice_is_refused(tmp_path: Path) -> None:
    entry = lattice_bytes("utt", real_lattices(0)[1])
    refused(entry[:-3], tmp_path, r"utt needs 8 bytes at offset \d+, the file has")
    refused(
        b"utt \n0\t1\t5\t2.5,3\n", tmp_path, "utt is no binary lattice at offset 4; lattice-copy"
    )
    other = entry.replace(b"compactlattice44", b"compactlattice84")
    refused(other, tmp_path, "utt is a b'vector' FST of b'compactlattice84' arcs")
    at = entry.index(b"compactlattice44") + 16 + 4 + 4 + 8
    start = entry[:at] + struct.pack("<q", 99) + entry[at + 8 :]
    refused(start, tmp_path, "utt starts in state 99 of")


def test_cycles_and_wild_arcs_are_refused(tmp_path: Path) -> None:
    lattice = real_lattices(0)[1]
    lattice.nextstate[-1] = 0
    refused(lattice_bytes("utt", lattice), tmp_path, "utt has a cycle")
    lattice.nextstate[-1] = 1000
    refused(lattice_bytes("utt", lattice), tmp_path, "utt has an arc to state 1000 of")
    lattice.nextstate[-1] = -7
    refused(lattice_bytes("utt", lattice), tmp_path, "utt has an arc to state -7 of")
    lattice = real_lattices(0)[1]
    lattice.graph[0] = np.nan
    refused(lattice_bytes("utt", lattice), tmp_path, "utt has nan among its graph costs")
    lattice = real_lattices(0)[1]
    lattice.word[0] = -5
    refused(lattice_bytes("utt", lattice), tmp_path, "utt has -5 among its word")


@pytest.mark.slow
@pytest.mark.parametrize("packed", [False, True])
def test_damaged_archives_are_refused_or_read(packed: bool, tmp_path: Path) -> None:
    """Seeded damage: an error that names the file, or lattices that hold together."""
    rng = np.random.default_rng(11)
    whole = b"".join(starmap(lattice_bytes, named_lattices(2)))
    if packed:
        whole = gzip.compress(whole)
    path = tmp_path / ("lat.gz" if packed else "lat.ark")
    refusals = 0
    for _ in range(750):
        content = bytearray(whole)
        for _ in range(rng.integers(1, 4)):
            content[rng.integers(len(content))] = rng.integers(256)
        if rng.random() < 0.3:
            del content[rng.integers(len(content)) :]
        path.write_bytes(content)
        message = None
        try:
            for _, lattice in iter_lattices(path):
                states = lattice.num_states
                assert len(lattice.offsets) == states + 1
                assert ((lattice.nextstate >= 0) & (lattice.nextstate < states)).all()
        except InputError as error:
            message = str(error)
        if message is not None:
            assert str(path) in message
            assert "\n" not in message
            refusals += 1
    assert refusals > 150


@settings(deadline=None, max_examples=30)
@given(content=st.binary(max_size=200))
def test_noise_is_refused(content: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("noise") / "lat.ark"
    path.write_bytes(b"u " + content)
    with pytest.raises(InputError, match=r"lat\.ark"):
        list(iter_lattices(path))


def test_an_utterance_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    lattice = real_lattices(0)[1]
    entry = lattice_bytes("utt", lattice)
    refused(entry + entry, tmp_path, f"utt is there a second time, at offset {len(entry)}")
    with pytest.raises(InputError, match=r"lat\.1\.gz: utt is there a second time"):
        write_lattices([("utt", lattice)] * 2, tmp_path / "lat.1.gz")

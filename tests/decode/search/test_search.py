"""The search: both engines alike, exact where nothing is pruned, and clear where it refuses."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayes_asr.base.errors import InputError
from bayes_asr.config.decoding_keys import UNLIMITED, SearchOptions
from bayes_asr.config.merge import load_section
from bayes_asr.decode.search import compiled
from bayes_asr.decode.search.inputs import build_decoding_graph, check_loglikes
from bayes_asr.decode.search.search import best_arcs
from bayes_asr.decode.search.search_graph import Arcs, DecodingGraph, has_cycle
from bayes_asr.decode.search.utterance import ENGINES, choose_engine, decode_utterance
from bayes_asr.kaldi_io.initial_mdl import build_monophone_model
from bayes_asr.kaldi_io.lattice import Lattice
from bayes_asr.kaldi_io.openfst import Fst
from tests.support.decode_cases import assert_same_arrays, random_arcs, random_network

needs_native = pytest.mark.skipif(
    not compiled.LIBRARY.usable, reason="the C++ decoder is not built"
)
search = ENGINES["numpy"].search
SEARCHES = [search, pytest.param(ENGINES["native"].search, marks=needs_native)]
WIDE = SearchOptions(1.0, 1e6, UNLIMITED, 0, lattice_beam=1e6)
NARROW = replace(WIDE, lattice_beam=3.0)


def random_loglikes(seed: int, frames: int, pdfs: int = 8) -> np.ndarray:
    return np.random.default_rng([seed, 1]).normal(0, 2, (frames, pdfs)).astype(np.float32)


def viterbi(network: DecodingGraph, loglikes: np.ndarray) -> float:
    """The cheapest cost by dynamic programming over all states, in float64."""
    epsilon = network.epsilon

    def close(cost: np.ndarray) -> np.ndarray:
        for state in range(network.num_states):
            for arc in range(epsilon.offsets[state], epsilon.offsets[state + 1]):
                after = epsilon.nextstate[arc]
                cost[after] = min(cost[after], cost[state] + epsilon.weight[arc])
        return cost

    cost = np.full(network.num_states, np.inf)
    cost[network.start] = 0
    cost = close(cost)
    emitting = network.emitting
    for row in loglikes:
        after = np.full(network.num_states, np.inf)
        for state in range(network.num_states):
            for arc in range(emitting.offsets[state], emitting.offsets[state + 1]):
                total = cost[state] + emitting.weight[arc] - row[network.column[arc]]
                after[emitting.nextstate[arc]] = min(after[emitting.nextstate[arc]], total)
        cost = close(after)
    final = network.final.astype(np.float64)
    return float((cost + final).min() if np.isfinite(cost + final).any() else cost.min())


@pytest.mark.parametrize("find", SEARCHES)
@pytest.mark.parametrize("seed", range(8))
def test_unpruned_search_finds_the_cheapest_path(find, seed: int) -> None:
    network, loglikes = random_network(seed), random_loglikes(seed, 60)
    lattice, _ = find(network, loglikes, WIDE)
    arcs, last = best_arcs(lattice)
    total = (lattice.graph + lattice.acoustic)[arcs].sum() + lattice.final_graph[last]
    assert total == pytest.approx(viterbi(network, loglikes), abs=1e-3)


def costs_through(lattice: Lattice) -> np.ndarray:
    """The cost of the cheapest path through each arc, in float64."""
    source = np.repeat(np.arange(lattice.num_states), np.diff(lattice.offsets))
    cost = lattice.graph.astype(np.float64) + lattice.acoustic
    forward = np.full(lattice.num_states, np.inf)
    forward[0] = 0
    backward = lattice.final_graph.astype(np.float64)
    for arc, (before, after) in enumerate(zip(source, lattice.nextstate, strict=True)):
        forward[after] = min(forward[after], forward[before] + cost[arc])
    for arc in range(len(source) - 1, -1, -1):
        through = cost[arc] + backward[lattice.nextstate[arc]]
        backward[source[arc]] = min(backward[source[arc]], through)
    return forward[source] + cost + backward[lattice.nextstate]


def arc_rows(lattice: Lattice, kept: np.ndarray | slice) -> list[tuple]:
    columns = (lattice.ilabel, lattice.olabel, lattice.graph, lattice.acoustic.round(3))
    return sorted(zip(*(column[kept].tolist() for column in columns), strict=True))


@pytest.mark.parametrize("find", SEARCHES)
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("beam", [1.0, 4.7])
def test_lattice_holds_exactly_the_arcs_within_its_beam(find, seed: int, beam: float) -> None:
    network, loglikes = random_network(seed), random_loglikes(seed, 40)
    everything, _ = find(network, loglikes, WIDE)
    excess = costs_through(everything)
    excess -= excess.min()
    near = np.sort(excess[np.abs(excess - beam) < 0.5])
    gap = int(np.diff(near).argmax())
    beam = float(near[gap : gap + 2].mean())  # no arc so near to the beam that rounding decides
    pruned, _ = find(network, loglikes, replace(WIDE, lattice_beam=beam))
    assert arc_rows(pruned, slice(None)) == arc_rows(everything, excess <= beam)


@pytest.mark.slow
@needs_native
@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 10_000),
    frames=st.integers(1, 70),
    beam=st.floats(0.5, 20),
    lattice_beam=st.floats(0.5, 10),
    max_active=st.sampled_from([2, 5, 20, UNLIMITED]),
    min_active=st.sampled_from([0, 2]),
    states=st.sampled_from([2, 12, 1500]),
    prune_interval=st.sampled_from([3, 25]),
    strict=st.booleans(),
)
def test_native_search_equals_the_reference(
    seed: int, frames: int, states: int, **chosen: float
) -> None:
    options = SearchOptions(acoustic_scale=1.0, allow_partial=bool(seed % 2), **chosen)
    network, loglikes = random_network(seed, states), random_loglikes(seed, frames)
    loglikes[np.random.default_rng(seed).random(loglikes.shape) < 0.02] = -np.inf
    ours, reached = search(network, loglikes, options)
    theirs, reached_too = ENGINES["native"].search(network, loglikes, options)
    assert (ours is None, reached) == (theirs is None, reached_too)
    if ours is not None:
        assert_same_arrays(ours, theirs)
        arcs, last = best_arcs(ours)
        native_arcs, native_last = compiled.best_arcs(theirs)
        assert (arcs.tolist(), last) == (native_arcs.tolist(), native_last)


@pytest.mark.parametrize("find", SEARCHES)
def test_pruning_as_it_goes_does_not_change_the_result(find) -> None:
    network, loglikes = random_network(3), random_loglikes(3, 90)
    options = SearchOptions(1.0, 8.0, UNLIMITED, 0, lattice_beam=4.0)
    often, _ = find(network, loglikes, replace(options, prune_interval=2))
    never, _ = find(network, loglikes, replace(options, prune_interval=10_000))
    assert_same_arrays(often, never)


def dead_end(network: DecodingGraph) -> DecodingGraph:
    return replace(network, final=np.full(network.num_states, np.inf, np.float32))


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["numpy", pytest.param("native", marks=needs_native)])
def test_partial_paths_only_if_allowed(engine: str) -> None:
    network, loglikes = dead_end(random_network(1)), random_loglikes(1, 20)
    refused = decode_utterance(network, "u", loglikes, NARROW, ENGINES[engine])
    assert refused.words == []
    assert refused.lattice is None
    assert not refused.reached_final
    assert np.isinf(refused.graph_cost)
    allowed = replace(NARROW, allow_partial=True)
    partial = decode_utterance(network, "u", loglikes, allowed, ENGINES[engine])
    assert len(partial.tids) == 20
    assert not partial.reached_final


@pytest.mark.parametrize("engine", ["numpy", pytest.param("native", marks=needs_native)])
def test_search_that_dies_keeps_the_frames_before(engine: str) -> None:
    network, loglikes = random_network(1), random_loglikes(1, 20)
    loglikes[7] = -np.inf
    refused = decode_utterance(network, "u", loglikes, NARROW, ENGINES[engine])
    assert refused.words == []
    allowed = replace(NARROW, allow_partial=True)
    partial = decode_utterance(network, "u", loglikes, allowed, ENGINES[engine])
    assert len(partial.tids) == 7
    assert not partial.reached_final


def small_fst(ilabel: int = 1, loop: bool = False) -> Fst:
    """Two states with an emitting arc; with `loop` also epsilon arcs there and back."""
    count = 3 if loop else 1
    return Fst(
        start=0,
        final=np.array([np.inf, 0], np.float32),
        offsets=np.array([0, 1 + loop, count], np.int64),
        ilabel=np.array([ilabel, 0, 0][:count], np.int32),
        olabel=np.zeros(count, np.int32),
        weight=np.zeros(count, np.float32),
        nextstate=np.array([1, 1, 0][:count], np.int32),
    )


def test_graph_of_another_model_is_refused() -> None:
    with pytest.raises(InputError, match=r"HCLG: ilabel 99 is past the 6 transition-ids"):
        build_decoding_graph(small_fst(ilabel=99), build_monophone_model([1]), "HCLG")


def test_words_that_the_determinization_could_not_number_are_refused() -> None:
    fst = replace(small_fst(), olabel=np.array([2**31 - 1], np.int32))
    with pytest.raises(InputError, match=r"HCLG: olabel 2147483647 is past 1073741824"):
        build_decoding_graph(fst, build_monophone_model([1]), "HCLG")


def test_epsilon_cycle_is_refused() -> None:
    with pytest.raises(InputError, match="HCLG: epsilon arcs form a cycle"):
        build_decoding_graph(small_fst(loop=True), build_monophone_model([1]), "HCLG")


@given(seed=st.integers(0, 1000))
def test_cycles_are_found(seed: int) -> None:
    forward = random_arcs(np.random.default_rng(seed), 9, 12, False)
    assert not has_cycle(forward)
    owner = np.repeat(np.arange(9), np.diff(forward.offsets))
    last = len(owner) - 1
    back = forward.nextstate.copy()
    back[last] = owner[last]
    assert has_cycle(Arcs(forward.offsets, *[forward.ilabel] * 2, forward.weight, back))


def test_empty_graph_is_refused() -> None:
    none = np.empty(0, np.int32)
    empty = Fst(-1, none.astype(np.float32), np.zeros(1, np.int64), none, none, none, none)
    with pytest.raises(InputError, match="no start state"):
        build_decoding_graph(empty, build_monophone_model([1]), "HCLG")


@pytest.mark.parametrize(
    ("loglikes", "message"),
    [
        (np.zeros((3, 7)), r"u: log-likelihoods of shape \[3, 7\], but the model has 8 pdfs"),
        (np.zeros(8), r"u: log-likelihoods of shape \[8\]"),
        (np.zeros((0, 8)), "u: log-likelihoods without frames"),
        (np.full((3, 8), np.nan), "u: log-likelihood nan at frame 0, pdf 0"),
        (np.full((3, 8), np.inf), "u: log-likelihood inf at frame 0, pdf 0"),
        (np.full((3, 8), 0.125), "u: posteriors, which add up to 1"),
    ],
)
def test_bad_loglikes_are_refused(loglikes: np.ndarray, message: str) -> None:
    with pytest.raises(InputError, match=message):
        check_loglikes(random_network(0), "u", loglikes)


@pytest.mark.parametrize(
    "wrong",
    [
        {"beam": 0.0},
        {"beam": float("nan")},
        {"lattice_beam": -1.0},
        {"acoustic_scale": 0.0},
        {"max_active": 1},
        {"max_active": 2**31},
        {"lattice_beam": float("inf")},
        {"max_active": 10, "min_active": 11},
        {"min_active": -1},
    ],
)
def test_options_without_sense_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InputError, match=next(iter(wrong))):
        SearchOptions(**wrong)


def test_defaults_are_those_of_the_base_configuration() -> None:
    config = load_section("decode", [])
    assert SearchOptions() == SearchOptions.from_config(config)


def test_engine_is_chosen_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BAYES_ASR_DECODER", "numpy")
    assert choose_engine().name == "numpy"
    monkeypatch.setenv("BAYES_ASR_DECODER", "fpga")
    with pytest.raises(InputError, match="fpga: known engines are numpy, native"):
        choose_engine()


def test_without_the_library_the_reference_decodes_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("BAYES_ASR_DECODER", raising=False)
    absent = replace(compiled.LIBRARY, file=tmp_path / "decoder.so")
    monkeypatch.setattr(compiled, "LIBRARY", absent)
    assert choose_engine().name == "numpy"
    assert "is not built: decoding in NumPy" in caplog.text
    monkeypatch.setenv("BAYES_ASR_DECODER", "native")
    with pytest.raises(InputError, match="is not built"):
        choose_engine()

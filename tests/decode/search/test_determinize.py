"""Determinization: one path for each word sequence, the cheapest, and the two forms alike."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayes_asr.config.decoding_keys import UNLIMITED, SearchOptions
from bayes_asr.decode.search import acceptor as acceptors
from bayes_asr.decode.search import compiled, strings
from bayes_asr.decode.search.determinize import determinize
from bayes_asr.decode.search.utterance import ENGINES
from bayes_asr.kaldi_io.lattice import Lattice
from tests.support.decode_cases import (
    all_paths,
    assert_same_arrays,
    golden_case,
    random_network,
    word_paths,
)

needs_native = pytest.mark.skipif(
    not compiled.LIBRARY.usable, reason="the C++ decoder is not built"
)
FORMS = [determinize, pytest.param(compiled.determinize, marks=needs_native)]
PHONES = random_network(0).phone_start


def random_lattice(seed: int, frames: int = 5, beam: float = 3.0) -> Lattice:
    network = random_network(seed, states=6)
    network = replace(network, final=np.where(np.arange(6) % 2, 0.5, np.inf).astype(np.float32))
    loglikes = np.random.default_rng([seed, 2]).normal(0, 2, (frames, 8)).astype(np.float32)
    options = SearchOptions(1.0, 50.0, UNLIMITED, 0, beam, allow_partial=True)
    lattice, _ = ENGINES["numpy"].search(network, loglikes, options)
    assert lattice is not None
    return lattice


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("seed", range(12))
def test_cheapest_path_of_each_word_sequence_is_kept(form, seed: int) -> None:
    lattice, beam = random_lattice(seed), 2.0
    cheapest: dict[tuple, tuple[float, tuple]] = {}
    for words, tids, graph, acoustic in all_paths(lattice):
        cheapest[words] = min((graph + acoustic, tids), cheapest.get(words, (np.inf, ())))
    best = min(cost for cost, _ in cheapest.values())
    found = list(word_paths(form(lattice, PHONES, beam)))
    assert len({words for words, *_ in found}) == len(found), "a word sequence has two paths"
    costs = {words: graph + acoustic for words, _, graph, acoustic in found}
    within = {words for words, (cost, _) in cheapest.items() if cost < best + beam - 0.01}
    assert within <= set(costs)
    for words, tids, graph, acoustic in found:
        cost, best_tids = cheapest[words]
        assert graph + acoustic == pytest.approx(cost, abs=0.01)
        if words in within:
            assert len(tids) == len(best_tids)
    assert any(tids == cheapest[words][1] for words, tids, *_ in found)


@pytest.mark.slow
@needs_native
@settings(deadline=None, max_examples=100)
@given(
    seed=st.integers(0, 10_000),
    frames=st.integers(1, 10),
    beam=st.floats(0.1, 4),
    max_bytes=st.sampled_from([3_000, 50_000_000]),
)
def test_native_form_equals_the_reference(
    seed: int, frames: int, beam: float, max_bytes: int
) -> None:
    lattice = random_lattice(seed, frames)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(strings, "MAX_BYTES", max_bytes)
        one = determinize(lattice, PHONES, beam)
        assert_same_arrays(one, compiled.determinize(lattice, PHONES, beam))


@pytest.mark.slow
@needs_native
@pytest.mark.parametrize("case", [("timit_sample", "nn"), ("an4", "nn")], ids="-".join)
def test_forms_agree_on_real_lattices(case: tuple[str, str], kaldi_corpus) -> None:
    golden = golden_case(kaldi_corpus, *case)
    network, options = golden.network(), golden.options("a")
    for utt, loglikes in golden.matrices():
        lattice, _ = ENGINES["native"].search(network, np.float32(golden.scale) * loglikes, options)
        assert lattice is not None
        two = (
            form(lattice, network.phone_start, 4.0) for form in (determinize, compiled.determinize)
        )
        assert_same_arrays(*two), utt


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("seed", range(4))
def test_lattice_too_large_gets_a_narrower_beam(
    form, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    lattice = random_lattice(seed, 9, beam=5.0)
    whole = list(word_paths(form(lattice, PHONES, 3.5)))
    monkeypatch.setattr(strings, "MAX_BYTES", 6_000)
    part = list(word_paths(form(lattice, PHONES, 3.5)))
    assert 0 < len(part) < len(whole)
    best = min(graph + acoustic for *_, graph, acoustic in whole)
    assert min(graph + acoustic for *_, graph, acoustic in part) == pytest.approx(best, abs=0.01)


@pytest.mark.parametrize("seed", range(6))
def test_pruned_acceptor_keeps_the_paths_within_the_beam(seed: int) -> None:
    acceptor = acceptors.insert_phones(random_lattice(seed), PHONES, first_phone=100)

    def costs(chosen: acceptors.Acceptor) -> list[float]:
        found, stack = [], [(0, 0.0)]
        while stack:
            state, cost = stack.pop()
            ending = float(chosen.final_graph[state] + chosen.final_acoustic[state])
            if ending < np.inf:
                found.append(cost + ending)
            stack += [(arc[4], cost + arc[2] + arc[3]) for arc in chosen.leaving(state)]
        return sorted(found)

    everything, beam = costs(acceptor), 1.0
    kept = costs(acceptors.prune_acceptor(acceptor, beam))
    within = [cost for cost in everything if cost <= everything[0] + beam - 1e-9]
    np.testing.assert_allclose(kept[: len(within)], within)
    assert len(kept) < len(everything)

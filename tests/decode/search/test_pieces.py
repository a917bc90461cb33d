"""Lattices that are determinized in pieces: the paths of the whole, while the search goes on."""

from collections.abc import Callable
from itertools import islice, pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayes_asr.config.decoding_keys import UNLIMITED, SearchOptions
from bayes_asr.decode.lattices.mbr import decode_mbr
from bayes_asr.decode.lattices.paths import best_paths, count_settled, sweep_words
from bayes_asr.decode.search import compiled
from bayes_asr.decode.search.lattice_session import LatticeSession
from bayes_asr.decode.search.utterance import ENGINES, decode_utterance
from bayes_asr.kaldi_io.lattice import CompactLattice, Lattice
from tests.decode.search.test_search import random_loglikes
from tests.support.decode_cases import (
    CASES,
    Golden,
    assert_same_arrays,
    golden_case,
    random_network,
    word_paths,
)

usable = [name for name in ENGINES if name == "numpy" or compiled.LIBRARY.usable]
WordCosts = dict[tuple[int, ...], float]


def cheapest(lattice: Lattice, beam: float) -> WordCosts:
    """The cost of the cheapest path of each sequence of words, if that is within the beam."""
    arc_costs = (lattice.graph.astype(float) + lattice.acoustic).tolist()
    ending = (lattice.final_graph.astype(float) + lattice.final_acoustic).tolist()
    rows = [
        [(int(lattice.olabel[a]), arc_costs[a], int(lattice.nextstate[a])) for a in range(*span)]
        for span in pairwise(lattice.offsets)
    ]
    ahead = ending[:]
    for state in reversed(range(len(rows))):
        ahead[state] = min([ahead[state], *(cost + ahead[to] for _, cost, to in rows[state])])
    ways: list[WordCosts] = [{} for _ in rows]
    ways[0], ended = {(): 0.0}, {}
    for state, here in enumerate(ways):
        for words, cost in here.items():
            if cost + ahead[state] <= ahead[0] + beam:
                keep_cheaper(ended, words, cost + ending[state])
                for word, more, to in rows[state]:
                    keep_cheaper(ways[to], words + (word,) * (word > 0), cost + more)
    return {words: cost for words, cost in ended.items() if cost <= ahead[0] + beam}


def keep_cheaper(costs: WordCosts, words: tuple[int, ...], cost: float) -> None:
    costs[words] = min(cost, costs.get(words, np.inf))


@pytest.mark.slow
@settings(deadline=None, max_examples=80)
@given(
    seed=st.integers(0, 10_000),
    frames=st.integers(1, 14),
    lattice_beam=st.floats(0.5, 2),
    states=st.sampled_from([2, 5, 12]),
    prune_interval=st.sampled_from([1, 2, 3]),
    name=st.sampled_from(usable),
)
def test_lattice_has_the_cheapest_path_of_each_sequence_of_words(
    seed: int, frames: int, states: int, name: str, **chosen: float
) -> None:
    """Against brute force: all paths of the state-level lattice of the whole utterance."""
    options = SearchOptions(1.0, 20.0, UNLIMITED, 0, allow_partial=True, **chosen)
    network, loglikes = random_network(seed, states), random_loglikes(seed, frames)
    whole, reached = ENGINES[name].search(network, loglikes, options)
    session = LatticeSession(network, "utt", options, ENGINES[name])
    for part in np.array_split(loglikes, 1 + seed % 4):
        session.advance(part)
    lattice, reached_too = session.finish()
    assert (lattice is None, reached_too) == (whole is None, reached)
    if lattice is None or whole is None:
        return
    paths = list(word_paths(lattice))
    costs = {words: graph + acoustic for words, _, graph, acoustic in paths}
    assert len(costs) == len(paths)  # deterministic
    within = cheapest(whole, options.lattice_beam - 0.01)
    assert {words: costs.get(words) for words in within} == pytest.approx(within, abs=0.01)
    # Paths beyond the beam may take arcs of paths within it, at no lower cost than there is.
    there = cheapest(whole, max(costs.values()) - min(costs.values()) + 0.1)
    assert all(cost > there[words] - 0.01 for words, cost in costs.items())
    assert len({len(tids) for _, tids, *_ in paths}) == 1


@pytest.mark.skipif(not compiled.LIBRARY.usable, reason="the C++ decoder is not built")
@pytest.mark.parametrize("seed", [1, 2])
def test_native_pieces_equal_the_reference(seed: int) -> None:
    options = SearchOptions(1.0, 3.0, UNLIMITED, 0, 1.0, allow_partial=True, prune_interval=1)
    network, loglikes = random_network(seed, 5), random_loglikes(seed, 10)
    sessions = [LatticeSession(network, "utt", options, ENGINES[each]) for each in usable]
    for session in sessions:
        session.advance(loglikes)
    one, other = (session.finish()[0] for session in sessions)
    assert isinstance(one, CompactLattice)
    assert isinstance(other, CompactLattice)
    assert_same_arrays(one, other)


@pytest.fixture(scope="module", params=CASES, ids="-".join)
def golden(request: pytest.FixtureRequest, kaldi_corpus: Callable[[str], Path]) -> Golden:
    return golden_case(kaldi_corpus, *request.param)


@pytest.mark.slow
@pytest.mark.skipif(not compiled.LIBRARY.usable, reason="the C++ decoder is not built")
def test_real_speech_has_the_paths_and_confidences_of_the_whole(golden: Golden) -> None:
    network, options, engine = golden.network(), golden.options("a"), ENGINES["native"]
    lmwt, apart = 1 / golden.scale, []
    for utt, loglikes in islice(golden.matrices(), 8):
        whole = decode_utterance(network, utt, loglikes, options, engine).lattice
        session = LatticeSession(network, utt, options, engine)
        for part in np.array_split(loglikes, 20):
            session.advance(part)
        pieces, _ = session.finish()
        assert whole is not None
        assert pieces is not None
        expected, found = (costs_within(x, lmwt, options.lattice_beam) for x in (whole, pieces))
        assert expected.keys() == found.keys()
        assert expected == pytest.approx(found, abs=0.01)
        timed, twins = (decode_mbr(x, lmwt, change_words=False).words for x in (whole, pieces))
        assert [word.word for word in timed] == [word.word for word in twins]
        apart += [abs(a.confidence - b.confidence) for a, b in zip(timed, twins, strict=True)]
    # The recursion takes means at states; these, and the paths beyond the beam, are not the same.
    assert np.mean(np.array(apart) > 0.01) < 0.05
    assert max(apart) < 0.1


def costs_within(lattice: CompactLattice, lmwt: float, beam: float) -> WordCosts:
    """The costs of up to 300 paths that are well within the beam."""
    paths = best_paths(lattice, 300, lmwt)
    costs = {tuple(path.words): path.graph_cost + path.acoustic_cost / lmwt for path in paths}
    limit = min(costs.values()) + beam
    worst = max(costs.values()) if len(costs) == 300 else np.inf
    return {words: cost for words, cost in costs.items() if cost < min(limit, worst) - 0.02}


@pytest.mark.parametrize("name", usable)
def test_words_that_are_settled_at_other_weights_stay(name: str) -> None:
    options = SearchOptions(1.0, 15.0, UNLIMITED, 0, 2.0, allow_partial=True, prune_interval=3)
    weights = (0.7, 0.3)
    most = 0
    for seed in range(3):
        network = random_network(seed, 5)
        session = LatticeSession(network, "utt", options, ENGINES[name])
        settled: list[int] = []
        for frame in random_loglikes(seed, 40):
            if session.advance(frame[None]):
                lattice = session.read_pieces()
                count = count_settled(lattice, *weights)
                words = sweep_words(lattice, [weights])[0][:count]
                assert words[: len(settled)] == settled
                settled = words
        lattice, _ = session.finish()
        assert sweep_words(lattice, [weights])[0][: len(settled)] == settled
        most = max(most, len(settled))
    assert most > 5

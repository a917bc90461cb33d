"""Searches of utterances in pieces: they end as the whole does, and what is settled stays."""

from dataclasses import is_dataclass, replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayes_asr.config.decoding_keys import UNLIMITED, SearchOptions
from bayes_asr.decode.search import compiled
from bayes_asr.decode.search.utterance import ENGINES
from tests.decode.search.test_search import random_loglikes
from tests.support.decode_cases import assert_same_arrays, random_network

usable = [name for name in ENGINES if name == "numpy" or compiled.LIBRARY.usable]


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 10_000),
    pieces=st.lists(st.integers(0, 12), min_size=1, max_size=6),
    beam=st.floats(0.5, 20),
    lattice_beam=st.floats(0.5, 10),
    max_active=st.sampled_from([2, 5, UNLIMITED]),
    states=st.sampled_from([2, 12]),
    prune_interval=st.sampled_from([3, 25]),
)
def test_pieces_give_what_the_whole_gives(
    seed: int, pieces: list[int], states: int, **chosen: float
) -> None:
    options = SearchOptions(1.0, min_active=0, allow_partial=bool(seed % 2), **chosen)
    network, loglikes = random_network(seed, states), random_loglikes(seed, sum(pieces))
    # Every engine is told of each piece; after it their best paths are the same.
    engines = [ENGINES[name] for name in usable]
    sessions = [engine.open(network, options) for engine in engines]
    settled: list[int] = []
    for piece in np.split(loglikes, np.cumsum(pieces)[:-1]):
        for session in sessions:
            session.advance(piece)
        path, *twins = [session.trace() for session in sessions]
        for twin in twins:
            assert twin.fixed == path.fixed
            for name in ("word", "frame", "tid"):
                np.testing.assert_array_equal(getattr(twin, name), getattr(path, name))
        assert len(path.word) == len(path.frame)
        assert np.all(np.diff(path.frame) >= 0)
        assert path.word[: len(settled)].tolist() == settled
        settled = path.word[: path.fixed].tolist()
    for engine, session in zip(engines, sessions, strict=True):
        lattice, reached = session.finish()
        whole, reached_too = engine.search(network, loglikes, options)
        assert (lattice is None, reached) == (whole is None, reached_too)
        if lattice is not None and whole is not None:
            assert_same_arrays(lattice, whole)
            arcs, _ = engine.best_arcs(lattice)
            words = lattice.olabel[arcs]
            assert words[words > 0].tolist()[: len(settled)] == settled


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 10_000),
    frames=st.integers(0, 60),
    beam=st.floats(2, 20),
    lattice_beam=st.floats(0.5, 8),
    states=st.sampled_from([2, 5, 12]),
    prune_interval=st.sampled_from([2, 3, 5]),
)
def test_what_is_taken_of_the_lattice_changes_nothing_else(
    seed: int, frames: int, states: int, **chosen: float
) -> None:
    """Engines give the same pieces; the best path is that of a session which keeps all."""
    options = SearchOptions(1.0, min_active=0, allow_partial=bool(seed % 2), **chosen)
    network, loglikes = random_network(seed, states), random_loglikes(seed, frames)
    keeping = [ENGINES[name].open(network, options) for name in usable]
    giving = [ENGINES[name].open(network, options, True) for name in usable]
    for frame in loglikes:
        for session in (*keeping, *giving):
            session.advance(frame[None])
        assert_same(*(session.trace() for session in (*keeping, *giving)))
        taken = [session.take() for session in giving]
        assert [piece is None for piece in taken] == [taken[0] is None] * len(taken)
        if taken[0] is not None:
            assert_same(*taken)
    last, _ = zip(*(session.finish_piece() for session in giving), strict=True)
    if last[0] is not None:
        assert_same(*last)


def assert_same(first: object, *others: object) -> None:
    """Of dataclasses: all values, and types of arrays."""
    for other in others:
        for name, value in vars(first).items():
            twin = getattr(other, name)
            if is_dataclass(value):
                assert_same(value, twin)
            else:
                np.testing.assert_array_equal(value, twin, err_msg=name)
                assert getattr(value, "dtype", None) == getattr(twin, "dtype", None), name


@pytest.mark.slow
@pytest.mark.parametrize("name", usable)
def test_what_is_settled_is_what_no_later_frame_can_change(name: str) -> None:
    """Against brute force: the words that the best paths of many continuations have in common."""
    options = SearchOptions(1.0, 1e6, UNLIMITED, 0, lattice_beam=1e6, allow_partial=True)
    found = 0
    for seed in range(12):
        network, loglikes = random_network(seed), random_loglikes(seed, 30)
        session = ENGINES[name].open(network, options)
        session.advance(loglikes[:20])
        path = session.trace()
        assert len(path.tid) == 20
        found += path.fixed
        for other in range(20):
            end = 30 * random_loglikes(100 * seed + other, 10)
            ended = np.concatenate([loglikes[:20], end])
            lattice, _ = ENGINES[name].search(network, ended, options)
            assert lattice is not None
            arcs, _ = ENGINES[name].best_arcs(lattice)
            words = lattice.olabel[arcs]
            assert words[words > 0].tolist()[: path.fixed] == path.word[: path.fixed].tolist()
    assert found > 12


@pytest.mark.parametrize("name", usable)
def test_best_path_of_a_whole_utterance_is_that_of_its_lattice(name: str) -> None:
    """Where every state may end a path, at no cost."""
    for seed in range(6):
        network, loglikes = random_network(seed), random_loglikes(seed, 40)
        network = replace(network, final=np.zeros_like(network.final))
        options = SearchOptions(1.0, 15.0, UNLIMITED, 0, lattice_beam=6.0)
        session = ENGINES[name].open(network, options)
        session.advance(loglikes)
        path = session.trace()
        lattice, _ = session.finish()
        assert lattice is not None
        arcs, _ = ENGINES[name].best_arcs(lattice)
        words, tids = lattice.olabel[arcs], lattice.ilabel[arcs]
        assert path.word.tolist() == words[words > 0].tolist()
        assert path.tid.tolist() == tids[tids > 0].tolist()


@pytest.mark.skipif(not compiled.LIBRARY.usable, reason="the C++ decoder is not built")
def test_a_session_that_is_dropped_gives_its_memory_back() -> None:
    network, options = random_network(0), SearchOptions(1.0)
    for _ in range(3):
        ENGINES["native"].open(network, options).advance(random_loglikes(0, 5))


@pytest.mark.skipif(not compiled.LIBRARY.usable, reason="the C++ decoder is not built")
def test_a_session_that_is_over_is_refused() -> None:
    session = ENGINES["native"].open(random_network(0), SearchOptions(1.0))
    session.advance(random_loglikes(0, 5))
    session.finish()
    for call in (session.trace, session.finish, partial(session.advance, random_loglikes(0, 5))):
        with pytest.raises(ValueError, match="the utterance is over"):
            call()

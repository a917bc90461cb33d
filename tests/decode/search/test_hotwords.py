"""Hotwords against counting phrases, and against a graph that is composed with them before."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bayes_asr.base.errors import InputError
from bayes_asr.config.decoding_keys import UNLIMITED, SearchOptions
from bayes_asr.decode.search import compiled
from bayes_asr.decode.search.hotwords import (
    Hotword,
    attach_hotwords,
    build_automaton,
    read_hotwords,
)
from bayes_asr.decode.search.search_graph import Arcs, DecodingGraph, HotwordArcs
from bayes_asr.decode.search.utterance import ENGINES
from tests.decode.search.test_search import random_loglikes
from tests.support.decode_cases import assert_same_arrays, random_network

WORDS = st.integers(1, 3)
PHRASES = st.dictionaries(
    st.lists(WORDS, min_size=1, max_size=4).map(tuple), st.floats(-3, 5), min_size=1, max_size=5
)


def walk(automaton: HotwordArcs, words: list[int]) -> float:
    """The cost of words by the automaton, with that of ending behind them."""
    state, cost = 0, 0.0
    for word in words:
        column = automaton.word_class[word]
        cost += float(automaton.weight[state, column])
        state = int(automaton.nextstate[state, column])
    return cost + float(automaton.final[state])


@settings(deadline=None)
@given(phrases=PHRASES, words=st.lists(st.integers(1, 5), max_size=12))
def test_each_occurrence_of_a_phrase_gains_its_weight_for_each_word(
    phrases: dict[tuple[int, ...], float], words: list[int]
) -> None:
    gain = sum(
        weight * len(phrase)
        for phrase, weight in phrases.items()
        for begin in range(len(words))
        if tuple(words[begin : begin + len(phrase)]) == phrase
    )
    assert walk(build_automaton(phrases, 6), words) == pytest.approx(-gain, abs=1e-4)


def test_a_phrase_that_has_begun_gains_in_advance() -> None:
    automaton = build_automaton({(1, 2): 2.0}, 4)
    assert automaton.weight[0, automaton.word_class[1]] == -2


def composed(graph: DecodingGraph, hotwords: HotwordArcs) -> DecodingGraph:
    """The same graph as pairs of its states and those of the automaton."""
    numbers = {(graph.start, 0): 0}
    pairs = [(graph.start, 0)]
    kinds: dict[str, list[list[tuple[int, int, float, int, int]]]] = {"emitting": [], "epsilon": []}
    for place, history in pairs:  # grows meanwhile
        for kind, rows in kinds.items():
            arcs, row = getattr(graph, kind), []
            for arc in range(arcs.offsets[place], arcs.offsets[place + 1]):
                word, after, extra = int(arcs.olabel[arc]), history, np.float32(0)
                if word:
                    column = hotwords.word_class[word]
                    after = int(hotwords.nextstate[history, column])
                    extra = hotwords.weight[history, column]
                pair = (int(arcs.nextstate[arc]), after)
                if pair not in numbers:
                    numbers[pair] = len(pairs)
                    pairs.append(pair)
                weight = float(arcs.weight[arc] + extra)
                row.append((int(arcs.ilabel[arc]), word, weight, numbers[pair], arc))
            rows.append(row)
    tables = {}
    for kind, rows in kinds.items():
        offsets = np.cumsum([0, *map(len, rows)]).astype(np.int64)
        columns = [*zip(*(arc for row in rows for arc in row), strict=True)] or [()] * 5
        ilabel, olabel, nextstate, source = (np.array(columns[i], np.int32) for i in (0, 1, 3, 4))
        tables[kind] = (
            Arcs(offsets, ilabel, olabel, np.array(columns[2], np.float32), nextstate),
            source,
        )
    ends = [graph.final[place] + hotwords.final[history] for place, history in pairs]
    emitting, source = tables["emitting"]
    column = graph.column[source]
    return replace(
        graph,
        start=0,
        final=np.array(ends, np.float32),
        emitting=emitting,
        epsilon=tables["epsilon"][0],
        column=column,
        hotwords=None,
    )


@pytest.mark.skipif(not compiled.LIBRARY.usable, reason="the C++ decoder is not built")
@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 1000), frames=st.integers(1, 30), phrases=PHRASES)
@example(seed=698, frames=1, phrases={(1,): 0.0})
def test_search_gives_what_the_composed_graph_gives(
    seed: int, frames: int, phrases: dict[tuple[int, ...], float]
) -> None:
    network, loglikes = random_network(seed), random_loglikes(seed, frames)
    network = replace(network, hotwords=build_automaton(phrases, 100))
    assert network.hotwords is not None
    options = SearchOptions(1.0, 1e6, UNLIMITED, 0, lattice_beam=3.0, allow_partial=True)
    paths: list[tuple[list[int], bool, int, float]] = []
    for graph in (network, composed(network, network.hotwords)):
        lattice, reached = ENGINES["native"].search(graph, loglikes, options)
        if lattice is None:  # a random network may have no path: then neither graph has one
            paths.append(([], reached, 0, 0.0))
            continue
        arcs, last = compiled.best_arcs(lattice)
        cost = (lattice.graph + lattice.acoustic)[arcs].sum() + lattice.final_graph[last]
        words = lattice.olabel[arcs]
        paths.append((words[words > 0].tolist(), reached, len(lattice.nextstate), cost))
    (*ours, our_cost), (*theirs, their_cost) = paths
    assert ours == theirs
    assert our_cost == pytest.approx(their_cost, abs=1e-3)


@pytest.mark.skipif(not compiled.LIBRARY.usable, reason="the C++ decoder is not built")
def test_columns_in_another_order_are_the_same_hotwords() -> None:
    network, loglikes = random_network(0), random_loglikes(0, 20)
    options = SearchOptions(1.0, 1e6, UNLIMITED, 0, lattice_beam=3.0, allow_partial=True)
    hotwords = build_automaton({(1, 2): 3.0, (2,): 1.0}, 100)
    reordered = replace(
        hotwords,
        nextstate=np.asfortranarray(hotwords.nextstate),
        weight=np.asfortranarray(hotwords.weight, np.float64),
    )
    lattices = []
    for automaton in (hotwords, reordered):
        session = ENGINES["native"].open(replace(network, hotwords=automaton), options)
        # What takes the place of columns that were given back.
        held = [np.full(automaton.weight.shape, 7, np.int32) for _ in range(50)]
        session.advance(loglikes)
        lattice, _ = session.finish()
        assert lattice is not None
        assert len(held) == 50
        lattices.append(lattice)
    assert_same_arrays(*lattices)


def test_lines_are_phrases_weights_and_phones(tmp_path: Path) -> None:
    path = tmp_path / "hotwords"
    path.write_text(
        "new york :2.5\nzoe /z ow iy/\nxu :-1 /x u/\n\nplain\n24/7/365\na\u00a0b /a\u3000b/\n"
    )
    assert read_hotwords(path) == [
        Hotword(("new", "york"), 2.5),
        Hotword(("zoe",), phones=("z", "ow", "iy")),
        Hotword(("xu",), -1.0, ("x", "u")),
        Hotword(("plain",)),
        Hotword(("24/7/365",)),
        Hotword(("a\u00a0b",), phones=("a\u3000b",)),
    ]


@pytest.mark.parametrize(
    "text", ["bought :10\nbought /b ao t/\nx\n", "bought /b ao t/\nbought :10\nx\nbought :10\n"]
)
def test_lines_of_a_phrase_have_the_weight_of_one(text: str, tmp_path: Path) -> None:
    (tmp_path / "hotwords").write_text(text)
    weights = {(hotword.words, hotword.weight) for hotword in read_hotwords(tmp_path / "hotwords")}
    assert weights == {(("bought",), 10.0), (("x",), 3.0)}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no word"),
        (":2", "line 1: has no word before its weight"),
        ("a :x", "line 1: ':x' is no weight"),
        ("a :1e9", "line 1: weight 1e+09; take -100 to 100"),
        ("a b /x/", "line 1: gives phones to 2 words"),
        ("a /x/ :2", "line 1: write it as WORD :WEIGHT /PHONES/, and nothing behind the phones"),
        ("a b :2\na\n\na b :3", "a b has weight 2 in line 1 and 3 in line 4"),
        ("a\nto <s>", "line 2: <s> is reserved"),
        ("#0", "line 1: #0 is reserved"),
        ("a / /", "line 1: write it as WORD :WEIGHT /PHONES/"),
    ],
)
def test_other_lines_are_named(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "hotwords").write_text(text + "\n" * bool(text))
    with pytest.raises(InputError, match=message.replace("+", r"\+")):
        read_hotwords(tmp_path / "hotwords")


@pytest.mark.skipif(not compiled.LIBRARY.usable, reason="the C++ decoder is not built")
def test_words_that_the_graph_lacks_are_named() -> None:
    with pytest.raises(InputError, match="lacks nobody; bayes-asr graph"):
        attach_hotwords(random_network(0), [Hotword(("nobody",))], {"a": 1}, "file")


@pytest.mark.skipif(not compiled.LIBRARY.usable, reason="the C++ decoder is not built")
@pytest.mark.parametrize("kind", ["emitting", "epsilon"])
def test_words_that_no_arc_writes_are_named(kind: str) -> None:
    """The lexicon, and so words.txt, may have more words than the language model."""
    network, words = random_network(0), {"<eps>": 0, "said": 1, "unsaid": 2}
    for name in ("emitting", "epsilon"):
        arcs = getattr(network, name)
        label = np.full(len(arcs.olabel), name == kind, np.int32)
        network = replace(network, **{name: replace(arcs, olabel=label)})
    assert attach_hotwords(network, [Hotword(("said",))], words, "file").hotwords
    for phrase in ("unsaid",), ("said", "unsaid"), ("<eps>",):
        with pytest.raises(InputError, match=f"lacks {phrase[-1]};"):
            attach_hotwords(network, [Hotword(phrase)], words, "file")
    for said, other in ("said", "Said"), ("s\u00e1id", "sa\u0301id"):
        with pytest.raises(InputError, match=f"lacks {other}; it has {said}: "):
            attach_hotwords(network, [Hotword((other,))], {said: 1}, "file")

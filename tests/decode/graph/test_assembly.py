"""Training graphs against compositions by kaldifst, as Kaldi makes them, over every frame."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayes_asr.base.errors import InputError
from bayes_asr.decode.graph.assembly import Hmms, assemble, expand_context
from bayes_asr.decode.graph.compose import compose_graph
from bayes_asr.decode.graph.lexicon import Pronunciation, build_lexicon_fst, number_words
from bayes_asr.decode.graph.topology import build_topology
from bayes_asr.decode.graph.transcript_acceptors import LexiconTransducer
from bayes_asr.decode.graph.transducers import build_fst, sources
from bayes_asr.decode.graph.transition_index import index_transitions, transition_costs
from bayes_asr.kaldi_io.context_dependency import Leaf, Node, Split, Table, Tree
from bayes_asr.kaldi_io.fst import read_fst
from bayes_asr.kaldi_io.initial_mdl import build_transition_model
from bayes_asr.kaldi_io.mdl import read_transition_model
from bayes_asr.kaldi_io.openfst import Fst
from bayes_asr.kaldi_io.symbols import read_symbols
from bayes_asr.kaldi_io.text import read_text
from bayes_asr.kaldi_io.transition_model import TransitionModel, pdf_class_counts
from bayes_asr.kaldi_io.tree import read_tree

pytest.importorskip("kaldifst")
PHONES = {"<eps>": 0, "sil": 1, "a": 2, "b": 3, "#0": 4}
# "a b" is said like "ab", and "pause" like a pause: the costs of both ways add up.
LEXICON = [
    Pronunciation("ab", 1.0, ("a", "b")),
    Pronunciation("ab", 0.25, ("b",)),
    Pronunciation("a", 0.5, ("a",)),
    Pronunciation("a", 0.25, ("a", "b")),
    Pronunciation("b", 1.0, ("b",)),
    Pronunciation("pause", 1.0, ("sil",)),
]
WORDS = number_words(LEXICON)


def grow_tree(width: int, center: int, seed: int) -> tuple[TransitionModel, Tree]:
    """Silence with skips, two phones of two states; each state asks for some phones around it."""
    rng = np.random.default_rng(seed)
    topology = build_topology([2, 3], [1], 2, 4)
    pdfs = iter(range(1000))

    def grow(depth: int) -> Node:
        if depth == 0 or width == 1:
            return Leaf(next(pdfs))
        key = int(rng.integers(width))
        chosen = frozenset(np.flatnonzero(rng.integers(0, 2, 4)).tolist())
        return Split(key, chosen, grow(depth - 1), grow(depth - 1))

    counts = pdf_class_counts(topology)
    phones = [
        Table(-1, tuple(grow(0 if p == 1 else 2) for _ in range(counts[p]))) if p else None
        for p in range(4)
    ]
    tree = Tree(width, center, Table(center, tuple(phones)))
    windows = np.indices((4,) * width).reshape(width, -1).T
    rows = {
        (int(w[center]), state, tree.pdf(w.tolist(), state), tree.pdf(w.tolist(), state))
        for w in windows
        if w[center]
        for state in range(counts[int(w[center])])
    }
    return build_transition_model(topology, sorted(rows)), tree


def pass_frames(graph: Fst, costs: np.ndarray, best: bool) -> float:
    """The cost of the best path, or of all together, through frames that cost [T, tids]."""
    source, add = sources(graph), np.minimum if best else lambda a, b: -np.logaddexp(-a, -b)
    emits = graph.ilabel > 0

    def step(here: np.ndarray, chosen: np.ndarray, extra: np.ndarray) -> np.ndarray:
        there = np.full(graph.num_states, np.inf)
        through = here[source[chosen]] + graph.weight[chosen] + extra
        for state, cost in zip(graph.nextstate[chosen].tolist(), through.tolist(), strict=True):
            there[state] = add(there[state], cost)
        return there

    def close(here: np.ndarray) -> np.ndarray:
        whole, moved = here, here
        while np.isfinite(moved).any():
            moved = step(moved, ~emits, np.zeros(np.count_nonzero(~emits)))
            whole = add(whole, moved)
        return whole

    here = np.full(graph.num_states, np.inf)
    here[graph.start] = 0.0
    with np.errstate(invalid="ignore"):
        here = close(here)
        for frame in costs:
            here = close(step(here, emits, frame[graph.ilabel[emits]]))
        ends = here + graph.final
    return float(ends.min() if best else -np.logaddexp.reduce(-ends))


def compose_as_kaldi(
    lexicon: Fst, said: Sequence[int], model: TransitionModel, tree: Tree, marks: Sequence[int]
) -> Fst:
    """What compile-train-graphs makes of word-ids."""
    words = [(i, word, word, 0.0, i + 1) for i, word in enumerate(said)]
    spoken = build_fst(words, {len(said): 0.0})
    return compose_graph(lexicon, spoken, marks, model, tree, 0.0, 0.0)[0]


def compile_here(lexicon: Fst, said: Sequence[int], model: TransitionModel, tree: Tree) -> Fst:
    acceptor = LexiconTransducer(lexicon).transcript_acceptor(said)
    return assemble(*expand_context(acceptor, tree), Hmms(model, tree))


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.sampled_from(["ab", "a", "b", "pause"]), min_size=1, max_size=4),
    st.sampled_from([(1, 0), (2, 1), (3, 1)]),
    st.sampled_from([0.0, 0.3]),
    st.integers(1, 25),
    st.integers(0, 10**6),
)
def test_graphs_are_worth_what_kaldis_are(
    words: list[str], context: tuple[int, int], silence: float, frames: int, seed: int
) -> None:
    model, tree = grow_tree(*context, seed)
    pause = ("sil",) if silence else ()
    fst = build_lexicon_fst(LEXICON, PHONES, WORDS, pause, silence, backoff=False)
    said = [WORDS[word] for word in words]
    ours, kaldis = (
        compile_here(fst, said, model, tree),
        compose_as_kaldi(fst, said, model, tree, [4]),
    )
    assert not ours.olabel.any()
    rng = np.random.default_rng(seed)
    costs = rng.normal(0, 3, (frames, model.num_transition_ids + 1))
    for best in (True, False):
        expected = pass_frames(kaldis, costs, best)
        assert pass_frames(ours, costs, best) == pytest.approx(expected, abs=3e-3)


@pytest.mark.parametrize("corpus", ["timit_sample", "an4"])
def test_graphs_of_real_trees_are_worth_what_kaldis_are(
    corpus: str, kaldi_corpus: Callable[[str], Path]
) -> None:
    root = kaldi_corpus(corpus)
    lang, exp = root / "data" / "lang", root / "exp" / "tri3_ali"
    lexicon, words = read_fst(lang / "L.fst"), read_symbols(lang / "words.txt")
    marks = [*map(int, (lang / "phones" / "disambig.int").read_text().split())]
    model, tree = read_transition_model(exp / "final.mdl"), read_tree(exp / "tree")
    rng = np.random.default_rng(1)
    for text in [*read_text(root / "data" / "train" / "text").values()][:2]:
        said = [words[word] for word in text]
        kaldis = compose_as_kaldi(lexicon, said, model, tree, marks)
        ours = compile_here(lexicon, said, model, tree)
        costs = rng.normal(0, 3, (200, model.num_transition_ids + 1))
        expected = pass_frames(kaldis, costs, True)
        assert pass_frames(ours, costs, True) == pytest.approx(expected, abs=3e-3)
        assert ours.num_states <= 1.1 * kaldis.num_states
        assert np.count_nonzero(ours.ilabel == 0) < len(model.topology)


def test_transitions_cost_what_they_do_in_decoding_graphs() -> None:
    """Costs by transition-id are those of `compose_graph`, which puts them on states."""
    model, tree = grow_tree(3, 1, 7)
    fst = build_lexicon_fst(LEXICON, PHONES, WORDS, ("sil",), 0.3, backoff=False)
    said = [WORDS["ab"], WORDS["pause"]]
    words = build_fst([(i, w, w, 0.0, i + 1) for i, w in enumerate(said)], {len(said): 0.0})
    weighted, _ = compose_graph(fst, words, [4], model, tree, 1.0, 0.1)
    ours = compile_here(fst, said, model, tree)
    acoustic = np.random.default_rng(7).normal(0, 3, (15, model.num_transition_ids + 1))
    costs = acoustic + transition_costs(model, index_transitions(model))
    expected = pass_frames(weighted, acoustic, True)
    assert pass_frames(ours, costs, True) == pytest.approx(expected, abs=3e-3)


def test_costs_of_equal_ways_add_up() -> None:
    fst = build_lexicon_fst(LEXICON, PHONES, WORDS, ("sil",), 0.3, backoff=False)
    acceptor = LexiconTransducer(fst).transcript_acceptor([WORDS["pause"]])
    costs = {2: 0.0, 1: 0.0}
    arcs = {(source, phone): (cost, target) for source, phone, cost, target in acceptor.arcs}
    for times in costs:
        state, total = 0, 0.0
        for _ in range(times):
            cost, state = arcs[state, 1]
            total += cost
        costs[times] = total + acceptor.final[state]
    assert costs[1] == pytest.approx(-math.log(0.7 * 0.7))
    assert costs[2] == pytest.approx(-math.log(2 * 0.7 * 0.3))


def test_what_nobody_can_say_is_refused() -> None:
    lexicon = LexiconTransducer(build_lexicon_fst(LEXICON, PHONES, WORDS, backoff=False))
    with pytest.raises(InputError, match="the transcript is empty"):
        lexicon.transcript_acceptor([])
    with pytest.raises(InputError, match="no way to say"):
        lexicon.transcript_acceptor([WORDS["a"], WORDS["<s>"]])
    round_ = build_fst([(0, 2, WORDS["a"], 0.0, 0), (0, 0, 0, 1.0, 1), (1, 0, 0, 1.0, 0)], {0: 0.0})
    with pytest.raises(InputError, match="goes round without a phone"):
        LexiconTransducer(round_).transcript_acceptor([WORDS["a"]])


def test_chain_of_epsilons_is_refused() -> None:
    """Not followed as deep as it goes."""
    fst = build_fst([(n, 0, 0, 0.0, n + 1) for n in range(3000)], {3000: 0.0})
    with pytest.raises(InputError, match=r"101 arcs without a phone"):
        LexiconTransducer(fst).transcript_acceptor([1])


LOOPS = [(0, 2, 0, 0.0, 1), (0, 2, 0, 0.0, 2), (1, 2, 0, 1.0, 1), (2, 2, 0, 0.5, 2)]


@pytest.mark.parametrize(
    "loops",
    [
        [*LOOPS, (1, 3, 1, 0.0, 3), (2, 3, 1, 0.0, 3)],  # each changes what two ways differ by
        [(0, 2, 0, math.inf, 0), (0, 3, 1, 0.0, 3)],  # and here they differ by no number
    ],
)
def test_a_lexicon_that_cannot_be_made_deterministic_is_refused(loops: Any) -> None:
    """Any number of phones 2 may come before the word."""
    lexicon = LexiconTransducer(build_fst(loops, {3: 0.0}))
    with pytest.raises(InputError, match="of 1 words cannot be made deterministic within 2000 st"):
        lexicon.transcript_acceptor([1])

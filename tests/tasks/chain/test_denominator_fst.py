"""The denominator graph against all ways to say a sequence of pdfs, phone by phone."""

import math
from collections import defaultdict
from collections.abc import Iterator
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayes_asr.base.errors import InputError
from bayes_asr.decode.graph.transducers import PhoneAcceptor, build_fst, sources
from bayes_asr.kaldi_io.context_dependency import Tree
from bayes_asr.kaldi_io.openfst import Fst
from bayes_asr.tasks.chain.denominator_fst import build_denominator_fst
from bayes_asr.tasks.chain.denominator_graph import DenominatorGraph
from bayes_asr.tasks.chain.phone_lm import PhoneLmOptions, estimate_phone_lm
from bayes_asr.tasks.chain.pushing import push
from tests.support.chain_models import PHONES, chain_model, chain_tree, spread_phones

LONGEST = 4
LM = estimate_phone_lm([[1, 2, 3], [3, 3, 2], [2], [1, 1, 2, 3], [3, 2]], PhoneLmOptions(3, 2, 2))
Strings = dict[tuple[int, ...], float]


def say(phones: tuple[int, ...], model: PhoneAcceptor) -> float:
    """The probability of phones and the end."""
    onward = {(source, phone): (cost, target) for source, phone, cost, target in model.arcs}
    state, total = 0, 0.0
    for phone in phones:
        if (state, phone) not in onward:
            return 0.0
        cost, state = onward[state, phone]
        total += cost
    return math.exp(-total - model.final[state]) if state in model.final else 0.0


def splits(frames: int, parts: int) -> Iterator[list[int]]:
    for cuts in combinations(range(1, frames), parts - 1):
        yield np.diff([0, *cuts, frames]).tolist()


def enumerate_strings(frames: int) -> Strings:
    """What each sequence of pdfs sums to; each frame has a transition of probability 0.5."""
    found: Strings = defaultdict(float)
    for number in range(1, frames + 1):
        for phones in product(PHONES, repeat=number):
            for durations in splits(frames, number):
                pdfs = tuple(spread_phones([*phones], durations, chain_tree()))
                found[pdfs] += say(phones, LM) * 0.5**frames
    return {pdfs: prob for pdfs, prob in found.items() if prob > 0}


def strings_of(fst: Fst, frames: int) -> Strings:
    """What each sequence of labels less 1 sums to in an acceptor."""
    found: Strings = {}
    reached = {(): np.eye(1, fst.num_states, fst.start)[0]}
    prob, source = np.exp(-fst.weight.astype(float)), sources(fst)
    for _ in range(frames):
        after: dict[tuple[int, ...], np.ndarray] = {}
        for string, mass in reached.items():
            for label in np.unique(fst.ilabel).tolist():
                own = fst.ilabel == label
                moved = (mass[source] * prob)[own]
                if moved.any():
                    target = fst.nextstate[own]
                    after[*string, label - 1] = np.bincount(target, moved, fst.num_states)
        reached = after
    for string, mass in reached.items():
        if ended := mass @ np.exp(-fst.final.astype(float)):
            found[string] = float(ended)
    return found


def random_acceptor(seed: int, states: int = 6, arcs: int = 15) -> Fst:
    """One in which every state is reached and ends."""
    rng = np.random.default_rng(seed)
    source = np.concatenate([np.arange(states), rng.integers(0, states, arcs - states)])
    target = np.concatenate([np.roll(np.arange(states), 1), rng.integers(0, states, arcs - states)])
    rows = zip(source.tolist(), rng.integers(1, 4, arcs).tolist(), target.tolist(), strict=True)
    costs = rng.exponential(1, arcs).tolist()
    listed = [(a, label, label, cost, b) for (a, label, b), cost in zip(rows, costs, strict=True)]
    return build_fst(listed, {state: float(rng.exponential(1)) for state in range(states)})


@pytest.mark.parametrize("frames", range(1, LONGEST + 1))
def test_paths_are_phones_in_context_with_all_durations(frames: int) -> None:
    fst = build_denominator_fst(LM, chain_model(), chain_tree())
    assert strings_of(fst, frames) == pytest.approx(enumerate_strings(frames), rel=1e-5)


def test_states_sum_to_the_same_and_are_all_reached() -> None:
    fst = build_denominator_fst(LM, chain_model(), chain_tree())
    graph = DenominatorGraph.of_fst(fst, chain_model().num_pdfs)
    sums = np.bincount(graph.source, graph.prob) + np.exp(-fst.final)
    np.testing.assert_allclose(sums, sums[0], rtol=1e-4)
    assert graph.initial.sum() == pytest.approx(1.0)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_pushed_states_sum_to_the_largest_eigenvalue(seed: int) -> None:
    fst = random_acceptor(seed)
    pushed = push(fst)
    leaving = np.bincount(sources(pushed), np.exp(-pushed.weight)) + np.exp(-pushed.final)
    matrix = np.zeros((fst.num_states, fst.num_states))
    np.add.at(matrix, (sources(fst), fst.nextstate), np.exp(-fst.weight))
    matrix[:, fst.start] += np.exp(-fst.final)
    np.testing.assert_allclose(leaving, np.abs(np.linalg.eigvals(matrix)).max(), rtol=1e-4)
    assert strings_of(pushed, 3) == pytest.approx(strings_of(fst, 3), rel=1e-4)


def test_trees_that_ask_for_the_phone_after_are_refused() -> None:
    tree = Tree(3, 1, chain_tree().root)
    with pytest.raises(InputError, match="1 phones to the right"):
        build_denominator_fst(LM, chain_model(), tree)

"""The phone language model against counts along its own paths and by hand."""

import math
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayes_asr.base.errors import InputError
from bayes_asr.decode.graph.transducers import PhoneAcceptor
from bayes_asr.tasks.chain.phone_lm import PhoneLmOptions, estimate_phone_lm

SMALL = settings(max_examples=40, deadline=None)
UTTERANCES = st.lists(st.lists(st.integers(1, 4), min_size=1, max_size=12), min_size=1, max_size=12)


def follow(model: PhoneAcceptor, phones: list[int]) -> list[tuple[int, int]]:
    """The state before each phone and before the end (0) of an utterance."""
    onward = {(source, phone): target for source, phone, _, target in model.arcs}
    state, steps = 0, []
    for phone in phones:
        steps.append((state, phone))
        state = onward[state, phone]
    return [*steps, (state, 0)]


def shares(model: PhoneAcceptor) -> dict[tuple[int, int], float]:
    found = {(source, phone): math.exp(-cost) for source, phone, cost, _ in model.arcs}
    return found | {(state, 0): math.exp(-cost) for state, cost in model.final.items()}


def log_likelihood(model: PhoneAcceptor, utterances: list[list[int]]) -> float:
    known = shares(model)
    return sum(math.log(known[step]) for phones in utterances for step in follow(model, phones))


@SMALL
@given(
    utterances=UTTERANCES,
    order=st.integers(2, 5),
    kept=st.integers(1, 3),
    extra=st.sampled_from([0, 3, 100]),
)
def test_shares_are_those_of_what_it_was_estimated_of(
    utterances: list[list[int]], order: int, kept: int, extra: int
) -> None:
    """The likeliest model of its states: what goes on from each as often as in the utterances."""
    model = estimate_phone_lm(utterances, PhoneLmOptions(order, extra, min(kept, order)))
    steps = Counter(step for phones in utterances for step in follow(model, phones))
    visits: Counter[int] = Counter()
    for (state, _), count in steps.items():
        visits[state] += count
    wanted = {step: count / visits[step[0]] for step, count in steps.items()}
    assert shares(model) == pytest.approx(wanted, rel=1e-9)


@SMALL
@given(utterances=UTTERANCES, order=st.integers(2, 4))
def test_without_merging_it_is_the_plain_ngram(utterances: list[list[int]], order: int) -> None:
    model = estimate_phone_lm(utterances, PhoneLmOptions(order, 10**6, order))
    counts: Counter[tuple[tuple[int, ...], int]] = Counter()
    for phones in utterances:
        for place, phone in enumerate([*phones, 0]):
            counts[tuple([0, *phones][: place + 1][-(order - 1) :]), phone] += 1
    totals: Counter[tuple[int, ...]] = Counter()
    for (history, _), count in counts.items():
        totals[history] += count
    wanted = sum(c * math.log(c / totals[history]) for (history, _), c in counts.items())
    assert log_likelihood(model, utterances) == pytest.approx(wanted, abs=1e-9)
    assert 1 + max(arc[0] for arc in model.arcs + [(s,) for s in model.final]) == len(totals)


@pytest.mark.slow
@SMALL
@given(utterances=UTTERANCES)
def test_fewer_states_never_fit_better(utterances: list[list[int]]) -> None:
    models = [estimate_phone_lm(utterances, PhoneLmOptions(4, n, 2)) for n in (0, 2, 5, 20, 1000)]
    fits = [log_likelihood(model, utterances) for model in models]
    assert fits == sorted(fits) or fits == pytest.approx(sorted(fits), abs=1e-9)
    sizes = [len({arc[0] for arc in model.arcs} | {*model.final}) for model in models]
    assert sizes == sorted(sizes)


def test_histories_that_say_the_same_are_merged_before_others() -> None:
    """By hand: after 1 1 and 3 1 follows 2 alone, so that one state loses nothing; after 2 1, 3."""
    often = [[1, 1, 2]] * 20 + [[2, 1, 3]] * 20
    model = estimate_phone_lm([*often, [3, 1, 2]], PhoneLmOptions(3, 3, 2))
    one, other, third = (follow(model, x)[2][0] for x in ([1, 1, 2], [3, 1, 2], [2, 1, 3]))
    assert one == other != third
    assert shares(model)[one, 2] == shares(model)[third, 3] == 1.0


@pytest.mark.parametrize(
    ("options", "said"),
    [((1, 5, 1), "order 1"), ((3, 5, 4), "keeps order 4"), ((3, 5, 0), "order 0")],
)
def test_orders_that_do_not_go_together_are_refused(
    options: tuple[int, int, int], said: str
) -> None:
    with pytest.raises(InputError, match=said):
        PhoneLmOptions(*options)


def test_no_phones_are_refused() -> None:
    with pytest.raises(InputError, match="alignments are empty"):
        estimate_phone_lm([[]])

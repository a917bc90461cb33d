"""Statistics of trees, against sums taken frame by frame."""

from collections import defaultdict
from collections.abc import Iterator

import numpy as np
import pytest

from bayes_asr.base.errors import InputError
from bayes_asr.gmm import tree_statistics
from bayes_asr.gmm.tree_statistics import Context, TreeStatistics, accumulate, sum_tree_stats
from bayes_asr.kaldi_io.context_dependency import ABSENT
from bayes_asr.kaldi_io.initial_mdl import build_monophone_model
from bayes_asr.kaldi_io.transition_model import TransitionModel

MODEL = build_monophone_model([1, 2, 3], {1: 3, 2: 3, 3: 1})
Utterance = tuple[str, np.ndarray, np.ndarray]


def transition(model: TransitionModel, phone: int, state: int, loop: bool) -> int:
    found = (model.phone == phone) & (model.hmm_state == state) & (model.self_loop == loop)
    return int(np.flatnonzero(found[1:])[0]) + 1


def speak(phones: list[int], seed: int, name: str = "one") -> tuple[Utterance, list[list[int]]]:
    """An utterance of `phones`, and (phone number, pdf-class) of each frame."""
    rng = np.random.default_rng(seed)
    tids, frames = [], []
    for number, phone in enumerate(phones):
        for state in range(len(MODEL.topology[phone]) - 1):
            for repeat in range(rng.integers(1, 4)):
                tids.append(transition(MODEL, phone, state, repeat > 0))
                frames.append([number, state])
    x = rng.normal(size=(len(tids), 2)).astype(np.float32)
    return (name, np.array(tids, np.int32), x), frames


def check(statistics: TreeStatistics, spoken: list[list[int]], context: Context) -> None:
    expected: dict[tuple[int, ...], np.ndarray] = defaultdict(lambda: np.zeros(5))
    for seed, phones in enumerate(spoken):
        (_, _, x), frames = speak(phones, seed)
        padded = [0] * context.width + phones + [0] * context.width
        for row, (number, state) in zip(x, frames, strict=True):
            begin = context.width + number - context.center
            window = padded[begin : begin + context.width]
            if phones[number] in context.independent:
                window = [p if n == context.center else ABSENT for n, p in enumerate(window)]
            expected[state, *window] += [1, *row, *(row * row)]
    assert list(map(tuple, statistics.events.tolist())) == sorted(expected)
    ordered = np.stack([expected[event] for event in sorted(expected)])
    np.testing.assert_allclose(statistics.sums, ordered, rtol=1e-12)


SPOKEN = [[1, 2, 2, 3, 1], [3], [2, 2, 2], [1, 3, 2, 1, 3, 2, 1]]


@pytest.mark.parametrize(
    "context",
    [
        Context(),
        Context(1, 0),
        Context(2, 1),
        Context(5, 2, frozenset({1})),
        Context(3, 0, frozenset({2, 3})),
    ],
)
def test_sums_are_those_of_single_frames(context: Context) -> None:
    utterances = [speak(phones, seed)[0] for seed, phones in enumerate(SPOKEN)]
    check(accumulate(utterances, MODEL, context), SPOKEN, context)


def test_memory_is_that_of_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree_statistics, "ROWS", 4)
    merged: list[int] = []
    merge = tree_statistics._merge
    monkeypatch.setattr(
        tree_statistics,
        "_merge",
        lambda parts: merged.append(sum(len(part.events) for part in parts)) or merge(parts),
    )
    spoken = SPOKEN * 5

    def stream() -> Iterator[Utterance]:
        yield from (speak(phones, seed)[0] for seed, phones in enumerate(spoken))

    statistics = accumulate(stream(), MODEL, Context())
    check(statistics, spoken, Context())
    assert len(merged) > 5
    assert max(merged) <= 2 * len(statistics.events) + 4 + 21


def test_parts_add_up_to_the_whole() -> None:
    utterances = [speak(phones, seed)[0] for seed, phones in enumerate(SPOKEN)]
    parts = [accumulate(some, MODEL, Context()) for some in (utterances[:3], utterances[3:])]
    check(sum_tree_stats(parts), SPOKEN, Context())


def test_an_utterance_without_frames_changes_nothing() -> None:
    nothing = ("none", np.zeros(0, np.int32), np.zeros((0, 2), np.float32))
    check(accumulate([nothing, speak([1, 2], 0)[0]], MODEL, Context()), [[1, 2]], Context())


def test_what_cannot_be_is_named() -> None:
    (_, tids, x), _ = speak([1, 2], 0)
    with pytest.raises(InputError, match=f"odd: {len(tids)} frames are aligned, .* {len(x) - 1};"):
        accumulate([("odd", tids, x[:-1])], MODEL, Context())
    with pytest.raises(InputError, match=f"odd: .* at frame {len(tids) - 2} of {len(tids) - 1}"):
        accumulate([("odd", tids[:-1], x[:-1])], MODEL, Context())
    loop, forward = (transition(MODEL, 1, 0, loop) for loop in (True, False))
    for bad in ([loop, forward], [forward, transition(MODEL, 2, 1, False)]):
        wrong = np.array([*bad, *tids]), np.zeros((2 + len(x), 2), np.float32)
        with pytest.raises(InputError, match=r"odd: .* where its phone cannot go on"):
            accumulate([("odd", *wrong)], MODEL, Context())
    with pytest.raises(InputError, match="no utterance is aligned"):
        accumulate([], MODEL, Context())
    with pytest.raises(InputError, match="position 3 of a window of 3"):
        Context(3, 3)

"""Batches: every utterance once, within the budget, by seed and epoch alone; reading ahead."""

import itertools
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayes_asr.base.processes.group import deal
from bayes_asr.data.corpus.batches import batches_of, in_order, read_ahead, utterance_key
from bayes_asr.kaldi_io.sorted_table import SortedTable, encode

lengths_of = st.dictionaries(st.text("abc", min_size=1), st.integers(1, 100), max_size=25)
budgets = st.fixed_dictionaries({"sequences": st.integers(1, 6), "frames": st.integers(1, 300)})


@pytest.mark.slow
@settings(deadline=None)
@given(lengths_of, budgets, st.integers(0, 3), st.integers(1, 3))
def test_every_utterance_is_in_one_batch_within_the_budget(
    lengths: dict[str, int], budget: dict[str, int], seed: int, epoch: int
) -> None:
    for batches in (
        batches_of(lengths, **budget, seed=seed, epoch=epoch),
        in_order(lengths, **budget),
    ):
        assert sorted(utt for batch in batches for utt in batch) == sorted(lengths)
        for batch in batches:
            assert len(batch) == 1 or sum(lengths[utt] for utt in batch) <= budget["frames"]
            assert 1 <= len(batch) <= budget["sequences"]


@settings(deadline=None)
@given(lengths_of, st.randoms())
def test_order_of_the_table_changes_nothing(lengths: dict[str, int], random: object) -> None:
    items = list(lengths.items())
    random.shuffle(items)  # type: ignore[attr-defined]
    options = {"sequences": 3, "frames": 200}
    np.random.seed(0)  # the global state must not matter
    first = batches_of(lengths, **options, seed=1, epoch=2)
    np.random.seed(1)
    assert list(batches_of(dict(items), **options, seed=1, epoch=2)) == list(first)
    assert list(in_order(dict(items), **options)) == list(in_order(lengths, **options))
    table = SortedTable(encode(sorted(lengths)), np.array([lengths[x] for x in sorted(lengths)]))
    assert list(batches_of(table, **options, seed=1, epoch=2)) == list(first)
    assert list(in_order(table, **options)) == list(in_order(lengths, **options))


@settings(deadline=None)
@given(lengths_of, budgets, st.integers(0, 2**32), st.integers(1, 9), st.integers(0, 5))
def test_batches_are_those_of_plain_loops(
    lengths: dict[str, int], budget: dict[str, int], seed: int, epoch: int, skipped: int
) -> None:
    """Runs that are resumed, and results that are recorded, depend on them."""
    rng, names = np.random.default_rng((seed, epoch)), sorted(lengths)
    noise = dict(zip(names, rng.uniform(0.9, 1.1, len(names)), strict=True))
    batches: list[list[str]] = []
    room = 0
    for name in sorted(names, key=lambda name: lengths[name] * noise[name]):
        if not batches or lengths[name] > room or len(batches[-1]) == budget["sequences"]:
            batches.append([])
            room = budget["frames"]
        batches[-1].append(name)
        room -= lengths[name]
    rng.shuffle(batches)
    found = batches_of(lengths, **budget, seed=seed, epoch=epoch)
    assert [*found] == batches
    assert [*found[skipped:]] == batches[skipped:]


def test_seed_and_epoch_change_order_and_company() -> None:
    lengths = {f"u{n}": 50 + n for n in range(40)}
    found = [
        list(batches_of(lengths, sequences=4, frames=10_000, seed=seed, epoch=epoch))
        for seed, epoch in ((1, 1), (1, 2), (2, 1))
    ]
    assert found[0] != found[1] != found[2] != found[0]
    company = [{frozenset(batch) for batch in batches} for batches in found]
    assert company[0] != company[1] != company[2] != company[0]


def test_batches_hold_utterances_of_similar_length() -> None:
    lengths = {f"u{n}": 10 * (n + 1) for n in range(100)}
    for batch in batches_of(lengths, sequences=5, frames=10_000, seed=1, epoch=1):
        assert max(lengths[u] for u in batch) <= 1.5 * min(lengths[u] for u in batch) + 50


def test_keys_tell_seed_epoch_and_utterance_apart() -> None:
    keys = {utterance_key(s, e, u) for s in (1, 11) for e in (1, 11) for u in ("1", "a", "1 a")}
    assert len(keys) == 12
    assert all(-(2**63) <= key < 2**63 for key in keys)
    assert utterance_key(1, 2, "a") == -4374494633378592579


def test_batches_are_read_in_order_and_not_far_ahead() -> None:
    batches = [[str(n)] for n in range(7)]
    started: list[str] = []

    def load(batch: list[str]) -> str:
        assert threading.current_thread() is not threading.main_thread()
        started.append(batch[0])
        return batch[0]

    seen = []
    for loaded in read_ahead(batches, load):
        seen.append(loaded)
        assert len(started) <= len(seen) + 2
    assert seen == [batch[0] for batch in batches]
    assert list(read_ahead([], load)) == []


def test_an_error_in_the_other_thread_is_raised_at_its_batch() -> None:
    def load(batch: list[str]) -> str:
        if batch == ["bad"]:
            raise ValueError("bad batch")
        return batch[0]

    loaded = read_ahead([["a"], ["b"], ["bad"], ["c"]], load)
    assert [next(loaded), next(loaded)] == ["a", "b"]
    with pytest.raises(ValueError, match="bad batch"):
        next(loaded)


@settings(deadline=None, max_examples=50)
@given(
    st.dictionaries(st.text("abc", min_size=1), st.integers(1, 20), max_size=6), st.integers(1, 3)
)
def test_every_utterance_is_dealt_to_one_process_and_the_frames_are_balanced(
    lengths: dict[str, int], processes: int
) -> None:
    hands = deal(list(lengths), lengths, processes)
    assert sorted(utt for hand in hands for utt in hand) == sorted(lengths)
    assert hands == deal(sorted(lengths, reverse=True), lengths, processes)

    def most(owners: tuple[int, ...]) -> int:
        """Frames of the process that has the most."""
        return max(
            sum(n for n, owner in zip(lengths.values(), owners, strict=True) if owner == p)
            for p in range(processes)
        )

    best = min(map(most, itertools.product(range(processes), repeat=len(lengths))))
    found = max(sum(lengths[utt] for utt in hand) for hand in hands)
    assert 3 * processes * found <= (4 * processes - 1) * best  # Graham (1969), longest first

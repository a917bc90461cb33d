"""Alignments from time marks, against brute force over frames and against Kaldi's own labels."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayes_asr.base.errors import InputError
from bayes_asr.data.targets.alignments import Alignments
from bayes_asr.data.targets.marks import (
    count_transitions,
    describe_phones,
    find_frames,
    spread_states,
    write_alignments,
)
from bayes_asr.kaldi_io.initial_mdl import build_monophone_model
from bayes_asr.kaldi_io.tree import read_tree

RATE = 16000


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, 2000), min_size=1, max_size=12))
def test_each_phone_has_a_frame_a_state(lengths: list[int]) -> None:
    """Phones whose middle frames suffice are not moved, unless a short neighbour needs room."""
    starts = np.cumsum([0, *lengths[:-1]])
    count = max(3 * len(lengths), (sum(lengths) - 400) // 160 + 1)
    phones = find_frames(starts, count, RATE)
    sizes = np.diff(phones.ends, prepend=0)
    assert sizes.min() >= 3
    assert phones.ends[-1] == count
    phone_at = np.searchsorted(starts, np.arange(count) * 160 + 200, side="right") - 1
    exact = np.bincount(phone_at, minlength=len(lengths))
    assert phones.short == (exact < 3).sum()
    if phones.short == 0:
        assert sizes.tolist() == exact.tolist()
        assert phones.moved == 0


def test_a_short_phone_takes_frames_from_the_next_or_at_the_end_from_the_previous() -> None:
    # Middles at samples 200, 360, ..., 2120: the phones have 2, 2, 8 and 1 frames by the marks.
    phones = find_frames(np.array([0, 500, 700, 2000]), 13, RATE)
    assert phones.ends.tolist() == [3, 6, 10, 13]
    assert describe_phones([phones]) == (
        "4 phones; 3 (75.0 %) lasted fewer than 3 frames and were given 3, which moved 5 of 13 "
        "frames to a neighbour"
    )


@pytest.mark.parametrize(
    ("starts", "message"),
    [
        ([0, 400], "5 frames do not hold 2 phones of 3 states"),
        ([300], None),
        ([0, -1], "5 frames do not hold"),
    ],
)
def test_marks_without_room_are_refused(starts: list[int], message: str | None) -> None:
    if message is None:
        assert find_frames(np.array(starts), 5, RATE).ends.tolist() == [5]
        return
    with pytest.raises(InputError, match=message):
        find_frames(np.array(starts), 5, RATE)


def test_marks_that_go_back_are_refused() -> None:
    with pytest.raises(InputError, match="phone 3 begins before"):
        find_frames(np.array([0, 900, 800]), 50, RATE)


def test_transition_ids_are_read_back_as_the_phones_and_states(tmp_path: Path) -> None:
    model = build_monophone_model([1, 2, 5])
    tids = spread_states([5, 2, 5], np.array([4, 7, 15]), model)
    write_alignments([("u", tids)], model, {"a": 1, "b": 2, "e": 5}, tmp_path)
    alignments = Alignments(tmp_path)
    assert alignments.phones("u").tolist() == [5] * 4 + [2] * 3 + [5] * 8
    assert alignments.pdfs("u").tolist() == [6, 7, 8, 8, 3, 4, 5, 6, 6, 7, 7, 7, 8, 8, 8]
    entered = np.flatnonzero(~model.self_loop[tids])
    assert entered.tolist() == [0, 1, 2, 4, 5, 6, 7, 9, 12]
    assert [read_tree(tmp_path / "tree").pdf([5], c) for c in range(3)] == [6, 7, 8]


def test_transition_probabilities_are_shares_with_one_added() -> None:
    model = build_monophone_model([1])
    tids = spread_states([1], np.array([9]), model)
    counted = count_transitions(model, [tids, tids])
    # Each state is entered twice and held four times, so 3 and 5 of 8.
    loops = counted.self_loop[1:]
    assert np.exp(counted.log_prob[1:][loops]) == pytest.approx([5 / 8] * 3)
    assert np.exp(counted.log_prob[1:][~loops]) == pytest.approx([3 / 8] * 3)


def test_states_are_entered_as_in_kaldis_alignments(kaldi_corpus: Callable[[str], Path]) -> None:
    """Kaldi's monophone alignment, its phones laid out again, differs in the inner states only."""
    directory = kaldi_corpus("timit_sample") / "exp" / "mono_ali"
    theirs = Alignments(directory)
    utt = "faem0_si1392"
    starts = np.flatnonzero(np.diff(theirs.phones(utt), prepend=0))
    phones = theirs.phones(utt)[starts]
    ends = np.append(starts[1:], theirs.lengths[utt])
    ours = spread_states(phones.tolist(), ends, theirs.model)
    assert theirs.model.phone[ours].tolist() == theirs.phones(utt).tolist()
    assert (theirs.model.hmm_state[ours[starts]] == 0).all()

"""Anchors: passages of a text wherever they are said, and what may be said beside them."""

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayes_asr.decode.align.anchors import Island, find_passages, is_repetitive
from bayes_asr.decode.align.placement import (
    MOST_AT_EDGE,
    SegmentGroup,
    group_segments,
    list_candidates,
)

WORDS = st.lists(st.sampled_from("abcdef"), max_size=30)


@given(WORDS, WORDS)
def test_islands_are_equal_words_in_order_and_none_is_taken_twice(
    text: list[str], sound: list[str]
) -> None:
    taken_text: list[int] = []
    taken_sound: list[int] = []
    for chain in find_passages(text, sound):
        for island in chain:
            of_text = range(island.text, island.text + island.length)
            of_sound = range(island.sound, island.sound + island.length)
            assert [text[i] for i in of_text] == [sound[j] for j in of_sound]
            taken_text += of_text
            taken_sound += of_sound
        for before, behind in pairwise(chain):
            assert before.text + before.length <= behind.text
            assert before.sound + before.length <= behind.sound
    assert len({*taken_text}) == len(taken_text)
    assert len({*taken_sound}) == len(taken_sound)


@given(st.permutations(range(4)), st.lists(st.booleans(), min_size=4, max_size=4))
def test_moved_and_missing_passages_are_found(order: list[int], is_said: list[bool]) -> None:
    text = [f"w{i}" for i in range(40)]
    sound = [f"w{i}" for part in order if is_said[part] for i in range(10 * part, 10 * part + 10)]
    chains = find_passages(text, sound)
    pairs = {
        (island.text + i, island.sound + i)
        for chain in chains
        for island in chain
        for i in range(island.length)
    }
    assert pairs == {(int(word[1:]), place) for place, word in enumerate(sound)}


def test_words_that_two_islands_claim_are_anchors_of_neither() -> None:
    (said_twice,) = find_passages([*"abcdefg"], [*"abcxbcdefg"])
    assert said_twice == [Island(0, 0, 1, 2), Island(3, 6, 4, 2)]
    assert [i for island in said_twice for i in island.sure_words] == [0, 3, 4, 5, 6]
    (written_twice,) = find_passages([*"abcdxcdef"], [*"abcdef"])
    assert written_twice == [Island(0, 0, 2, 2), Island(7, 4, 2, 2)]


@pytest.mark.parametrize(("words", "vocabulary"), [(260, 3), (120, 2), (1000, 3)])
def test_a_text_of_few_words_is_anchored_by_long_seeds(words: int, vocabulary: int) -> None:
    """Every eighth word is heard as one that the text lacks."""
    rng = random.Random(words)
    text = [str(rng.randrange(vocabulary)) for _ in range(words)]
    sound = [word if i % 8 else "x" for i, word in enumerate(text)]
    found = {
        (island.text + i, island.sound + i)
        for chain in find_passages(text, sound)
        for island in chain
        for i in range(island.length)
    }
    right = [(i, j) for i, j in found if i == j]
    assert len(right) > words / 2
    assert len(found) < len(right) + 0.05 * words
    assert not is_repetitive(text)


def test_a_text_that_repeats_itself_has_no_anchors_and_takes_no_time() -> None:
    for text in (["ja"] * 3000, ["one", "two", "three"] * 1000):
        assert find_passages(text, text) == []
        assert is_repetitive(text)
    assert not any(is_repetitive(text) for text in ([], ["a"], ["a", "a"], [*"abcde"] * 20))


def test_groups_end_where_the_text_goes_on() -> None:
    anchors = [[0, 1], [2], [], [5], [9, 10]]
    groups = [*group_segments(anchors, [5.0] * 5)]
    assert groups == [SegmentGroup(0, 1, [0, 1]), SegmentGroup(1, 5, [2, 5, 9, 10])]
    taken = {i: None for found in anchors for i in found}
    own = {i: None for i in taken if i not in groups[1].anchors}
    assert list_candidates(groups[1], own, 12) == [*range(2, 12)]
    assert [g.last for g in group_segments(anchors, [50.0] * 5)] == [1, 2, 3, 4, 5]


def test_what_a_moved_passage_may_lose_is_looked_for_at_both_edges() -> None:
    group = SegmentGroup(0, 1, [20, 21, 4, 5])
    taken = dict.fromkeys([18, 25, 2, 8])
    assert list_candidates(group, taken, 40) == [19, 20, 21, 22, 23, 24, 3, 4, 5, 6, 7]
    assert len(list_candidates(SegmentGroup(0, 1, [500]), {}, 1000)) == 2 * MOST_AT_EDGE + 1

"""Subtitles: no word is lost, and cues are short enough to read and long enough to see."""

import itertools
import re
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from bayes_asr.decode.subtitles import (
    LONGEST,
    SHORTEST,
    WIDTH,
    format_srt,
    format_vtt,
    make_cues,
)


@dataclass
class Word:
    """A word from a time to another, in seconds."""

    word: str
    start: float
    end: float


def speak(parts: list[tuple[str, float, float]]) -> list[Word]:
    """Words of (text, pause before it, length)."""
    ends = [*itertools.accumulate(pause + length for _, pause, length in parts)]
    return [
        Word(text, end - length, end) for (text, _, length), end in zip(parts, ends, strict=True)
    ]


TEXT = st.text("abdeé-<&>", min_size=1, max_size=50)
PARTS = st.lists(st.tuples(TEXT, st.floats(0, 9), st.floats(0.02, 2)), max_size=40)


@given(PARTS)
def test_no_word_is_lost_and_cues_keep_the_limits(parts: list[tuple[str, float, float]]) -> None:
    words = speak(parts)
    cues = make_cues(words)
    assert " ".join(line for cue in cues for line in cue.lines).split() == [w.word for w in words]
    for cue in cues:
        assert len(cue.lines) <= 2
        assert all(len(line) <= WIDTH or " " not in line for line in cue.lines)
        assert 0 < cue.end - cue.start <= LONGEST + 1e-9
    for cue, following in itertools.pairwise(cues):
        assert cue.end <= following.start
    assert {cue.start for cue in cues} <= {word.start for word in words}


@given(PARTS.filter(bool), st.floats(-0.02, 2), st.booleans())
def test_the_last_cue_ends_with_the_sound(
    parts: list[tuple[str, float, float]], more: float, tied: bool
) -> None:
    """Words of an attention, which begin together, share what is left of it."""
    words = speak(parts)
    if tied:
        words[-1].start = words[max(len(words) - 3, 0)].start
    seconds = max(words[-1].end + more, words[-1].start + 0.01)
    cues = make_cues(words, seconds)
    assert " ".join(line for cue in cues for line in cue.lines).split() == [w.word for w in words]
    assert all(cue.start < cue.end for cue in cues)
    if all(word.start < seconds for word in words):
        assert cues[-1].end <= seconds + 1e-9


@given(st.lists(st.tuples(TEXT, st.sampled_from([0.0, 0.5, 2.0, 9.0]), st.floats(0.02, 5))))
def test_words_of_an_attention_keep_the_order_of_the_text(
    parts: list[tuple[str, float, float]],
) -> None:
    """Their times overlap, go back, or are those of the whole file."""
    words = [Word(text, start, start + length) for text, start, length in parts]
    cues = make_cues(words)
    assert " ".join(line for cue in cues for line in cue.lines).split() == [w.word for w in words]
    assert all(cue.end > cue.start for cue in cues)
    assert all(cue.end <= following.start for cue, following in itertools.pairwise(cues))


@given(PARTS)
def test_words_that_begin_together_leave_those_before_a_pause_as_they_are(
    parts: list[tuple[str, float, float]],
) -> None:
    words = speak(parts)
    pause = (words[-1].end if words else 0.0) + LONGEST + SHORTEST
    tied = [Word("five", pause, pause + 0.3), Word("six", pause, pause + 0.6)]
    cues = make_cues([*words, *tied])
    assert cues[:-1] == make_cues(words)
    assert cues[-1].lines == ("five six",)


def test_words_that_begin_together_end_before_a_pause() -> None:
    words = [Word("one", 0.0, 0.4), Word("two", 0.0, 0.8), Word("three", 20.0, 20.4)]
    assert [(cue.start, cue.end) for cue in make_cues(words)] == [(0.0, 1.0), (20.0, 21.0)]


def test_words_without_times_share_the_file() -> None:
    words = [Word(f"{number:05}", 0.0, 40.0) for number in range(40)]
    assert [cue.start for cue in make_cues(words)] == [0.0, 5.0, 12.0, 19.0, 26.0, 33.0]


@given(st.lists(st.tuples(st.text("abc", min_size=1, max_size=9), st.just(0.05), st.just(0.3))))
def test_a_cue_is_seen_for_a_second(parts: list[tuple[str, float, float]]) -> None:
    for cue in make_cues(speak(parts)):
        assert cue.end - cue.start >= SHORTEST - 1e-9


def test_cues_break_at_pauses_and_balance_their_lines() -> None:
    words = speak([(w, 0.1, 0.3) for w in ["one", "two", "three"]])
    words += [Word(w.word, w.start + 5, w.end + 5) for w in words]
    assert [cue.lines for cue in make_cues(words)] == [("one two three",)] * 2
    long = speak([("abcdefghi", 0.0, 0.2)] * 6)
    assert make_cues(long)[0].lines == ("abcdefghi abcdefghi abcdefghi",) * 2


def test_formats() -> None:
    cues = make_cues([Word("a<b", 3599.5, 3600.25), Word("&c", 3610.0, 3610.001)])
    assert [*format_srt(cues)] == [
        *("1", "00:59:59,500 --> 01:00:00,500", "a<b", ""),
        *("2", "01:00:10,000 --> 01:00:11,000", "&c", ""),
    ]
    assert [*format_vtt(cues)][:5] == [
        *("WEBVTT", "", "00:59:59.500 --> 01:00:00.500", "a&lt;b", "")
    ]
    assert all(re.fullmatch(r"[\d:.]+ --> [\d:.]+|WEBVTT||[^>]+", x) for x in format_vtt(cues))

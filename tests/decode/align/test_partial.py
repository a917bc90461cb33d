"""Texts of which parts are not said, and sound of which parts are not in the text."""

from collections.abc import Sequence

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from bayes_asr.decode.align.best_path import AlignOptions
from bayes_asr.decode.align.partial import PartialAligner, SpokenWord
from bayes_asr.decode.search.utterance import choose_engine
from tests.decode.align.test_timing_aligner import toy

SPEECH = toy(0.5)
ALIGNER = PartialAligner(SPEECH, AlignOptions(0.1), choose_engine())
FRAMES = 24  # of each state of a phone
SPOKEN = {"ab": (2, 3), "b": (3,), "aa": (2, 2)}


def speak(words: Sequence[str]) -> tuple[np.ndarray, list[tuple[int, int]]]:
    """Log-likelihoods [T, 6] of a pause and then words, and the frames of these.

    What is second best is a pause in words and b in a pause, so that the filler is not far behind.
    """
    phones, spans = [1], []
    for word in words:
        start = 2 * FRAMES * len(phones)
        phones += SPOKEN[word]
        spans.append((start, 2 * FRAMES * len(phones)))
    pdfs = np.repeat([2 * (phone - 1) + state for phone in phones for state in (0, 1)], FRAMES)
    loglikes = np.full((len(pdfs), 6), -100, np.float32)
    loglikes[np.arange(len(pdfs)), np.where(pdfs > 1, 0, 5)] = -4
    loglikes[np.arange(len(pdfs)), pdfs] = 0
    return loglikes, spans


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(st.sampled_from(["aa", "b"]), st.booleans()), min_size=1, max_size=8))
def test_words_that_are_said_are_found(parts: list[tuple[str, bool]]) -> None:
    text = [word for word, _ in parts]
    said = [word for word, is_said in parts if is_said]
    loglikes, spans = speak(said)
    found = ALIGNER.align("u", text, loglikes)
    # Which of two equal words is said nobody knows.
    assert [text[word.index] for word in found] == said
    assert [(word.start, word.end) for word in found] == spans
    assert [word.index for word in found] == sorted({word.index for word in found})


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.sampled_from(["ab", "aa"]), min_size=1, max_size=3),
    st.lists(st.sampled_from(["ab", "aa"]), max_size=3),
)
def test_other_sound_is_passed_over(before: list[str], behind: list[str]) -> None:
    loglikes, spans = speak([*before, "b", "b", "b", *behind])
    found = ALIGNER.align("u", [*before, *behind], loglikes)
    inside = spans[: len(before)] + spans[len(before) + 3 :]
    assert found == [SpokenWord(i, *span) for i, span in enumerate(inside)]


def test_a_text_of_which_nothing_is_said_has_no_words() -> None:
    assert ALIGNER.align("u", ["ab"] * 30, speak([])[0]) == []


def test_words_that_were_recognised_need_less_evidence() -> None:
    """Not none: what is nothing like them is still other sound."""
    text = ["ab", "aa"]
    for lead, found in ((0.9, [0, 1]), (90.0, [])):  # of the filler, whose two best pdfs say more
        loglikes, _ = speak(text)
        loglikes[2 * FRAMES :] = np.where(loglikes[2 * FRAMES :] == 0, -lead, -100)
        loglikes[2 * FRAMES :, :2] = 0
        assert ALIGNER.align("u", text, loglikes) == []
        anchored = ALIGNER.align("u", text, loglikes, {0, 1})
        assert [word.index for word in anchored] == found

"""Confidences of alignments: against the sum over every path, and wrong texts."""

import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayes_asr.base.errors import InputError
from bayes_asr.decode.align.best_path import AlignOptions
from bayes_asr.decode.align.confidence import MISMATCH, SCALE, ConfidenceModel
from bayes_asr.decode.align.forced import align_utterance
from bayes_asr.decode.align.phone_loop import STAYING, PhoneLoop
from bayes_asr.decode.align.pronouncer import Pronouncer
from bayes_asr.decode.align.timing_aligner import TimingAligner
from bayes_asr.decode.search.utterance import choose_engine
from tests.decode.align.test_timing_aligner import sayings, toy

ENGINE = choose_engine()


def scaled(stay: float) -> tuple[float, float]:
    """The log-weights of the self-loop of a state of two transitions, and of leaving it."""
    return 0.1 * math.log(stay), 0.1 * math.log(1 - stay)


def durations(parts: int, frames: int) -> Iterator[list[int]]:
    """Every way to divide frames among so many parts, each of one or more."""
    for cuts in itertools.combinations(range(1, frames), parts - 1):
        yield [int(n) for n in np.diff([0, *cuts, frames])]


def every_path(
    words: Sequence[str], scores: np.ndarray, evidence: np.ndarray, speech: Pronouncer
) -> Iterator[tuple[float, list[int]]]:
    """The log-weight and the phone of each frame (0: filler) of all paths; two states a phone."""
    stay, leave = scaled(STAYING)  # of phones and of the filler alike
    for cost, phones in sayings(words, speech):
        for replaced in itertools.product([False, True], repeat=len(phones)):
            states = [
                (phone, None) if filler else (phone, state)
                for phone, filler in zip(phones, replaced, strict=True)
                for state in ((None,) if filler else (0, 1))
            ]
            share = sum(math.log(MISMATCH if filler else 1 - MISMATCH) for filler in replaced)
            if not states:
                continue
            for lengths in durations(len(states), len(scores)):
                weight, t, labels = share - cost, 0, []
                for (phone, state), length in zip(states, lengths, strict=True):
                    frames = slice(t, t + length)
                    row = evidence if state is None else scores[:, 2 * (phone - 1) + state]
                    weight += row[frames].sum() + (length - 1) * stay + leave
                    labels += [0 if state is None else phone] * length
                    t += length
                yield weight, labels


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.sampled_from(["ab", "b", "aa"]), min_size=1, max_size=2),
    st.integers(8, 10),
    st.sampled_from([0.0, 0.4]),
    st.integers(0, 10**6),
)
def test_posteriors_are_sums_over_all_paths(
    words: list[str], frames: int, silence: float, seed: int
) -> None:
    speech = toy(silence)
    loglikes = np.random.default_rng(seed).normal(0, 20, (frames, 6)).astype(np.float32)
    wide = AlignOptions(SCALE, beam=1000.0)
    tids = align_utterance("u", words, loglikes, speech, wide, ENGINE).transition_ids
    model = ConfidenceModel(speech, ENGINE)
    evidence = PhoneLoop(speech.model).evidence(loglikes, SCALE)
    paths = list(every_path(words, SCALE * loglikes.astype(float), evidence, speech))
    total = np.logaddexp.reduce([weight for weight, _ in paths])
    aligned, expected = speech.model.phone[tids], np.zeros(frames)
    for weight, labels in paths:
        expected += math.exp(weight - total) * (np.array(labels) == aligned)
    posteriors = model.frame_posteriors("u", words, loglikes, tids)
    np.testing.assert_allclose(posteriors, expected, atol=1e-4)


def speak(phones: Sequence[int], rng: np.random.Generator) -> np.ndarray:
    """Log-likelihoods [T, 6] of phones whose states last three frames each."""
    pdfs = [2 * (phone - 1) + state for phone in phones for state in (0, 1) for _ in range(3)]
    loglikes = rng.normal(-20, 5, (len(pdfs), 6))
    loglikes[np.arange(len(pdfs)), pdfs] += 40
    return loglikes.astype(np.float32)


def test_a_text_of_other_words_has_low_confidence() -> None:
    speech = toy(0.5)
    aligner = TimingAligner(speech, AlignOptions(0.3), ENGINE)
    loglikes = speak([1, 2, 3, 1, 3, 1], np.random.default_rng(0))
    right = aligner.align("u", ["ab", "b"], loglikes)
    wrong = aligner.align("u", ["aa", "aa"], loglikes)
    assert right.confidence > 0.9
    assert wrong.confidence < 0.5
    assert [word.label for word in right.words] == ["ab", "b"]
    assert [(p.label, p.start, p.end) for p in right.phones] == [
        ("sil", 0, 6), ("a", 6, 12), ("b", 12, 18), ("sil", 18, 24), ("b", 24, 30), ("sil", 30, 36)
    ]  # fmt: skip
    assert [(word.start, word.end) for word in right.words] == [(6, 18), (24, 30)]


def test_the_word_that_was_not_spoken_is_the_doubtful_one() -> None:
    aligner = TimingAligner(toy(0.5), AlignOptions(0.3), ENGINE)
    loglikes = speak([1, 2, 3, 1, 2, 2, 1, 2, 2, 1], np.random.default_rng(1))
    timed = aligner.align("u", ["ab", "b", "aa"], loglikes)
    assert min(timed.words, key=lambda word: word.confidence).label == "b"
    assert timed.words[0].confidence > 0.9
    assert timed.words[2].confidence > 0.9


def test_a_long_text_of_few_frames_has_confidences() -> None:
    """Paths that are late at first are the only ones that come to the end."""
    rng = np.random.default_rng(2)
    words, loglikes = ["ab"] * 12, speak([3] * 8, rng)
    timed = TimingAligner(toy(0.0), AlignOptions(0.3, beam=1000.0), ENGINE).align(
        "u", words, loglikes
    )
    assert len(timed.words) == 12
    assert timed.confidence == pytest.approx(0.5, abs=0.5)


def test_an_alignment_stands_where_confidences_cannot_be_computed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise InputError("u: no way")

    monkeypatch.setattr(ConfidenceModel, "frame_posteriors", fail)
    aligner = TimingAligner(toy(0.5), AlignOptions(0.3), ENGINE)
    timed = aligner.align("u", ["ab"], speak([1, 2, 3, 1], np.random.default_rng(0)))
    assert [(word.start, word.end) for word in timed.words] == [(6, 18)]
    assert timed.confidence == 0
    assert "u: no way; its confidences are 0" in caplog.text

"""Errors of two sides on the same speech, side by side: by segment, utterance or speaker.

A side is one run or several: seeds of one configuration, or a group of configurations as in
section 5.1 of Bittar and Garner (2021). The errors of a unit are those of all its runs.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from bayes_asr.base.errors import InputError
from bayes_asr.evaluate.score.counts import ErrorCounts
from bayes_asr.evaluate.score.scores import Score
from bayes_asr.evaluate.score.statistics import Marks, mapsswe_segments

ENOUGH_SPEAKERS = 10
FEWEST = 6
"""Units over which an exact two-sided test can have a p below 0.05: its least is 2 / 2 ** n."""


def has_enough_speakers(score: Score) -> bool:
    """Whether speakers are drawn and decide, and not utterances."""
    return len(score.speakers) >= ENOUGH_SPEAKERS


def few_units_warning(number: int, unit: str) -> str | None:
    """The limit of a test that takes differences for normal, over so few units; None of enough.

    Of a single unit there is no test.
    """
    if not 1 < number < FEWEST:
        return None
    return (
        f"{number} {unit}s are few: no exact two-sided test over them has a p below "
        f"{2 / 2**number:.3g}. What is smaller takes for granted that differences are normal."
    )


def check_comparable(a: Score, b: Score, names: tuple[str, str]) -> None:
    """Raise InputError where two scores are not of the same references, counted alike."""
    # All of these change what counts as an error, or over what.
    for key in ("set", "metric", "convention", "optional", "costs", "glm", "unknown"):
        if getattr(a, key) != getattr(b, key):
            raise InputError(
                f"{names[0]} and {names[1]} differ in {key}: {getattr(a, key)} and "
                f"{getattr(b, key)}; score both alike"
            )
    reference_a, reference_b = (
        {u.utterance: u.reference for u in score.utterances} for score in (a, b)
    )
    # `get` gives None for an utterance that one side lacks, which differs from any text.
    different = [
        u
        for u in reference_a.keys() | reference_b.keys()
        if reference_a.get(u) != reference_b.get(u)
    ]
    if different or list(reference_a) != list(reference_b):
        raise InputError(
            f"{names[0]} and {names[1]} do not score the same {a.set} references: "
            f"{len(different)} utterances differ, such as {min(different, default='their order')}"
        )
    by_another = [
        u.utterance
        for u, v in zip(a.utterances, b.utterances, strict=True)
        if u.speaker != v.speaker
    ]
    if by_another:
        raise InputError(
            f"{names[0]} and {names[1]} name other speakers of {len(by_another)} utterances, such "
            f"as {by_another[0]}; score both with the same utt2spk"
        )


class Pairs(NamedTuple):
    """Errors of A and of B, and reference tokens, of each unit [S].

    All are whole multiples of those of one run, so that what is equal stays equal.
    """

    a: np.ndarray
    b: np.ndarray
    tokens: np.ndarray

    def with_tokens(self) -> "Pairs":
        """The units that have reference tokens."""
        return Pairs(*(column[self.tokens > 0] for column in self))


def _run_weights(a: Sequence[Score], b: Sequence[Score]) -> tuple[int, int]:
    """Multiples of the errors of a run of A, and of B, that are of as many tokens."""
    # The least common multiple keeps errors whole, where means would round.
    common = math.lcm(len(a), len(b))
    return common // len(a), common // len(b)


def _collect(
    a: Sequence[Sequence[ErrorCounts]], b: Sequence[Sequence[ErrorCounts]], weights: tuple[int, int]
) -> Pairs:
    errors_a, errors_b = (
        weight * np.array([[c.errors for c in run] for run in runs]).sum(axis=0)
        for weight, runs in zip(weights, (a, b), strict=True)
    )
    # Tokens are those of one run, times the runs that the weighted errors stand for.
    return Pairs(errors_a, errors_b, weights[0] * len(a) * np.array([c.tokens for c in a[0]]))


def collect_utterances(a: Sequence[Score], b: Sequence[Score]) -> Pairs:
    """The errors of each utterance, over all runs of each side."""
    of_a, of_b = ([[u.counts for u in score.utterances] for score in runs] for runs in (a, b))
    return _collect(of_a, of_b, _run_weights(a, b))


def collect_speakers(a: Sequence[Score], b: Sequence[Score]) -> Pairs:
    """The errors of each speaker, over all runs of each side."""
    of_a, of_b = ([list(score.speakers.values()) for score in runs] for runs in (a, b))
    return _collect(of_a, of_b, _run_weights(a, b))


def collect_segments(a: Sequence[Score], b: Sequence[Score]) -> tuple[np.ndarray, np.ndarray]:
    """Errors of A and of B in the segments of MAPSSWE, which end where all runs are right.

    Where runs took different alternatives of a reference, the utterance is one segment.
    """
    weights = _run_weights(a, b)
    pairs = []
    # The marks of one utterance in all runs stand side by side.
    for marks in zip(*(run.marks for run in (*a, *b)), strict=True):
        if len({len(mark.wrong) for mark in marks}) > 1:
            # One insertion place with all errors makes the utterance a single segment.
            marks = tuple(Marks([sum(m.wrong) + sum(m.inserted)], [0, 0]) for m in marks)
        pairs.append(
            (_add_marks(marks[: len(a)], weights[0]), _add_marks(marks[len(a) :], weights[1]))
        )
    return mapsswe_segments(pairs)


def _add_marks(marks: Sequence[Marks], weight: int) -> Marks:
    wrong, inserted = (
        [weight * sum(column) for column in zip(*rows, strict=True)]
        for rows in zip(*marks, strict=True)
    )
    return Marks(wrong, inserted)

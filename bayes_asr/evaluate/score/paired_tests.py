"""The paired tests between two sides: those of two systems, and those of two groups of systems."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from bayes_asr.evaluate.score.pairs import (
    Pairs,
    collect_segments,
    collect_speakers,
    collect_utterances,
    has_enough_speakers,
    warn_of_few,
)
from bayes_asr.evaluate.score.scores import Score
from bayes_asr.evaluate.score.statistics import (
    EXACT_LIMIT,
    Alternative,
    holm,
    matched_pairs,
    mcnemar,
    sign_test,
    wilcoxon,
)


@dataclass(frozen=True)
class PairedTest:
    """One paired test: over `number` units of `unit`; `adjusted` is p by Holm over all tests.

    `p` is of the alternative that was asked for, `two_sided` of any difference. `warning` says why
    p should not be trusted, where the units are too few for it.
    """

    test: str
    unit: str
    number: int
    statistic: float
    p: float
    two_sided: float
    adjusted: float
    warning: str | None

    @property
    def title(self) -> str:
        """The test and what it is over."""
        return f"{self.test}, {self.unit}s"

    @property
    def units(self) -> str:
        """How many units it is over, and whether these are few for it."""
        some = f"{self.number} {self.unit}{'s' if self.number != 1 else ''}"
        return f"{some} (few)" if self.warning else some


class _Question(NamedTuple):
    """A test before it is asked for an alternative, which gives its statistic and p.

    exact: p takes nothing for normal.
    """

    test: str
    unit: str
    number: int
    ask: Callable[[Alternative], tuple[float, float]]
    exact: bool = False


def run_system_tests(
    a: Sequence[Score], b: Sequence[Score], alternative: Alternative
) -> list[PairedTest]:
    """All tests that the numbers of runs, utterances and speakers allow, MAPSSWE first."""
    segments, cluster = collect_segments(a, b), a[0].cluster
    utterances, speakers = collect_utterances(a, b), collect_speakers(a, b).spoken()
    questions = [
        _Question("MAPSSWE", "segment", len(segments[0]), partial(_match, *segments)),
        _question_matched("utterance", utterances),
    ]
    if len(a) == len(b) == 1:  # of several runs, an utterance is seldom right in all
        wrong = partial(mcnemar, utterances.a > 0, utterances.b > 0)
        questions.append(_Question("McNemar, exact", "utterance", len(utterances.a), wrong, True))
    if len(speakers.tokens) > 1:
        signs = partial(sign_test, *_compare_rates(speakers))
        questions += [
            _question_matched(cluster, speakers, student=True),
            _question_ranks(cluster, speakers, "normal"),
            *_question_exact_ranks(cluster, speakers),
            _Question("sign, exact", cluster, len(speakers.tokens), signs, True),
        ]
    return _answer(questions, alternative)


def run_group_tests(
    a: Sequence[Score], b: Sequence[Score], alternative: Alternative
) -> list[PairedTest]:
    """The tests of section 5.1 of Bittar and Garner (2021), over speakers and over utterances.

    The first, which decides, is matched pairs by Student's t: over speakers, of whom the paper has
    24, or over utterances where there are too few speakers.
    """
    pairs = [
        (a[0].cluster, collect_speakers(a, b).spoken()),
        ("utterance", collect_utterances(a, b).spoken()),
    ]
    questions = []
    # The order decides: the first question is the test by which systems are judged.
    for unit, spoken in pairs if has_enough_speakers(a[0]) else reversed(pairs):
        if len(spoken.tokens) > 1 or unit == "utterance":
            questions += [
                _question_matched(unit, spoken, student=True),
                _question_matched(unit, spoken),
                *_question_exact_ranks(unit, spoken),
                _question_ranks(unit, spoken, "tied"),
            ]
    return _answer(questions, alternative)


def _match(
    a: np.ndarray, b: np.ndarray, alternative: Alternative, student: bool = False
) -> tuple[float, float]:
    """Matched pairs; of a single pair nothing is known."""
    if len(a) < 2:
        return 0.0, 1.0
    result = matched_pairs(a, b, alternative)
    return result.z, result.p_student if student else result.p


def _question_matched(unit: str, pairs: Pairs, student: bool = False) -> _Question:
    ask = partial(_match, pairs.a, pairs.b, student=student)
    name = "matched pairs, Student's t" if student else "matched pairs"
    return _Question(name, unit, len(pairs.a), ask)


RANKS = {
    "normal": "Wilcoxon, normal as sc_stats",
    "tied": "Wilcoxon, normal",
    "exact": "Wilcoxon, exact",
}


def _question_ranks(unit: str, pairs: Pairs, method: str) -> _Question:
    rates = _compare_rates(pairs)

    def ask(alternative: Alternative) -> tuple[float, float]:
        return wilcoxon(*rates, method=method, alternative=alternative)  # type: ignore[arg-type]

    return _Question(RANKS[method], unit, len(pairs.tokens), ask, method == "exact")


def _question_exact_ranks(unit: str, pairs: Pairs) -> list[_Question]:
    few = len(pairs.tokens) <= EXACT_LIMIT
    return [_question_ranks(unit, pairs, "exact")] if few else []


def _compare_rates(pairs: Pairs) -> tuple[np.ndarray, np.ndarray]:
    """Differences of rates and zeros; of whole numbers, equal ones are rounded alike: ties stay."""
    # One division of the difference keeps equal errors at exactly 0, as two rates might not.
    return 100 * (pairs.a - pairs.b) / pairs.tokens, np.zeros(len(pairs.tokens))


def _answer(questions: Sequence[_Question], alternative: Alternative) -> list[PairedTest]:
    # Holm's adjustment takes all tests of the table as one family.
    found = [q.ask(alternative) for q in questions]
    return [
        PairedTest(
            *(q.test, q.unit, q.number, statistic, p, q.ask("two-sided")[1], float(adjusted)),
            warning=None if q.exact else warn_of_few(q.number, q.unit),
        )
        for q, (statistic, p), adjusted in zip(
            questions, found, holm([p for _, p in found]), strict=True
        )
    ]

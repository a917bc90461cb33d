"""Two systems on the same utterances: rates, intervals, paired tests, and what they say."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from bayes_asr.errors import InputError
from bayes_asr.score.counts import ErrorCounts
from bayes_asr.score.scores import Score
from bayes_asr.score.statistics import (
    EXACT_LIMIT,
    Bootstrap,
    Interval,
    PairedBootstrap,
    beta_interval,
    bootstrap,
    holm,
    mapsswe_segments,
    mark,
    matched_pairs,
    mcnemar,
    paired_bootstrap,
    sign_test,
    wilcoxon,
)

LEVEL = 0.95


@dataclass(frozen=True)
class PairedTest:
    """One paired test: over `number` units of `unit`; `adjusted` is p by Holm over all tests."""

    test: str
    unit: str
    number: int
    statistic: float
    p: float
    adjusted: float


class System(NamedTuple):
    """One side of a comparison; the beta interval is None where insertions exceed all tokens."""

    name: str
    counts: ErrorCounts
    beta: Interval | None
    bootstrap: Bootstrap


@dataclass(frozen=True)
class Comparison:
    """Systems A and B on one set under one convention; `difference` is rate A minus rate B.

    Replicates draw `resampled` (speakers, or utterances where there are fewer than 10 speakers).
    """

    set: str | None
    metric: str
    convention: str
    a: System
    b: System
    resampled: str
    difference: PairedBootstrap
    tests: Sequence[PairedTest]

    def sentence(self) -> str:
        """The comparison in plain words, judged by MAPSSWE, which is chosen beforehand."""
        judged = self.tests[0]
        points = self.a.counts.rate - self.b.counts.rate
        low, high = self.difference.difference.interval
        better, worse = (self.b, self.a) if points > 0 else (self.a, self.b)
        on = f"{self.set} {self.metric.upper()} ({self.convention})"
        if points == 0:
            claim = (
                f"{self.a.name} and {self.b.name} have the same {on}, {self.a.counts.rate:.2f} %"
            )
        else:
            claim = (
                f"{better.name} has the lower {on}: {better.counts.rate:.2f} % against "
                f"{worse.counts.rate:.2f} % of {worse.name}, {abs(points):.2f} points less"
            )
        verdict = "" if judged.p < 1 - LEVEL else "not "
        return (
            f"{claim} (95 % interval of A - B {low:.2f} to {high:.2f}, bootstrap over "
            f"{self.resampled}); by MAPSSWE the difference is {verdict}significant "
            f"at the 5 % level (p {_format_p(judged.p)})."
        )

    def as_dict(self) -> dict[str, Any]:
        """Everything as plain data."""
        systems = {
            key: {
                "name": system.name,
                **system.counts.as_dict(),
                "rate": system.counts.rate,
                "beta_interval": system.beta,
                "bootstrap_interval": system.bootstrap.interval,
                "bootstrap_standard_error": system.bootstrap.standard_error,
            }
            for key, system in (("a", self.a), ("b", self.b))
        }
        return {
            "set": self.set,
            "metric": self.metric,
            "convention": self.convention,
            **systems,
            "resampled": self.resampled,
            "difference": self.a.counts.rate - self.b.counts.rate,
            "difference_interval": self.difference.difference.interval,
            "probability_of_improvement": self.difference.improvement,
            "tests": [asdict(test) for test in self.tests],
            "sentence": self.sentence(),
        }


def compare(
    a: Score, b: Score, names: tuple[str, str], replicates: int = 10_000, seed: int = 0
) -> Comparison:
    """Compare two scores of one set under one convention, utterance by utterance.

    Raises InputError where they are not scores of the same references.
    """
    _check_comparable(a, b, names)
    by_speaker = len(a.speakers) >= 10
    units = _collect_speakers(a, b) if by_speaker else _collect_utterances(a, b)
    return Comparison(
        set=a.set,
        metric=a.metric,
        convention=a.convention,
        a=_summarise_system(names[0], a, units.a, units.tokens, replicates, seed),
        b=_summarise_system(names[1], b, units.b, units.tokens, replicates, seed),
        resampled="speakers" if by_speaker else "utterances",
        difference=paired_bootstrap(units.a, units.b, units.tokens, replicates, seed, LEVEL),
        tests=_run_paired_tests(a, b),
    )


def _summarise_system(
    name: str, score: Score, errors: np.ndarray, tokens: np.ndarray, replicates: int, seed: int
) -> System:
    counts = score.counts
    beta = beta_interval(counts.errors, counts.tokens, LEVEL) if counts.rate <= 100 else None
    return System(name, counts, beta, bootstrap(errors, tokens, replicates, seed, LEVEL))


def _check_comparable(a: Score, b: Score, names: tuple[str, str]) -> None:
    for key in ("set", "metric", "convention", "optional", "costs", "glm"):
        if getattr(a, key) != getattr(b, key):
            raise InputError(
                f"{names[0]} and {names[1]} differ in {key}: {getattr(a, key)} and "
                f"{getattr(b, key)}; score both alike"
            )
    said_a, said_b = ({u.utterance: u.reference for u in score.utterances} for score in (a, b))
    different = [u for u in said_a.keys() | said_b.keys() if said_a.get(u) != said_b.get(u)]
    if different or list(said_a) != list(said_b):
        raise InputError(
            f"{names[0]} and {names[1]} do not score the same {a.set} references: "
            f"{len(different)} utterances differ, such as {min(different, default='their order')}"
        )


class _Units(NamedTuple):
    """Errors of A and of B, and reference tokens, of each unit [S]."""

    a: np.ndarray
    b: np.ndarray
    tokens: np.ndarray


def _collect_units(a: Iterable[ErrorCounts], b: Iterable[ErrorCounts]) -> _Units:
    rows = [(x.errors, y.errors, x.tokens) for x, y in zip(a, b, strict=True)]
    return _Units(*np.array(rows, dtype=np.int64).reshape(-1, 3).T)


def _collect_utterances(a: Score, b: Score) -> _Units:
    return _collect_units((u.counts for u in a.utterances), (u.counts for u in b.utterances))


def _collect_speakers(a: Score, b: Score) -> _Units:
    return _collect_units(a.speakers.values(), b.speakers.values())


def _run_paired_tests(a: Score, b: Score) -> list[PairedTest]:
    """All tests that the numbers of utterances and speakers allow, MAPSSWE first."""
    pairs = zip(a.utterances, b.utterances, strict=True)
    segments = mapsswe_segments([(mark(a.alignment(u)), mark(b.alignment(v))) for u, v in pairs])
    utterances, speakers = _collect_utterances(a, b), _collect_speakers(a, b)
    rows: list[tuple[str, str, int, float, float]] = []

    def add_pairs(test: str, unit: str, x: np.ndarray, y: np.ndarray, student: bool) -> None:
        z, p = 0.0, 1.0
        if len(x) > 1:
            result = matched_pairs(x, y)
            z, p = result.z, result.p_student if student else result.p
        rows.append((test, unit, len(x), z, p))

    add_pairs("MAPSSWE", "segment", *segments, student=False)
    add_pairs("matched pairs", "utterance", utterances.a, utterances.b, student=False)
    n = len(utterances.tokens)
    rows.append(("McNemar, exact", "utterance", n, *mcnemar(utterances.a > 0, utterances.b > 0)))
    spoken = speakers.tokens > 0
    if spoken.sum() > 1:
        x, y, tokens = (column[spoken] for column in speakers)
        add_pairs("matched pairs, Student's t", "speaker", x, y, student=True)
        rates = 100 * x / tokens, 100 * y / tokens
        n = len(tokens)
        rows.append(("Wilcoxon, normal as sc_stats", "speaker", n, *wilcoxon(*rates)))
        if n <= EXACT_LIMIT:
            rows.append(("Wilcoxon, exact", "speaker", n, *wilcoxon(*rates, method="exact")))
        rows.append(("sign, exact", "speaker", n, *sign_test(*rates)))
    adjusted = holm([p for *_, p in rows])
    return [PairedTest(*row, float(holm_p)) for row, holm_p in zip(rows, adjusted, strict=True)]


def _format_p(p: float) -> str:
    return "< 0.0001" if p < 1e-4 else f"= {p:.4f}"

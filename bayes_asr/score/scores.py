"""Scores as values: what a set got under one convention, with the counts of every utterance."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from bayes_asr.errors import InputError
from bayes_asr.files import replacing
from bayes_asr.score.counts import Costs, Edit, ErrorCounts, align, count_errors

Metric = Literal["per", "wer"]

# TIMIT results exist in two conventions: Kaldi's recipe has been strict since November 2014,
# pytorch-kaldi keeps the older one, where every silence of the reference may be missing.
CONVENTIONS: dict[Metric, dict[str, frozenset[str]]] = {
    "per": {"strict": frozenset(), "forgiving": frozenset({"sil"})},
    "wer": {"plain": frozenset()},
}
"""For each metric its conventions, and the reference tokens that each lets be missing."""


@dataclass(frozen=True)
class UtteranceScore:
    """One utterance: who spoke, what was said, what was recognised, and the errors."""

    utterance: str
    speaker: str
    counts: ErrorCounts
    reference: tuple[str, ...]
    hypothesis: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        return {
            "utterance": self.utterance,
            "speaker": self.speaker,
            **self.counts.as_dict(),
            "reference": " ".join(self.reference),
            "hypothesis": " ".join(self.hypothesis),
        }


@dataclass(frozen=True)
class Score:
    """One set under one convention; `set` and the weights are None outside a run.

    `optional` are the reference tokens that may be missing without an error.
    """

    set: str | None
    metric: Metric
    convention: str
    optional: frozenset[str]
    costs: Costs
    lm_weight: float | None
    insertion_penalty: float | None
    utterances: Sequence[UtteranceScore]

    @property
    def counts(self) -> ErrorCounts:
        """The counts of all utterances together."""
        return pool(u.counts for u in self.utterances)

    @property
    def speakers(self) -> dict[str, ErrorCounts]:
        """The counts by speaker, in order of first appearance."""
        spoken: dict[str, list[ErrorCounts]] = {}
        for utterance in self.utterances:
            spoken.setdefault(utterance.speaker, []).append(utterance.counts)
        return {speaker: pool(counts) for speaker, counts in spoken.items()}

    def alignment(self, utterance: UtteranceScore) -> list[Edit]:
        """The alignment that the counts of `utterance` come from."""
        return align(utterance.reference, utterance.hypothesis, self.costs, self.optional)

    def as_dict(self) -> dict[str, Any]:
        """The entry of a score file; `rate` is per cent."""
        return {
            "set": self.set,
            "metric": self.metric,
            "convention": self.convention,
            "optional": sorted(self.optional),
            "costs": self.costs,
            "lm_weight": self.lm_weight,
            "insertion_penalty": self.insertion_penalty,
            **self.counts.as_dict(),
            "rate": self.counts.rate,
            "utterances": [u.as_dict() for u in self.utterances],
        }

    def line(self) -> str:
        """Kaldi's line, with the convention and the weights it was counted at."""
        where = [f"{self.set} " if self.set else "", self.metric.upper(), f" ({self.convention})"]
        if self.lm_weight is not None:
            where.append(f", LM weight {self.lm_weight:g}, penalty {self.insertion_penalty:.1f}")
        return f"{self.counts.kaldi_line()} {''.join(where)}"


def pool(counts: Iterable[ErrorCounts]) -> ErrorCounts:
    """Add up counts."""
    return sum(counts, start=ErrorCounts())


def write_scores(scores: Sequence[Score], path: Path) -> None:
    """Write a score file: a list with one entry for each convention."""
    with replacing(path) as temporary:
        text = json.dumps([score.as_dict() for score in scores], indent=1, ensure_ascii=False)
        temporary.write_text(text + "\n", encoding="utf-8")


def read_scores(path: Path) -> list[Score]:
    """Read a score file, checking that its counts are those of its alignments."""
    if not Path(path).exists():
        raise InputError(f"{path}: not there; run bayes-asr score first")
    try:
        entries = json.loads(Path(path).read_text(encoding="utf-8"))
        return [_read_entry(entry) for entry in entries]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path}: not a score file ({error!r}); score the run again") from error


def _read_entry(entry: dict[str, Any]) -> Score:
    optional = frozenset(entry["optional"])
    score = Score(
        set=entry["set"],
        metric=entry["metric"],
        convention=entry["convention"],
        optional=optional,
        costs=entry["costs"],
        lm_weight=entry["lm_weight"],
        insertion_penalty=entry["insertion_penalty"],
        utterances=[_read_utterance(u, entry["costs"], optional) for u in entry["utterances"]],
    )
    if score.as_dict() != entry:
        raise InputError(f"the {score.convention} counts are not those of the texts")
    return score


def _read_utterance(u: dict[str, str], costs: Costs, optional: frozenset[str]) -> UtteranceScore:
    reference, hypothesis = tuple(u["reference"].split()), tuple(u["hypothesis"].split())
    counts = count_errors(reference, hypothesis, costs, optional)
    return UtteranceScore(u["utterance"], u["speaker"], counts, reference, hypothesis)

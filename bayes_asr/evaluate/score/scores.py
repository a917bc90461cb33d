"""Scores as values: what a set got under one convention, with the counts of every utterance."""

import json
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args

from bayes_asr.base.errors import InputError, count_of, printable
from bayes_asr.base.files import is_there, replacing
from bayes_asr.base.safe_pickle import loadable
from bayes_asr.base.walk import find_below
from bayes_asr.evaluate.score.counts import Costs, Edit, ErrorCounts, align, drop_unknown, tally
from bayes_asr.evaluate.score.statistics import Marks, mark
from bayes_asr.evaluate.score.word_network import align_marked
from bayes_asr.kaldi_io.binary import split_words
from bayes_asr.kaldi_io.side_files import check, read_json, take

Metric = Literal["per", "wer", "error"]
"""Of phones, of words, or of classified utterances."""

SPEAKER = "speaker"


@loadable
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

    `optional` are the reference tokens that may be missing without an error. `glm` are the rules
    that words scored by time went through; then the texts hold NIST's `(x)`, `x-`, `{ x / y }`.
    `unknown` are the reference words that do not count; None: all do. `decoded` says with what the
    set was decoded, where that is known. `cluster` is what a speaker of utt2spk is.
    """

    set: str | None
    metric: Metric
    convention: str
    optional: frozenset[str]
    costs: Costs
    lm_weight: float | None
    insertion_penalty: float | None
    utterances: Sequence[UtteranceScore]
    glm: str | None = None
    unknown: frozenset[str] | None = None
    decoded: dict[str, Any] | None = None
    cluster: str = SPEAKER

    @property
    def weights(self) -> tuple[float, float]:
        """LM weight and insertion penalty; NaN outside a run."""
        weights = (self.lm_weight, self.insertion_penalty)
        lm_weight, penalty = (math.nan if w is None else w for w in weights)
        return lm_weight, penalty

    @property
    def counts(self) -> ErrorCounts:
        """The counts of all utterances together."""
        return pool(u.counts for u in self.utterances)

    @property
    def speakers(self) -> dict[str, ErrorCounts]:
        """The counts by speaker, in order of first appearance."""
        # Counts are gathered first, and added up once for each speaker.
        by_speaker: dict[str, list[ErrorCounts]] = {}
        for utterance in self.utterances:
            by_speaker.setdefault(utterance.speaker, []).append(utterance.counts)
        return {speaker: pool(counts) for speaker, counts in by_speaker.items()}

    @property
    def unknown_share(self) -> float:
        """Per cent of the reference words that do not count, as they are unknown."""
        words = [word for u in self.utterances for word in u.reference]
        return 100.0 * sum(word in (self.unknown or ()) for word in words) / max(len(words), 1)

    def alignment(self, utterance: UtteranceScore) -> list[Edit]:
        """The alignment that the counts of `utterance` come from."""
        texts = utterance.reference, utterance.hypothesis
        if self.glm:
            return align_marked(*texts, self.optional)
        return drop_unknown(align(*texts, self.costs, self.optional), self.unknown or frozenset())

    @cached_property
    def marks(self) -> list[Marks]:
        """The errors of each utterance at the words of its reference."""
        return [mark(self.alignment(u)) for u in self.utterances]

    def as_dict(self) -> dict[str, Any]:
        """The entry of a score file; `rate` is per cent, None without reference tokens."""
        return {
            "set": self.set,
            "metric": self.metric,
            "convention": self.convention,
            "optional": sorted(self.optional),
            "costs": self.costs,
            # Keys that say nothing are left out, so that older files read back the same.
            **({"glm": self.glm} if self.glm else {}),
            "lm_weight": self.lm_weight,
            "insertion_penalty": self.insertion_penalty,
            **self.counts.as_dict(),
            "rate": self.counts.rate if self.counts.tokens else None,
            **self._describe_unknown(),
            **({"decoded": self.decoded} if self.decoded else {}),
            **({"cluster": self.cluster} if self.cluster != SPEAKER else {}),
            "utterances": [u.as_dict() for u in self.utterances],
        }

    def _describe_unknown(self) -> dict[str, Any]:
        if self.unknown is None:
            return {}
        return {"unknown": sorted(self.unknown), "unknown_share": self.unknown_share}

    def line(self) -> str:
        """Kaldi's line, with the convention and the weights it was counted at."""
        name, convention = printable(self.set or ""), printable(self.convention)
        where = [f"{name} " if name else "", self.metric.upper(), f" ({convention})"]
        if self.lm_weight is not None:
            where.append(f", LM weight {self.lm_weight:g}, penalty {self.insertion_penalty:.1f}")
        if self.unknown is not None:
            where.append(f", {self.unknown_share:.2f} % of all words are unknown")
        return f"{self.counts.kaldi_line(self.metric)} {''.join(where)}"


def pool(counts: Iterable[ErrorCounts]) -> ErrorCounts:
    """Add up counts."""
    return sum(counts, start=ErrorCounts())


def check_comparable(a: Score, b: Score, names: tuple[str, str]) -> None:
    """Raise InputError where two scores are not of the same references, counted alike."""
    # All of these change what counts as an error, over what, or what statistics are called.
    keys = ("set", "metric", "convention", "optional", "costs", "glm", "unknown", "cluster")
    for key in keys:
        values = getattr(a, key), getattr(b, key)
        if values[0] != values[1]:
            raise InputError(
                f"{names[0]} and {names[1]} differ in {key}: {_tell_apart(*values)}; score both"
                " alike"
            )
    _check_references(a, b, names)
    by_another = [
        u.utterance
        for u, v in zip(a.utterances, b.utterances, strict=True)
        if u.speaker != v.speaker
    ]
    if by_another:
        number = count_of(len(by_another), "utterance")
        raise InputError(
            f"{names[0]} and {names[1]} name other speakers of {number}, such as {by_another[0]};"
            " score both with the same utt2spk"
        )


def check_all_comparable(runs: Iterable[tuple[str, Score]]) -> None:
    """Raise InputError where a run, beside its name, is not comparable with the first of them."""
    (reference_name, reference), *compared = runs
    for name, run in compared:
        check_comparable(reference, run, (reference_name, name))


def _tell_apart(a: Any, b: Any) -> str:
    """Both values; of sets of words, which may be large, the numbers and a word of one alone."""
    if isinstance(a, frozenset) and isinstance(b, frozenset):
        return f"{len(a)} and {len(b)}, such as {min(a ^ b)}"
    return f"{a} and {b}"


def _check_references(a: Score, b: Score, names: tuple[str, str]) -> None:
    """Raise InputError where two scores have other utterances, texts, or another order of them."""
    references = [{u.utterance: u.reference for u in score.utterances} for score in (a, b)]
    # `get` gives None for an utterance that one side lacks, which differs from any text.
    texts = {utt: [each.get(utt) for each in references] for each in references for utt in each}
    different = [utt for utt, (of_a, of_b) in texts.items() if of_a != of_b]
    if different or list(references[0]) != list(references[1]):
        example = "their order"
        if different:
            utt = min(different)
            both = ("nothing" if t is None else repr(" ".join(t)) for t in texts[utt])
            example = f"{utt}: {' and '.join(both)}"
        raise InputError(
            f"{names[0]} and {names[1]} do not score the same {a.set} references: of"
            f" {len(references[0])} and {len(references[1])} utterances"
            f" {count_of(len(different), 'utterance differs', 'utterances differ')}, such as"
            f" {example}"
        )


def write_scores(scores: Sequence[Score], path: Path) -> None:
    """Write a score file: a list with one entry for each convention."""
    with replacing(path) as temporary:
        text = json.dumps([score.as_dict() for score in scores], indent=1, ensure_ascii=False)
        temporary.write_text(text + "\n", encoding="utf-8")


def find_scores(path: Path, *names: str) -> list[Path]:
    """The score files of these names at or below a folder; InputError where there is none."""
    if not is_there(path):
        raise InputError(f"{path}: there is no such folder; name a scored run, or one above runs")
    if not (files := find_below(path, *names)):
        files_due = ", ".join(names)
        raise InputError(f"{path}: no scored run here ({files_due}); run bayes-asr score first")
    return files


def is_seed(run: Path) -> bool:
    """Whether a run is one seed of the folder that it is in: the folder `seedN`."""
    return re.fullmatch(r"seed\d+", run.name) is not None


def read_scores(path: Path) -> list[Score]:
    """Read a score file, checking that its counts are those of its alignments."""
    if not is_there(Path(path)):
        raise InputError(f"{path}: not there; run bayes-asr score first")
    try:
        entries = check(read_json(Path(path)), "the file", "a list")
        if not entries:
            raise InputError("it has no entries")
        scores = [_read_entry(entry) for entry in entries]
        if len({score.convention for score in scores}) < len(scores):
            raise InputError("it has a convention twice")
        return scores
    except InputError as error:
        reason = str(error).removeprefix(f"{path}: ")
        raise InputError(f"{path}: not a score file ({reason}); score the run again") from None


def _read_entry(entry: Any) -> Score:
    parsed = Score(
        set=take(entry, "set", "a text", "null"),
        metric=_choose(entry, "metric", get_args(Metric)),
        convention=take(entry, "convention", "a text"),
        optional=_take_texts(entry, "optional"),
        costs=_choose(entry, "costs", get_args(Costs)),
        lm_weight=take(entry, "lm_weight", "a number", "null"),
        insertion_penalty=take(entry, "insertion_penalty", "a number", "null"),
        utterances=[
            _read_utterance(check(u, f"utterances[{i}]", "an object"))
            for i, u in enumerate(take(entry, "utterances", "a list"))
        ],
        glm=take(entry, "glm", "a text") if "glm" in entry else None,
        unknown=_take_texts(entry, "unknown") if "unknown" in entry else None,
        decoded=take(entry, "decoded", "an object") if "decoded" in entry else None,
        cluster=take(entry, "cluster", "a text") if "cluster" in entry else SPEAKER,
    )
    # Counts are made anew from the texts, and a file that was edited by hand shows below.
    counted = [replace(u, counts=tally(parsed.alignment(u))) for u in parsed.utterances]
    score = replace(parsed, utterances=counted)
    for key, value in score.as_dict().items():
        if key not in entry:
            raise InputError(f"{key} is missing")
        if entry[key] != value:
            raise InputError(f"{key}: the {score.convention} counts are not those of the texts")
    return score


def _take_texts(entry: Any, key: str) -> frozenset[str]:
    return frozenset(check(token, key, "a text") for token in take(entry, key, "a list"))


def _choose(entry: Any, key: str, choices: Sequence[str]) -> Any:
    value = take(entry, key, "a text")
    if value not in choices:
        raise InputError(f"{key} is {value!r}; choices: {', '.join(choices)}")
    return value


def _read_utterance(u: Any) -> UtteranceScore:
    keys = ("utterance", "speaker", "reference", "hypothesis")
    utterance, speaker, *texts = (take(u, key, "a text") for key in keys)
    reference, hypothesis = (tuple(split_words(text)) for text in texts)
    return UtteranceScore(utterance, speaker, ErrorCounts(), reference, hypothesis)

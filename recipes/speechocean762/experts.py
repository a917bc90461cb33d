"""The experts' scores of speechocean762, of words and of their phones.

They are `resource/scores.json`, or `resource/utt2score` of the corpus' first versions.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corpus import HOME, strip_marks
from notation import read_utt2score

from bayes_asr.base.errors import InputError

PHONE_SCORES, WORD_SCORES = (0.0, 2.0), (0.0, 10.0)  # least and highest


@dataclass(frozen=True)
class ScoredWord:
    """A word as the experts heard it; `phone_accuracies` are those of `phones`, one of each."""

    text: str
    accuracy: float
    phones: tuple[str, ...]
    phone_accuracies: tuple[float, ...]


def find_scores(corpus: Path) -> Path | None:
    """The file of scores in a clone; None where it has none, as a copy without large files."""
    names = ("resource/scores.json", "scores.json", "resource/utt2score")
    paths = (corpus / name for name in names)
    return next((path for path in paths if path.is_file()), None)


def read_scores(path: Path) -> dict[str, list[ScoredWord]]:
    """The words of each utterance; the mean or median of the five experts' scores of each.

    InputError where the file is not of the published form.
    """
    utterances = read_utt2score(path) if path.name == "utt2score" else _read_json(path)
    scores = {}
    for utt, entry in utterances.items():
        try:
            scores[utt] = [_read_word(word) for word in entry["words"]]
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InputError(f"{path}: {utt}: {error!r}; clone {HOME} again") from None
    return scores


def _read_json(path: Path) -> dict[str, Any]:
    try:
        utterances = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        mend = f"call git lfs pull in the clone, or clone {HOME} again"
        raise InputError(f"{path}: not JSON ({error}); {mend}") from None
    if not isinstance(utterances, dict):
        raise InputError(f"{path}: a list, not utterances by name; clone {HOME} again")
    return utterances


def _read_word(entry: Mapping[str, Any]) -> ScoredWord:
    # A list of phones in the published file, one string in its description.
    phones = entry["phones"]
    phones = phones.split() if isinstance(phones, str) else phones
    accuracies = [_check(value, PHONE_SCORES) for value in entry["phones-accuracy"]]
    if len(phones) != len(accuracies):
        raise ValueError(f"{len(phones)} phones and {len(accuracies)} scores of {entry['text']}")
    return ScoredWord(
        text=entry["text"],
        accuracy=_check(entry["accuracy"], WORD_SCORES),
        phones=tuple(map(strip_marks, phones)),
        phone_accuracies=tuple(accuracies),
    )


def _check(value: float, limits: tuple[float, float]) -> float:
    if not limits[0] <= value <= limits[1]:
        raise ValueError(f"a score of {value}, not {limits[0]:g} to {limits[1]:g}")
    return float(value)

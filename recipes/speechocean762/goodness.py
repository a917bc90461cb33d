"""The phones that both a run and the experts score: goodness of pronunciation beside accuracy."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from experts import ScoredWord

from bayes_asr.base.errors import InputError
from bayes_asr.evaluate.score.counts import align
from bayes_asr.kaldi_io.ark import iter_matrices
from bayes_asr.kaldi_io.binary import iter_lines
from bayes_asr.kaldi_io.text import read_mapping


@dataclass(frozen=True)
class ScoredPhones:
    """Phones [N] of a set, those left out that were aligned otherwise than the experts have them.

    goodness: float64 [N]; features: float32 [N, 2M], log posteriors and their ratios; accuracy: the
    experts', 0 to 2, [N]; word: the number of its word, [N]; word_accuracy: 0 to 10, [W]; lost: how
    many were left out.
    """

    phone: np.ndarray
    goodness: np.ndarray
    features: np.ndarray
    accuracy: np.ndarray
    speaker: np.ndarray
    group: np.ndarray
    word: np.ndarray
    word_accuracy: np.ndarray
    lost: int


def read_goodness(
    scored: Path, data: Path, experts: Mapping[str, Sequence[ScoredWord]]
) -> ScoredPhones:
    """Join what bayes-asr pronunciation wrote, the data directory of a set, and the experts' words.

    InputError for an utterance that no expert has scored, where the files disagree, and where they
    hold no utterance.
    """
    aligned = _read_phones(scored / "gop.txt")
    people, groups = read_mapping(data / "utt2spk"), read_mapping(data / "utt2age")
    columns: dict[str, list[np.ndarray]] = {}
    word_accuracy: list[float] = []
    lost = 0
    for utt, features in iter_matrices(scored / "features.scp"):
        if utt not in experts or len(aligned.get(utt, ())) != len(features):
            raise InputError(
                f"{scored}: {utt} has {len(features)} rows of features, {len(aligned.get(utt, ()))}"
                f" phones and {len(experts.get(utt, ()))} words that experts scored; score it again"
            )
        for table, known in (("utt2spk", people), ("utt2age", groups)):
            if utt not in known:
                raise InputError(f"{data / table}: lacks {utt} of {scored}; prepare the data again")
        words, (names, goodness) = experts[utt], zip(*aligned[utt], strict=True)
        phones = [phone for word in words for phone in word.phones]
        accuracy = np.array([a for word in words for a in word.phone_accuracies])
        number = np.repeat(np.arange(len(words)), [len(word.phones) for word in words])
        places, expert_places = match(phones, names)
        lost += len(phones) - len(places)
        for key, column in {
            "phone": np.array(phones)[expert_places],
            "goodness": np.array(goodness)[places],
            "features": features[places],
            "accuracy": accuracy[expert_places],
            "speaker": np.full(len(places), people[utt]),
            "group": np.full(len(places), groups[utt]),
            "word": len(word_accuracy) + number[expert_places],
        }.items():
            columns.setdefault(key, []).append(column)
        word_accuracy += [word.accuracy for word in words]
    if not columns:
        raise InputError(f"{scored}/features.scp: holds no utterance; score the set again")
    joined = {key: np.concatenate(parts) for key, parts in columns.items()}
    return ScoredPhones(**joined, word_accuracy=np.array(word_accuracy), lost=lost)


def _read_phones(path: Path) -> dict[str, list[tuple[str, float]]]:
    """The phones of each utterance and their goodness."""
    phones: dict[str, list[tuple[str, float]]] = {}
    for number, fields in iter_lines(path):
        try:
            utt, _, phone, goodness = fields
            phones.setdefault(utt, []).append((phone, float(goodness)))
        except ValueError:
            raise InputError(
                f"{path}, line {number}: not `utterance place phone goodness`; score the set again"
            ) from None
    return phones


def match(reference: Sequence[str], names: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """The places in `names` and in `reference` of the phones that are the same, in order."""
    i = j = 0
    pairs = []
    for edit in align(reference, names):
        if edit.kind == "correct":
            pairs.append((j, i))
        i += edit.ref is not None
        j += edit.hyp is not None
    places = np.array(pairs, dtype=int).reshape(-1, 2)
    return places[:, 0], places[:, 1]

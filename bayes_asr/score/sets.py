"""Scores of decoded sets: the LM weight and the penalty are picked on dev, test is only read."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from bayes_asr.errors import InputError
from bayes_asr.score.counts import Costs, ErrorCounts, count_errors
from bayes_asr.score.phones import PhoneMap, fold, timit_map
from bayes_asr.tables.text import read_mapping, read_text

Metric = Literal["per", "wer"]
Text = Mapping[str, Sequence[str]]
Entry = dict[str, Any]
Weights = tuple[float, float]
"""LM weight and insertion penalty."""

CONVENTIONS: dict[str, dict[str, frozenset[str]]] = {
    "per": {"strict": frozenset(), "forgiving": frozenset({"sil"})},
    "wer": {"plain": frozenset()},
}
"""For each metric its conventions, and the reference tokens that each lets be missing."""

_HYPOTHESES = re.compile(r"words\.lmwt([\d.]+(?:e[+-]\d+)?)\.wip(-?\d+\.\d+)\.txt")


@dataclass(frozen=True)
class SetPaths:
    """One set: its reference `text`, its folder of hypotheses, and who speaks, where known."""

    reference: Path
    decode: Path
    utt2spk: Path | None = None


def find_hypotheses(decode: Path) -> dict[Weights, Path]:
    """The files `words.lmwtW.wipP.txt` of a decode folder by (LM weight, penalty), ascending."""
    found = {}
    for path in Path(decode).glob("words.lmwt*.wip*.txt"):
        match = _HYPOTHESES.fullmatch(path.name)
        if match is None:
            raise InputError(f"{path}: expected a name like words.lmwt5.wip0.0.txt")
        found[float(match[1]), float(match[2])] = path
    if not found:
        raise InputError(f"{decode}: no words.lmwtW.wipP.txt; decode the set before scoring it")
    return dict(sorted(found.items()))


def check_same_utterances(reference: Text, hypothesis: Text, name: str | Path) -> None:
    """Refuse hypotheses that lack an utterance of the reference, or have one that it lacks."""
    for missing, what in (
        (reference.keys() - hypothesis.keys(), "of the reference have no hypothesis"),
        (hypothesis.keys() - reference.keys(), "with a hypothesis are not in the reference"),
    ):
        if missing:
            some = ", ".join(sorted(missing)[:5]) + (", ..." if len(missing) > 5 else "")
            raise InputError(
                f"{name}: {len(missing)} of {len(reference)} utterances {what}: {some}"
            )


def score_utterances(
    reference: Text, hypothesis: Text, costs: Costs, optional: frozenset[str] = frozenset()
) -> dict[str, ErrorCounts]:
    """Counts of every utterance, in the order of the reference; both must hold the same ones."""
    return {
        utterance: count_errors(words, hypothesis[utterance], costs, optional)
        for utterance, words in reference.items()
    }


def pool(counts: Iterable[ErrorCounts]) -> ErrorCounts:
    """The counts of a whole set."""
    return sum(counts, start=ErrorCounts())


class _Sweep:
    """One decoded set under one metric: its reference and its hypotheses, folded, by weights."""

    def __init__(self, name: str, paths: SetPaths, metric: Metric, costs: Costs, phones: PhoneMap):
        self.name, self.metric, self.costs, self._phones = name, metric, costs, phones
        self.files = find_hypotheses(paths.decode)
        self.reference = self._read(paths.reference)
        self.speakers = read_mapping(paths.utt2spk) if paths.utt2spk else {}
        self._counted: dict[tuple[str, str, frozenset[str]], ErrorCounts] = {}

    def _read(self, path: Path) -> dict[str, list[str]]:
        return {utterance: fold(t, self._phones) for utterance, t in read_text(path).items()}

    def hypothesis(self, weights: Weights) -> dict[str, list[str]]:
        """The folded hypotheses at these weights; every utterance of the reference has one."""
        if weights not in self.files:
            raise InputError(
                f"set {self.name} was not decoded at LM weight {weights[0]:g} and penalty "
                f"{weights[1]:.1f}, which dev picks; decode both sets with the same sweep"
            )
        words = self._read(self.files[weights])
        check_same_utterances(self.reference, words, self.files[weights])
        return words

    def counts(self, weights: Weights, optional: frozenset[str]) -> dict[str, ErrorCounts]:
        """Counts by utterance; neighbouring weights share most hypotheses, which count once."""
        counts = {}
        for utterance, words in self.hypothesis(weights).items():
            key = utterance, " ".join(words), optional
            if key not in self._counted:
                reference = self.reference[utterance]
                self._counted[key] = count_errors(reference, words, self.costs, optional)
            counts[utterance] = self._counted[key]
        return counts

    def best(self, optional: frozenset[str]) -> Weights:
        """The weights with the fewest errors; of equals the smaller LM weight, then penalty."""
        return min(self.files, key=lambda w: (pool(self.counts(w, optional).values()).errors, w))

    def entry(self, convention: str, optional: frozenset[str], weights: Weights) -> Entry:
        """What a score file says of this set at these weights."""
        counts = self.counts(weights, optional)
        hypothesis = self.hypothesis(weights)
        pooled = pool(counts.values())
        return {
            "set": self.name,
            "metric": self.metric,
            "convention": convention,
            "costs": self.costs,
            "lm_weight": weights[0],
            "insertion_penalty": weights[1],
            **pooled.as_dict(),
            "rate": pooled.rate,
            "utterances": [
                {
                    "utterance": utterance,
                    "speaker": self.speakers.get(utterance, utterance),
                    **counts[utterance].as_dict(),
                    "reference": " ".join(words),
                    "hypothesis": " ".join(hypothesis[utterance]),
                }
                for utterance, words in self.reference.items()
            ],
        }


def score_run(
    sets: Mapping[str, SetPaths],
    metric: Metric,
    costs: Costs = "sclite",
    phone_map: int | None = None,
    oracle: bool = False,
) -> dict[str, list[Entry]]:
    """Score decoded sets, `dev` and others, one entry for each convention of the metric.

    The LM weight and the insertion penalty are those with the fewest errors on dev, for each
    convention by itself; of equals the smaller LM weight, then the smaller penalty. With `oracle`
    each set has the weights that are best for itself, which is never a result. `phone_map` folds
    TIMIT phones to 48 or 39 first. `rate` is per cent.
    """
    if metric not in CONVENTIONS:
        raise InputError(f"unknown metric {metric!r}; known: {', '.join(CONVENTIONS)}")
    if "dev" not in sets:
        raise InputError(f"the LM weight is picked on set dev, but there are only {list(sets)}")
    phones = timit_map(phone_map) if phone_map else {}
    sweeps = {name: _Sweep(name, paths, metric, costs, phones) for name, paths in sets.items()}
    entries: dict[str, list[Entry]] = {name: [] for name in sets}
    for convention, optional in CONVENTIONS[metric].items():
        picked = sweeps["dev"].best(optional)
        for name, sweep in sweeps.items():
            weights = sweep.best(optional) if oracle else picked
            entries[name].append(sweep.entry(convention, optional, weights))
    return entries

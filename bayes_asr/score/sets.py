"""Scores of decoded sets: the LM weight and the penalty are picked on dev, test is only read."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from bayes_asr.errors import InputError
from bayes_asr.score.counts import Costs, count_errors
from bayes_asr.score.phones import PhoneMap, fold, timit_map
from bayes_asr.score.scores import CONVENTIONS, Metric, Score, UtteranceScore
from bayes_asr.tables.text import read_mapping, read_text

Text = Mapping[str, Sequence[str]]
Weights = tuple[float, float]
"""LM weight and insertion penalty."""

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


# Neighbouring LM weights share most hypotheses.
_count = lru_cache(maxsize=200_000)(count_errors)


def score_utterances(
    reference: Text,
    hypothesis: Text,
    name: str | Path,
    costs: Costs,
    optional: frozenset[str] = frozenset(),
    speakers: Mapping[str, str] | None = None,
) -> list[UtteranceScore]:
    """Score every utterance, in the order of the reference.

    Both sides must hold the same utterances; `name` says in the error whose hypotheses they are.
    An utterance that `speakers` does not name is a speaker of its own.
    """
    check_same_utterances(reference, hypothesis, name)
    speakers = speakers or {}
    scored = []
    for utterance, words in reference.items():
        ref, hyp = tuple(words), tuple(hypothesis[utterance])
        counts = _count(ref, hyp, costs, optional)
        scored.append(
            UtteranceScore(utterance, speakers.get(utterance, utterance), counts, ref, hyp)
        )
    return scored


class _Sweep:
    """One decoded set: its reference and its hypotheses at every weight, folded."""

    def __init__(self, name: str, paths: SetPaths, costs: Costs, phones: PhoneMap) -> None:
        self.name, self.costs, self._phones = name, costs, phones
        self.files = find_hypotheses(paths.decode)
        self.reference = self._read(paths.reference)
        self.speakers = read_mapping(paths.utt2spk) if paths.utt2spk else {}

    def _read(self, path: Path) -> dict[str, list[str]]:
        return {utterance: fold(t, self._phones) for utterance, t in read_text(path).items()}

    def utterances(self, weights: Weights, optional: frozenset[str]) -> list[UtteranceScore]:
        """Every utterance of the reference against its hypothesis at these weights."""
        if weights not in self.files:
            raise InputError(
                f"set {self.name} was not decoded at LM weight {weights[0]:g} and penalty "
                f"{weights[1]:.1f}, which dev picks; decode both sets with the same sweep"
            )
        path = self.files[weights]
        return score_utterances(
            self.reference, self._read(path), path, self.costs, optional, self.speakers
        )

    def best(self, optional: frozenset[str]) -> Weights:
        """The weights with the fewest errors; of equals the smaller LM weight, then penalty."""

        def errors(weights: Weights) -> int:
            return sum(u.counts.errors for u in self.utterances(weights, optional))

        return min(self.files, key=lambda weights: (errors(weights), weights))


def score_run(
    sets: Mapping[str, SetPaths],
    metric: Metric,
    costs: Costs = "sclite",
    phone_map: int | None = None,
    oracle: bool = False,
) -> dict[str, list[Score]]:
    """Score decoded sets, `dev` and others, once for each convention of the metric.

    The LM weight and the insertion penalty are those with the fewest errors on dev, for each
    convention by itself; of equals the smaller LM weight, then the smaller penalty. With `oracle`
    each set has the weights that are best for itself, which is never a result. `phone_map` folds
    TIMIT phones to 48 or 39 first.
    """
    if metric not in CONVENTIONS:
        raise InputError(f"unknown metric {metric!r}; known: {', '.join(CONVENTIONS)}")
    if "dev" not in sets:
        raise InputError(f"the LM weight is picked on set dev, but there are only {list(sets)}")
    phones = timit_map(phone_map) if phone_map else {}
    sweeps = {name: _Sweep(name, paths, costs, phones) for name, paths in sets.items()}
    scores: dict[str, list[Score]] = {name: [] for name in sets}
    for convention, optional in CONVENTIONS[metric].items():
        picked = sweeps["dev"].best(optional)
        for name, sweep in sweeps.items():
            weights = sweep.best(optional) if oracle else picked
            utterances = sweep.utterances(weights, optional)
            scores[name].append(
                Score(name, metric, convention, optional, costs, *weights, utterances)
            )
    return scores

"""Scores of decoded sets: the LM weight and the penalty are picked on dev, test is only read."""

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Protocol

from bayes_asr.base.errors import InputError, name_some
from bayes_asr.base.files import find_files
from bayes_asr.evaluate.score.conventions import CONVENTIONS, Convention
from bayes_asr.evaluate.score.counts import Costs, count_errors
from bayes_asr.evaluate.score.glm import read_glm
from bayes_asr.evaluate.score.nist import read_ctm, read_stm, score_segments
from bayes_asr.evaluate.score.phones import PhoneMap, fold
from bayes_asr.evaluate.score.scores import Metric, Score, UtteranceScore
from bayes_asr.kaldi_io.data_dir import read_texts
from bayes_asr.kaldi_io.text import read_mapping

Text = Mapping[str, Sequence[str]]
Weights = tuple[float, float]
"""LM weight and insertion penalty."""
UNWEIGHTED: Weights = (math.nan, math.nan)
"""Stands for the weights of hypotheses that were written without them."""

_HYPOTHESES = re.compile(r"words\.lmwt([\d.]+(?:e[+-]\d+)?)\.wip(-?\d+\.\d+)\.txt")


@dataclass(frozen=True)
class SetPaths:
    """One set: its references `text`, its folder of hypotheses, and who speaks, where known.

    weighted: whether there are hypotheses at several LM weights, of a graph; else there is one,
    `words.txt`, which a decoder has written.
    """

    references: Sequence[Path]
    decode: Path
    utt2spk: Sequence[Path] = ()
    weighted: bool = True


def find_hypotheses(decode: Path) -> dict[Weights, Path]:
    """The files `words.lmwtW.wipP.txt` of a decode folder by (LM weight, penalty), ascending."""
    files = {}
    for path in find_files(Path(decode), "words.lmwt*.wip*.txt"):
        match = _HYPOTHESES.fullmatch(path.name)
        if match is None:
            raise InputError(f"{path}: expected a name like words.lmwt5.wip0.0.txt")
        # The name of a file is the only place where its weights are written.
        files[float(match[1]), float(match[2])] = path
    if not files:
        raise InputError(f"{decode}: no words.lmwtW.wipP.txt; decode the set before scoring it")
    return dict(sorted(files.items()))


@dataclass(frozen=True)
class Reference:
    """The transcripts of a set.

    speakers: of all utterances, or of none: then each is a speaker of its own. without_features:
    utterances that need no hypothesis: all their words are deletions.
    """

    text: Text
    speakers: Mapping[str, str] = field(default_factory=dict)
    without_features: Collection[str] = ()


def read_values(files: Sequence[Path], utterances: Collection[str]) -> dict[str, str]:
    """The values of utterances in tables such as utt2spk; InputError where one of them has none."""
    table = {utt: value for file in files for utt, value in read_mapping(file).items()}
    if lacking := [utt for utt in utterances if utt not in table]:
        raise InputError(
            f"{' and '.join(map(str, files))}: lacks {len(lacking)} of {len(utterances)}"
            f" utterances, {name_some(lacking)}; complete it"
        )
    return {utt: table[utt] for utt in utterances}


def check_same_utterances(reference: Reference, hypothesis: Text, name: str | Path) -> None:
    """Refuse hypotheses that lack an utterance of the reference, or have one that it lacks."""
    for side, counterpart, what in (
        (reference.text, hypothesis, "of the reference have no hypothesis"),
        (hypothesis, reference.text, "with a hypothesis are not in the reference"),
    ):
        missing = side.keys() - counterpart.keys() - set(reference.without_features)
        if missing:
            strangers = sorted(counterpart.keys() - side.keys())
            raise InputError(
                f"{name}: {len(missing)} of {len(side)} utterances {what}:"
                f" {name_some(sorted(missing))}"
                + f"; the other side has {name_some(strangers)} instead"
                * bool(strangers)
            )


# Neighbouring LM weights share most hypotheses.
_count = lru_cache(maxsize=200_000)(count_errors)


def score_utterances(
    reference: Reference,
    hypothesis: Text,
    name: str | Path,
    costs: Costs,
    optional: frozenset[str] = frozenset(),
    unknown: frozenset[str] = frozenset(),
) -> list[UtteranceScore]:
    """Score every utterance, in the order of the reference; `unknown` as for `leave_out`.

    Both sides must hold the same utterances; `name` says in the error whose hypotheses they are.
    """
    check_same_utterances(reference, hypothesis, name)
    scored = []
    for utterance, words in reference.text.items():
        # Tuples can be keys of the cache.
        ref, hyp = tuple(words), tuple(hypothesis.get(utterance, ()))
        try:
            counts = _count(ref, hyp, costs, optional, unknown)
        except InputError as error:
            raise InputError(f"{name}: {utterance}: {error}") from None
        speaker = reference.speakers.get(utterance, utterance)
        scored.append(UtteranceScore(utterance, speaker, counts, ref, hyp))
    return scored


class Sweep(Protocol):
    """One decoded set: its errors at every pair of weights that were tried."""

    name: str
    weights: Sequence[Weights]

    def utterances(self, weights: Weights, convention: Convention) -> list[UtteranceScore]:
        """Every utterance of the reference against its hypothesis at these weights."""

    def unknown(self, convention: Convention) -> frozenset[str] | None:
        """The reference words that a convention with a vocabulary does not count."""


class TextSweep:
    """A set whose hypotheses are texts: its reference and the files of words, folded.

    without_features: as in `Reference`.
    """

    def __init__(
        self,
        name: str,
        paths: SetPaths,
        costs: Costs,
        phones: PhoneMap,
        without_features: Collection[str] = (),
    ) -> None:
        self.name, self.costs, self._phones = name, costs, phones
        self.files = {UNWEIGHTED: paths.decode / "words.txt"}
        if paths.weighted:
            self.files = find_hypotheses(paths.decode)
        self.weights: Sequence[Weights] = list(self.files)
        text = self._read(*paths.references)
        speakers = read_values(paths.utt2spk, text) if paths.utt2spk else {}
        self.reference = Reference(text, speakers, without_features)

    def _read(self, *paths: Path) -> dict[str, list[str]]:
        return _fold_all(read_texts(paths), self._phones)

    def utterances(self, weights: Weights, convention: Convention) -> list[UtteranceScore]:
        """Every utterance of the reference against its hypothesis at these weights."""
        path = self.files[weights]
        reference, hypothesis = (
            _fold_all(text, convention.phones) for text in (self.reference.text, self._read(path))
        )
        return score_utterances(
            replace(self.reference, text=reference),
            hypothesis,
            path,
            self.costs,
            convention.optional,
            self.unknown(convention) or frozenset(),
        )

    def unknown(self, convention: Convention) -> frozenset[str] | None:
        """The reference words that a convention with a vocabulary does not count."""
        if convention.vocabulary is None:
            return None
        # Only words that were said matter, and the vocabulary may be much larger.
        words = {word for transcript in self.reference.text.values() for word in transcript}
        return frozenset(words - convention.vocabulary)


def _fold_all(text: Text, phones: PhoneMap) -> dict[str, list[str]]:
    return {utterance: fold(tokens, phones) for utterance, tokens in text.items()}


class TimedSweep:
    """A set whose hypotheses are words with times: an STM, rules, and a CTM at each weight."""

    def __init__(
        self, name: str, stm: Path, glm: Path, phones: PhoneMap, ctms: Mapping[Weights, Path]
    ) -> None:
        """Read the reference; a CTM is read when it is needed, so `ctms` may make them then."""
        self.name, self._ctms, self._phones = name, ctms, phones
        self.weights: Sequence[Weights] = list(ctms)
        self._segments = read_stm(stm)
        self._rules = read_glm(glm, "ref"), read_glm(glm, "hyp")
        if not self._segments:
            raise InputError(f"{stm}: holds no segment to score")
        self._scored: dict[tuple[Weights, Convention], list[UtteranceScore]] = {}

    def utterances(self, weights: Weights, convention: Convention) -> list[UtteranceScore]:
        """Every segment of the reference against the words that fall into it at these weights."""
        key = weights, convention
        if key not in self._scored:
            path, optional = self._ctms[weights], convention.optional
            self._scored[key] = score_segments(
                self._segments, read_ctm(path), path, *self._rules, optional, self._phones
            )
        return self._scored[key]

    def unknown(self, convention: Convention) -> frozenset[str] | None:
        """All words count: rules change them on their way."""
        return None


class CountedSweep:
    """A set whose errors are counted elsewhere and stored, for all weights and conventions."""

    def __init__(self, sweep: Sweep) -> None:
        self.name, self.weights, self.unknown = sweep.name, sweep.weights, sweep.unknown
        self._counted: dict[tuple[Weights, Convention], list[UtteranceScore]] = {}

    def store(
        self,
        weights: Weights,
        conventions: Sequence[Convention],
        scores: Sequence[list[UtteranceScore]],
    ) -> None:
        """Store the utterances at some weights, by convention."""
        for convention, utterances in zip(conventions, scores, strict=True):
            self._counted[weights, convention] = utterances

    def utterances(self, weights: Weights, convention: Convention) -> list[UtteranceScore]:
        """Every utterance of the reference against its hypothesis at these weights."""
        return self._counted[weights, convention]


def choose_weights(sweep: Sweep, convention: Convention) -> Weights:
    """The weights with the fewest errors; of equals the smaller LM weight, then penalty."""

    def errors(weights: Weights) -> int:
        return sum(u.counts.errors for u in sweep.utterances(weights, convention))

    return min(sweep.weights, key=lambda weights: (errors(weights), weights))


def score_sweeps(
    sweeps: Mapping[str, Sweep],
    metric: Metric,
    costs: Costs,
    *,
    conventions: Sequence[Convention] = (),
    glm: str | None = None,
    oracle: bool = False,
) -> dict[str, list[Score]]:
    """Score decoded sets, `dev` and others, once for each convention, by default the metric's own.

    The LM weight and the insertion penalty are those with the fewest errors on dev, for each
    convention by itself; of equals the smaller LM weight, then the smaller penalty. With `oracle`
    each set has the weights that are best for itself, which is never a result. `glm` names the
    rules that the sweeps apply, for the score.
    """
    if metric not in CONVENTIONS:
        raise InputError(f"unknown metric {metric!r}; known: {', '.join(CONVENTIONS)}")
    if "dev" not in sweeps:
        raise InputError(f"the LM weight is picked on set dev, but there are only {list(sweeps)}")
    scores: dict[str, list[Score]] = {name: [] for name in sweeps}
    for convention in conventions or CONVENTIONS[metric]:
        # Each convention picks on dev anew, since it may count other errors.
        picked = choose_weights(sweeps["dev"], convention)
        for name, sweep in sweeps.items():
            weights = choose_weights(sweep, convention) if oracle else picked
            if weights not in sweep.weights:
                raise InputError(
                    f"set {name} was not decoded at LM weight {weights[0]:g} and penalty "
                    f"{weights[1]:.1f}, which dev picks; decode both sets with the same sweep"
                )
            scores[name].append(
                Score(
                    name,
                    metric,
                    convention.name,
                    convention.optional,
                    costs,
                    # NaN stands for no weight in sweeps, and JSON has null for it.
                    None if math.isnan(weights[0]) else weights[0],
                    None if math.isnan(weights[1]) else weights[1],
                    sweep.utterances(weights, convention),
                    glm,
                    sweep.unknown(convention),
                )
            )
    return scores

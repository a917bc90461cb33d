"""Utterances that were classified: error rate, confusions, detection costs, by duration."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayes_asr.base.errors import printable
from bayes_asr.evaluate.score.counts import count_errors
from bayes_asr.evaluate.score.detection import average_cost, detection_ratios, primary_cost_lre17
from bayes_asr.evaluate.score.scores import Score, UtteranceScore
from bayes_asr.evaluate.score.statistics import Interval, beta_interval

UNDECIDED = -1
"""Stands for the number of a class where an utterance has no features."""


@dataclass(frozen=True)
class ClassifiedUtterances:
    """Classified utterances whose classes are known.

    names: of the classes; utterances: their names [U]; log_likelihoods_UL: of each class, but for a
    number that an utterance has in all of them; decided_U, labels_U: the numbers of the class that
    was decided for and of the right one. Of those that are `UNDECIDED` no class is said to be
    there: each is an error and a miss, and no likelihood of it is read.
    """

    names: Sequence[str]
    utterances: Sequence[str]
    log_likelihoods_UL: np.ndarray
    decided_U: np.ndarray
    labels_U: np.ndarray

    @property
    def errors(self) -> int:
        """The number of utterances that are taken for another class, or for none."""
        return int((self.decided_U != self.labels_U).sum())

    @property
    def _decided(self) -> np.ndarray:
        """The places of the utterances that have a decision."""
        return np.flatnonzero(self.decided_U != UNDECIDED)

    @property
    def rate(self) -> float:
        """The same in per cent."""
        return 100 * self.errors / len(self.utterances)

    @property
    def interval(self) -> Interval:
        """95 % of the rate, if utterances fail independently."""
        return beta_interval(self.errors, len(self.utterances))

    @property
    def confusions(self) -> np.ndarray:
        """Utterances of each class (row) that are taken for each class (column), counted [L, L].

        Those without a decision are in no column.
        """
        counts = np.zeros((len(self.names), len(self.names)), int)
        # np.add.at counts repeated pairs, which an indexed += would count once.
        places = self._decided
        np.add.at(counts, (self.labels_U[places], self.decided_U[places]), 1)
        return counts

    def costs(self) -> dict[str, float | None]:
        """C_avg as in NIST's plans up to 2011 (C_miss = C_FA = 1, P_target = 0.5), and the primary
        cost of 2017; None where all utterances are of one class.
        """
        if len(np.unique(self.labels_U)) < 2:
            return {"c_avg": None, "c_primary_lre17": None}
        places = self._decided
        # A ratio of 0, whose logarithm this is, is below every threshold: no class is said.
        ratios = np.full(self.log_likelihoods_UL.shape, -np.inf)
        ratios[places] = detection_ratios(self.log_likelihoods_UL[places])
        return {
            # average_cost divides by C_miss P_target = 0.5, which the older plans did not do.
            "c_avg": average_cost(ratios, self.labels_U, p_target=0.5) / 2,
            "c_primary_lre17": primary_cost_lre17(ratios, self.labels_U),
        }

    def take(self, indices: np.ndarray) -> "ClassifiedUtterances":
        """Some of the utterances, by their places."""
        return ClassifiedUtterances(
            self.names,
            [self.utterances[index] for index in indices],
            self.log_likelihoods_UL[indices],
            self.decided_U[indices],
            self.labels_U[indices],
        )

    def by_duration(
        self, seconds: Mapping[str, float], nominal: Sequence[float]
    ) -> dict[float, "ClassifiedUtterances"]:
        """Those nearest to each nominal duration, by the ratio; seconds: of each utterance."""
        durations = np.array([seconds[utt] for utt in self.utterances])
        # The ratio of durations is a difference of their logarithms.
        distance = np.abs(np.log(durations)[:, None] - np.log(np.array(nominal))[None, :])
        nearest = distance.argmin(1)
        groups = {n: self.take(np.flatnonzero(nearest == k)) for k, n in enumerate(nominal)}
        return {duration: group for duration, group in groups.items() if group.utterances}

    def score(self, set_name: str | None, speakers: Mapping[str, str]) -> Score:
        """The errors as those of texts of one word, or none, for compare and report."""
        right, decided = (
            [() if number == UNDECIDED else (self.names[number],) for number in numbers]
            for numbers in (self.labels_U, self.decided_U)
        )
        return Score(
            set=set_name,
            metric="error",
            convention="plain",
            optional=frozenset(),
            costs="levenshtein",
            lm_weight=None,
            insertion_penalty=None,
            utterances=[
                UtteranceScore(utt, speakers[utt], count_errors(ref, hyp, "levenshtein"), ref, hyp)
                for utt, ref, hyp in zip(self.utterances, right, decided, strict=True)
            ],
        )

    def as_dict(self) -> dict[str, Any]:
        """Everything but the utterances, as plain data."""
        return {
            "utterances": len(self.utterances),
            "errors": self.errors,
            "undecided": len(self.utterances) - len(self._decided),
            "rate": self.rate,
            "interval": list(self.interval),
            **self.costs(),
            "classes": list(self.names),
            "confusions": self.confusions.tolist(),
        }

    def line(self, what: str) -> str:
        """One line: "test: 6 of 48 wrong, 12.50 % [5.94, 24.72], C_avg 0.0682, LRE17 0.2214"."""
        low, high = self.interval
        c_avg, lre17 = (math.nan if cost is None else cost for cost in self.costs().values())
        lacking = len(self.utterances) - len(self._decided)
        counted = f"{self.errors} of {len(self.utterances)} wrong"
        counted += f" ({lacking} without features)" if lacking else ""
        return (
            f"{printable(what)}: {counted}, {self.rate:.2f} % [{low:.2f}, {high:.2f}],"
            f" C_avg {c_avg:.4f}, LRE17 {lre17:.4f}"
        )

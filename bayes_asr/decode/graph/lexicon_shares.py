"""How likely pronunciations and pauses are by L.fst, as Kaldi's scripts write it.

A word's first arc writes it and bears the cost of its pronunciation. A pause follows a word behind
an arc of its own (make_lexicon_fst.py), also at the start on the arc itself (make_lexicon_fst.pl),
or each word leads to the pause as likely as it is behind this word (make_lexicon_fst_silprob.py).
"""

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bayes_asr.base import elementary
from bayes_asr.decode.graph.transducers import sources
from bayes_asr.kaldi_io.openfst import Fst

CERTAIN = 1 - 1e-4  # above which a pause is no choice
Saying = tuple[int, tuple[int | None, ...]]  # word-id and phone-ids


@dataclass(frozen=True)
class LexiconShares:
    """The probabilities of L.fst: of pauses, and of the pronunciations of `spoken`, word-ids.

    silence: the phone-id of pauses, -1 for none.
    """

    fst: Fst
    spoken: frozenset[int]
    silence: int = -1

    @cached_property
    def pause(self) -> float:
        """The probability of a pause: of all words alike behind them, or else at the start."""
        fst = self.fst
        take = np.bincount(self._sources, self._shares * self._is_pause, fst.num_states)
        idle = np.bincount(self._sources, ~self._is_between, fst.num_states) == 0
        behind = idle & (take > 0) & (take < CERTAIN)
        behind[fst.start] = False
        if behind.any():
            return _round(take[behind].mean())
        begin, end = fst.offsets[fst.start : fst.start + 2]
        onward = slice(begin, end)
        skips = self._is_between[onward] & (fst.ilabel[onward] == 0)
        behind_skips = (self._shares[onward] * take[fst.nextstate[onward]])[skips].sum()
        return _round(min(CERTAIN, take[fst.start] + behind_skips))

    def of_pronunciations(self, longest: int) -> dict[Saying, float]:
        """The probability of each pronunciation of at most so many phones.

        Its arcs from all places between words are summed.
        """
        fst, first = self.fst, np.flatnonzero(self._speaks)
        labels, state = [fst.ilabel[first]], fst.nextstate[first]
        for _ in range(longest):
            walking = ~self._is_rest[state] & (np.diff(fst.offsets)[state] > 0)
            if not walking.any():
                break
            arc = np.where(walking, fst.offsets[state], 0)
            labels.append(np.where(walking, fst.ilabel[arc], 0))
            state = np.where(walking, fst.nextstate[arc], state)
        shares: dict[Saying, float] = defaultdict(float)
        chances = self._shares[first] * self._chance_of_hub[self._sources[first]]
        columns = fst.olabel[first], np.column_stack(labels), chances
        for word, row, chance in zip(*(column.tolist() for column in columns), strict=True):
            shares[word, tuple(filter(None, row))] += chance
        return {saying: _round(share) for saying, share in shares.items()}

    @cached_property
    def _chance_of_hub(self) -> np.ndarray:
        """How likely a word begins in each state [S] from which words do."""
        fst = self.fst
        paused = np.bincount(fst.nextstate[self._is_pause], minlength=fst.num_states) > 0
        if not self.pause or paused[self._is_hub].all() or not paused[self._is_hub].any():
            return np.ones(fst.num_states)
        return np.where(paused, self.pause, 1 - self.pause)

    @cached_property
    def _is_rest(self) -> np.ndarray:
        """Whether a word is over in each state [S]: words or pauses alone follow."""
        fst = self.fst
        if not self.pause:
            return self._is_hub
        returns = self._is_between & self._is_hub[fst.nextstate]
        return self._is_hub | (np.bincount(self._sources, ~returns, fst.num_states) == 0)

    @cached_property
    def _is_hub(self) -> np.ndarray:
        """Whether words begin in each state [S]."""
        begun = self._sources[self._speaks]
        return np.bincount(begun, minlength=self.fst.num_states) > 0

    @cached_property
    def _speaks(self) -> np.ndarray:
        """Whether each arc [A] writes one of the words."""
        return np.isin(self.fst.olabel, [*self.spoken])

    @cached_property
    def _is_pause(self) -> np.ndarray:
        """Whether each arc [A] is a pause."""
        fst = self.fst
        return (fst.olabel == 0) & (fst.ilabel == self.silence)

    @cached_property
    def _is_between(self) -> np.ndarray:
        """Whether each arc [A] is a pause or nothing."""
        fst = self.fst
        return self._is_pause | ((fst.olabel == 0) & (fst.ilabel == 0))

    @cached_property
    def _sources(self) -> np.ndarray:
        return sources(self.fst)

    @cached_property
    def _shares(self) -> np.ndarray:
        return elementary.exp(-self.fst.weight)


def _round(share: float) -> float:
    """A probability with the digits that float32 costs have, at most 1."""
    return min(1.0, float(f"{share:.6g}"))

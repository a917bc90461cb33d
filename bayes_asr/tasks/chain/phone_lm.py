"""Phone language model of LF-MMI: an n-gram without smoothing, whose rare histories are merged.

A history that is merged gives its counts to the one without its first phone, and its incoming arcs
lead there. So there are neither back-off arcs nor arcs of sequences that training does not have.
Kaldi: chain/language-model.cc, whose order of merging and single precision are kept.
"""

import heapq
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from bayes_asr.base import elementary
from bayes_asr.base.errors import InputError
from bayes_asr.decode.graph.transducers import PhoneAcceptor, PhoneArc

END = 0  # among phones: the end of an utterance; in a history: its beginning
ROUNDS = 4  # of merging, each of which begins with exact costs
SAME = 0.001  # relative difference of costs that count as equal, Kaldi's ApproxEqual
OF_EMPTY = np.float32(-1e-15)  # the gain for each count that goes to a history without counts


@dataclass(frozen=True)
class PhoneLmOptions:
    """Options of Kaldi's chain-est-phone-lm.

    All histories shorter than `no_prune_ngram_order` phones are kept; of longer ones, up to
    `ngram_order` less 1 phones, about `num_extra_lm_states`.
    """

    ngram_order: int = 4
    num_extra_lm_states: int = 1000
    no_prune_ngram_order: int = 3

    def __post_init__(self) -> None:
        """InputError for orders that do not go together."""
        if not 1 <= self.no_prune_ngram_order <= self.ngram_order or self.ngram_order < 2:
            raise InputError(
                f"a phone language model of order {self.ngram_order} that keeps order"
                f" {self.no_prune_ngram_order}: the first is 2 or more, the second not larger"
            )


@dataclass
class _History:
    """History of phones, the counts of the phones after it, and the history it may merge into.

    `shorter`: the number of the history that they would go to, -1 for none; `reserve`: its counts
    with those of all histories that may be merged into it.
    """

    phones: tuple[int, ...]
    shorter: int = -1
    counts: Counter[int] = field(default_factory=Counter)
    total: int = 0
    reserve: int = 0
    mergeable: bool = False


def estimate_phone_lm(
    utterances: Iterable[Sequence[int]], options: PhoneLmOptions = PhoneLmOptions()
) -> PhoneAcceptor:
    """Return the model of the phones (phone-ids) of utterances; costs are negative logarithms.

    InputError where there are no phones.
    """
    estimator = _Estimator(options)
    for phones in utterances:
        if len(phones):
            estimator.count(phones)
    if not estimator.histories:
        raise InputError("no phones to estimate a language model of: the alignments are empty")
    estimator.merge()
    return estimator.to_acceptor()


class _Estimator:
    """Histories by number, in the order in which they were met."""

    def __init__(self, options: PhoneLmOptions) -> None:
        self.options = options
        self.histories: list[_History] = []
        self._number_of: dict[tuple[int, ...], int] = {}
        self._queue: list[tuple[np.float32, int]] = []  # costs, and histories minus; smallest first
        self._active = 0

    def count(self, phones: Sequence[int]) -> None:
        history: tuple[int, ...] = (END,)
        for phone in phones:
            self._increment(history, int(phone))
            history = (*history, int(phone))[-(self.options.ngram_order - 1) :]
        self._increment(history, END)

    def merge(self) -> None:
        """Merge histories that cost least likelihood, until about the asked number remains."""
        # Counts of a history count in the reserve of each history that they could be merged into.
        for history in self.histories:
            at = self._number_of[history.phones]
            while at >= 0:
                self.histories[at].reserve += history.total
                at = self.histories[at].shorter
        unpruned = sum(
            len(h.phones) == self.options.no_prune_ngram_order - 1 for h in self.histories
        )
        initial, target_states = self._active, unpruned + self.options.num_extra_lm_states
        for number in range(1, ROUNDS + 1):
            self._fill_queue()
            # A quotient towards 0, as in C++.
            target = initial + int((target_states - initial) * number / ROUNDS)
            while self._active > target and self._queue:
                cost, minus = heapq.heappop(self._queue)
                # A cost in the queue is of earlier counts; merges since may have changed it.
                current = self._cost(-minus)
                if abs(cost - current) <= SAME * (abs(cost) + abs(current)):
                    self._shorten(-minus)
                else:
                    heapq.heappush(self._queue, (current, minus))

    def to_acceptor(self) -> PhoneAcceptor:
        """Acceptor of the remaining histories; each phone leads to the longest one that remains."""
        remaining = [number for number, history in enumerate(self.histories) if history.total]
        # The start must be state 0; the others keep their order.
        start = self._find((END,))
        remaining.sort(key=lambda number: (number != start, number))
        state_of = {number: state for state, number in enumerate(remaining)}
        arcs: list[PhoneArc] = []
        final: dict[int, float] = {}
        for state, number in enumerate(remaining):
            history = self.histories[number]
            for phone, count in sorted(history.counts.items()):
                cost = -float(elementary.log(count / history.total))
                if phone == END:
                    final[state] = cost
                else:
                    target = state_of[self._find((*history.phones, phone))]
                    arcs.append((state, phone, cost, target))
        return PhoneAcceptor(arcs, final)

    def _increment(self, phones: tuple[int, ...], following: int) -> None:
        history = self.histories[self._find_or_make(phones)]
        self._active += not history.total
        history.counts[following] += 1
        history.total += 1

    def _find_or_make(self, phones: tuple[int, ...]) -> int:
        if phones not in self._number_of:
            number = self._number_of[phones] = len(self.histories)
            self.histories.append(_History(phones))
            if len(phones) >= self.options.no_prune_ngram_order:
                self.histories[number].shorter = self._find_or_make(phones[1:])
        return self._number_of[phones]

    def _find(self, phones: tuple[int, ...]) -> int:
        """Number of the longest suffix of a history that has counts."""
        while True:
            number = self._number_of.get(phones)
            if number is not None and self.histories[number].total:
                return number
            phones = phones[1:]

    def _fill_queue(self) -> None:
        self._queue = []
        for number, history in enumerate(self.histories):
            history.mergeable = self._is_mergeable(history)
            if history.mergeable:
                self._queue.append((self._cost(number), -number))
        heapq.heapify(self._queue)

    def _is_mergeable(self, history: _History) -> bool:
        """Whether none but this history would change, and no phone after it needs all of it."""
        if history.shorter < 0 or not history.total or history.total != history.reserve:
            return False
        onward = (self._number_of.get((*history.phones, p)) for p in history.counts if p != END)
        return not any(self.histories[n].reserve for n in onward if n is not None)

    def _cost(self, number: int) -> np.float32:
        """The log-likelihood that merging a history loses, 0 or more."""
        history = self.histories[number]
        shorter = self.histories[history.shorter]
        if not shorter.total:
            return -OF_EMPTY * np.float32(history.total)
        merged = _log_likelihood(history.counts + shorter.counts)
        gain = merged - _log_likelihood(history.counts) - _log_likelihood(shorter.counts)
        return np.maximum(-gain, np.float32(0))

    def _shorten(self, number: int) -> None:
        history = self.histories[number]
        shorter = self.histories[history.shorter]
        # Two active histories become one; a shorter one without counts takes the place of this one.
        self._active -= shorter.total != 0
        shorter.counts += history.counts
        shorter.total += history.total
        history.counts, history.total, history.reserve = Counter(), 0, 0
        history.mergeable = False
        was_mergeable, shorter.mergeable = shorter.mergeable, self._is_mergeable(shorter)
        if shorter.mergeable and not was_mergeable:
            shorter_number = self._number_of[shorter.phones]
            heapq.heappush(self._queue, (self._cost(shorter_number), -shorter_number))


def _log_likelihood(counts: Counter[int]) -> np.float32:
    """Log-likelihood of the phones after a history by their own shares, summed in their order."""
    # cumsum adds one by one, as Kaldi does; sum would add in pairs and round otherwise.
    ordered = np.array([counts[phone] for phone in sorted(counts)], float)
    return np.float32(np.cumsum(elementary.log(ordered / ordered.sum()) * ordered)[-1])

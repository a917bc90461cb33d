"""Transcripts as acceptors of phones: the lexicon L composed with words, made deterministic.

Kaldi's training-graph-compiler.cc composes L with words, context and HMMs, and determinizes the
whole in the log semiring. Paths of equal phones have equal HMMs, so here the phones are made
deterministic, and each sequence of them has the same cost.
"""

import math
from collections.abc import Iterable, Sequence
from functools import reduce
from operator import add

import numpy as np

from bayes_asr.base.elementary import exp_scalar, log_scalar
from bayes_asr.base.errors import InputError
from bayes_asr.decode.graph.transducers import PhoneAcceptor, PhoneArc, sort_by_output
from bayes_asr.kaldi_io.openfst import Fst

MOST_STATES = 1000  # of the acceptor of a transcript, for each word and its end
MOST_EPSILONS = 100  # in a row; those of prepare_lang.sh have two
DECIMALS = 3  # to which equal costs agree: Kaldi's kDelta is 1/1024
State = tuple[int, int]  # of L composed with the transcript: state of L, words that are passed
Step = tuple[int, float, State]  # phone-id or 0, cost, next state
Subset = dict[State, float]  # residual cost of each state


class LexiconTransducer:
    """L, a transducer from phones to words, without disambiguation symbols."""

    def __init__(self, fst: Fst) -> None:
        """Take L as prepare_lang.sh or `build_lexicon_fst` makes it."""
        self.fst = sort_by_output(fst)
        self.words = frozenset(np.unique(fst.olabel).tolist()) - {0}
        self._arcs: dict[tuple[int, int], list[tuple[int, float, int]]] = {}

    def transcript_acceptor(self, words: Sequence[int]) -> PhoneAcceptor:
        """Return all pronunciations of `words` (word-ids); InputError where there is none."""
        return _Determinization(self, words).run()

    def arcs_of_word(self, state: int, word: int) -> list[tuple[int, float, int]]:
        """Phone, cost and target of the arcs of a state of L that write `word` (0: no word)."""
        if (state, word) not in self._arcs:
            begin, end = self.fst.offsets[state : state + 2]
            labels = self.fst.olabel[begin:end]
            span = slice(*(begin + np.searchsorted(labels, [word, word + 1])))
            columns = (self.fst.ilabel, self.fst.weight, self.fst.nextstate)
            arcs = zip(*(column[span].tolist() for column in columns), strict=True)
            self._arcs[state, word] = list(arcs)
        return self._arcs[state, word]


class _Determinization:
    """Weighted subset construction in the log semiring, epsilons removed on the way (Mohri 2002).

    A state of the result is a subset of the states of L composed with the words, each with the
    cost that the arcs before have not paid yet.
    """

    def __init__(self, lexicon: LexiconTransducer, words: Sequence[int]) -> None:
        self.lexicon, self.words = lexicon, words
        self._steps: dict[State, list[Step]] = {}
        self._closures: dict[State, Subset | None] = {}  # None: being computed

    def run(self) -> PhoneAcceptor:
        start = self._close([((self.lexicon.fst.start, 0), 0.0)])
        numbers, queue = {_key(start): 0}, [start]
        arcs: list[PhoneArc] = []
        final: dict[int, float] = {}
        most = MOST_STATES * (1 + len(self.words))
        for source, subset in enumerate(queue):  # which grows
            if len(queue) > most:
                raise InputError(
                    f"the pronunciations of {len(self.words)} words cannot be made deterministic"
                    f" within {most} states"
                )
            for phone, targets in self._targets_by_phone(subset).items():
                reached = self._close(targets)
                # The arc pays what all paths share; the next subset keeps the residuals.
                cost = _log_sum(reached.values())
                residual = {state: total - cost for state, total in reached.items()}
                target = numbers.setdefault(_key(residual), len(queue))
                if target == len(queue):
                    queue.append(residual)
                arcs.append((source, phone, cost, target))
            cost = _log_sum(c + self._final(state) for state, c in subset.items())
            if cost < math.inf:
                final[source] = cost
        if not arcs and not self.words:
            raise InputError("the transcript is empty, and there is no optional silence")
        if not final:
            raise InputError("the lexicon has no way to say the transcript")
        return PhoneAcceptor(arcs, final)

    def _targets_by_phone(self, subset: Subset) -> dict[int, list[tuple[State, float]]]:
        targets: dict[int, list[tuple[State, float]]] = {}
        for state, residual in subset.items():
            for phone, cost, target in self._leaving(state):
                if phone:
                    targets.setdefault(phone, []).append((target, residual + cost))
        return targets

    def _close(self, reached: Iterable[tuple[State, float]], depth: int = 0) -> Subset:
        """The epsilon closure of states, where costs of paths to one state add up.

        depth: arcs without a phone that lead to them.
        """
        costs: Subset = {}
        for state, cost in reached:
            for further, detour in self._closure(state, depth).items():
                total = cost + detour
                costs[further] = _log_sum((costs[further], total)) if further in costs else total
        return costs

    def _closure(self, state: State, depth: int) -> Subset:
        """The states that a state reaches without a phone, and itself."""
        if state not in self._closures:
            if depth > MOST_EPSILONS:
                raise InputError(f"the lexicon has {depth} arcs without a phone after each other")
            # Met again before it is done, a state lies on a cycle without a phone.
            self._closures[state] = None
            silent = [(target, cost) for phone, cost, target in self._leaving(state) if not phone]
            self._closures[state] = {state: 0.0} | self._close(silent, depth + 1)
        costs = self._closures[state]
        if costs is None:
            raise InputError("the lexicon goes round without a phone")
        return costs

    def _leaving(self, state: State) -> list[Step]:
        if state not in self._steps:
            of_lexicon, place = state
            arcs = self.lexicon.arcs_of_word(of_lexicon, 0)
            steps = [(phone, cost, (target, place)) for phone, cost, target in arcs]
            if place < len(self.words):
                arcs = self.lexicon.arcs_of_word(of_lexicon, self.words[place])
                steps += [(phone, cost, (target, place + 1)) for phone, cost, target in arcs]
            self._steps[state] = steps
        return self._steps[state]

    def _final(self, state: State) -> float:
        of_lexicon, place = state
        complete = place == len(self.words)
        return float(self.lexicon.fst.final[of_lexicon]) if complete else math.inf


def _key(subset: Subset) -> tuple[tuple[State, float], ...]:
    return tuple(sorted((state, round(cost, DECIMALS)) for state, cost in subset.items()))


def _log_sum(costs: Iterable[float]) -> float:
    """The cost of the sum of probabilities."""
    # -log(sum(exp(-c))), the largest term taken out; a single term keeps its bits.
    terms = [*costs]
    least = min(terms)
    if len(terms) == 1 or least == math.inf:
        return least
    return least - log_scalar(reduce(add, (exp_scalar(least - cost) for cost in terms)))

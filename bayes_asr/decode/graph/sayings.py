"""All ways to say a transcript: the lexicon L composed with its words, made deterministic.

Kaldi's training-graph-compiler.cc composes L with words, context and HMMs, and determinizes the
whole in the log semiring. Ways with equal phones have equal HMMs, so here the phones are made
deterministic, and each sequence of them has the same cost.
"""

import math
from collections.abc import Iterable, Sequence
from functools import reduce
from operator import add

import numpy as np

from bayes_asr.base.elementary import exp_scalar, log_scalar
from bayes_asr.base.errors import InputError
from bayes_asr.decode.graph.transducers import PhoneArc, Sayings, sort_by_output
from bayes_asr.kaldi_io.fst import Fst

SAME = 3  # decimals up to which costs are equal: Kaldi's kDelta is 1/1024
Node = tuple[int, int]  # state of L, how many words are said
Step = tuple[int, float, Node]  # phone-id or 0, cost, next node
Costs = dict[Node, float]


class Lexicon:
    """L, a transducer from phones to words, without disambiguation symbols."""

    def __init__(self, fst: Fst) -> None:
        """Take L as prepare_lang.sh or `build_lexicon_fst` makes it."""
        self.fst = sort_by_output(fst)
        self.words = frozenset(np.unique(fst.olabel).tolist()) - {0}
        self._found: dict[tuple[int, int], list[tuple[int, float, int]]] = {}

    def say(self, words: Sequence[int]) -> Sayings:
        """Return all ways to say `words` (word-ids); InputError where there is none."""
        return _Determinization(self, words).run()

    def leave(self, state: int, word: int) -> list[tuple[int, float, int]]:
        """Phone, cost and target of the arcs of a state of L that say `word` (0: no word)."""
        if (state, word) not in self._found:
            first, last = self.fst.offsets[state : state + 2]
            labels = self.fst.olabel[first:last]
            own = slice(*(first + np.searchsorted(labels, [word, word + 1])))
            columns = (self.fst.ilabel, self.fst.weight, self.fst.nextstate)
            steps = zip(*(column[own].tolist() for column in columns), strict=True)
            self._found[state, word] = list(steps)
        return self._found[state, word]


class _Determinization:
    """Subsets of nodes with the costs left over, as states of the deterministic acceptor."""

    def __init__(self, lexicon: Lexicon, words: Sequence[int]) -> None:
        self.lexicon, self.words = lexicon, words
        self.spoken: dict[Node, list[Step]] = {}
        self.silent: dict[Node, Costs | None] = {}  # None: being computed

    def run(self) -> Sayings:
        start = self._close([((self.lexicon.fst.start, 0), 0.0)])
        numbers, open_ = {_name(start): 0}, [start]
        arcs: list[PhoneArc] = []
        final: dict[int, float] = {}
        for source, subset in enumerate(open_):  # which grows
            for phone, targets in self._read(subset).items():
                reached = self._close(targets)
                cost = _add(reached.values())
                left = {node: own - cost for node, own in reached.items()}
                target = numbers.setdefault(_name(left), len(open_))
                if target == len(open_):
                    open_.append(left)
                arcs.append((source, phone, cost, target))
            cost = _add(c + self._final(node) for node, c in subset.items())
            if cost < math.inf:
                final[source] = cost
        if not arcs and not self.words:
            raise InputError("the transcript is empty, and there is no optional silence")
        if not final:
            raise InputError("the lexicon has no way to say the transcript")
        return Sayings(arcs, final)

    def _read(self, subset: Costs) -> dict[int, list[tuple[Node, float]]]:
        """The nodes behind each phone."""
        read: dict[int, list[tuple[Node, float]]] = {}
        for node, left in subset.items():
            for phone, cost, target in self._leave(node):
                if phone:
                    read.setdefault(phone, []).append((target, left + cost))
        return read

    def _close(self, reached: Iterable[tuple[Node, float]]) -> Costs:
        """Add up the costs of nodes, and of those behind them without a phone."""
        costs: Costs = {}
        for node, cost in reached:
            for further, more in self._follow(node).items():
                whole = cost + more
                costs[further] = _add((costs[further], whole)) if further in costs else whole
        return costs

    def _follow(self, node: Node) -> Costs:
        """The nodes that are reached from a node without a phone, and itself."""
        if node not in self.silent:
            self.silent[node] = None
            behind = [(target, cost) for phone, cost, target in self._leave(node) if not phone]
            self.silent[node] = {node: 0.0} | self._close(behind)
        costs = self.silent[node]
        if costs is None:
            raise InputError("the lexicon goes round without a phone")
        return costs

    def _leave(self, node: Node) -> list[Step]:
        if node not in self.spoken:
            state, said = node
            steps = [(p, c, (to, said)) for p, c, to in self.lexicon.leave(state, 0)]
            if said < len(self.words):
                word = self.words[said]
                steps += [(p, c, (to, said + 1)) for p, c, to in self.lexicon.leave(state, word)]
            self.spoken[node] = steps
        return self.spoken[node]

    def _final(self, node: Node) -> float:
        state, said = node
        return float(self.lexicon.fst.final[state]) if said == len(self.words) else math.inf


def _name(subset: Costs) -> tuple[tuple[Node, float], ...]:
    return tuple(sorted((node, round(cost, SAME)) for node, cost in subset.items()))


def _add(costs: Iterable[float]) -> float:
    """The cost of the sum of probabilities."""
    given = [*costs]
    least = min(given)
    if len(given) == 1 or least == math.inf:
        return least
    return least - log_scalar(reduce(add, (exp_scalar(least - cost) for cost in given)))

"""Lattice determinization with pruning: one path, its cheapest, for each word sequence.

The algorithm of Kaldi's DeterminizeLatticePhonePruned (Povey et al., "Generating exact lattices in
the WFST framework", ICASSP 2012): weighted subset construction over the lattice read as an acceptor
of words, where the weight of a path is its pair of costs and its string of transition-ids, and of
two equal word sequences the cheaper one stays.  Arcs are made in the order of the best path through
them, so that the search can stop at the beam.  A first pass does the same over words and phones; it
gives the second pass less to do.  Costs of paths are float32 and compared as sums in float32,
because ties are frequent and Kaldi's results hang on how they round.  This form is the reference of
the one in C++.
"""

import heapq
import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from bayes_asr.decode.search import options as defaults
from bayes_asr.decode.search.acceptor import (
    NOTHING,
    Acceptor,
    AcceptorArcs,
    Cost,
    backward_costs,
    cost_of,
    insert_phones,
    prune_acceptor,
    renumber,
)
from bayes_asr.kaldi_io.lattice import CompactLattice, Lattice, connect

TOLERANCE = 1.0 / 1024  # between the weights of subsets that count as one state (OpenFst's kDelta)
EMPTY = 0
ARC_BYTES, ELEMENT_BYTES, STRING_BYTES = 32, 24, 32  # by Kaldi's estimate
RETRY_CUTOFF, MAX_TRIES = 0.5, 10

Element = tuple[int, int, Cost, Cost]  # state, string, graph, acoustic
OutputArc = tuple[int, int, Cost, Cost, int]  # label, string, graph, acoustic, next state or -1


class Strings:
    """Sequences of transition-ids as nodes of a tree, so that equal sequences are one number."""

    def __init__(self) -> None:
        """Begin with the empty string, number 0."""
        self.parent, self.label, self.depth = (array("i", [0]) for _ in range(3))
        self.known: dict[int, int] = {}

    def extend(self, string: int, tid: int) -> int:
        """Return `string` with a transition-id appended; 0 appends nothing."""
        if tid == 0:
            return string
        key = string << 32 | tid  # half the memory of a pair
        number = self.known.get(key)
        if number is None:
            number = self.known[key] = len(self.parent)
            self.parent.append(string)
            self.label.append(tid)
            self.depth.append(self.depth[string] + 1)
        return number

    def labels(self, string: int, skip: int = 0) -> list[int]:
        """Return the transition-ids of a string but for the first `skip`."""
        found = []
        for _ in range(self.depth[string] - skip):
            found.append(self.label[string])
            string = self.parent[string]
        return found[::-1]

    def concatenate(self, first: int, second: int, skip: int = 0) -> int:
        """Return `first` followed by `second` without its first `skip` labels."""
        if skip == 0 and first == EMPTY:
            return second
        for tid in self.labels(second, skip):
            first = self.extend(first, tid)
        return first

    def common_prefix(self, first: int, second: int) -> int:
        """Return the longest common prefix of two strings: their common ancestor."""
        parent, depth = self.parent, self.depth
        while first != second:
            if depth[first] >= depth[second]:
                first = parent[first]
            else:
                second = parent[second]
        return first

    def count_live(self, needed: set[int]) -> int:
        """Return how many strings remain if only those `needed` and their prefixes are."""
        live = set()
        for string in needed:
            while string != EMPTY and string not in live:
                live.add(string)
                string = self.parent[string]
        return len(live)

    def prefers(self, new: Element, old: Element) -> bool:
        """Tell whether `new` is cheaper; ties go to the lower graph cost, then to the string."""
        new_cost, old_cost = new[2] + new[3], old[2] + old[3]
        if new_cost != old_cost:
            return bool(new_cost < old_cost)
        if new[2] != old[2] or new[1] == old[1]:
            return bool(new[2] < old[2])
        if self.depth[new[1]] != self.depth[old[1]]:
            return self.depth[new[1]] < self.depth[old[1]]
        return self.labels(new[1]) > self.labels(old[1])


@dataclass
class Subset:
    """A state of the result: where in the input it may be, what it costs to come here, its arcs."""

    elements: list[Element]
    forward: float
    arcs: list[OutputArc] = field(default_factory=list)


Found = tuple[int, int, Cost, Cost]  # state of the result, then string and weight left over


class SubsetTable:
    """Finds what belongs to a subset: equal states and strings, weights within the tolerance.

    Of several the one stored last counts, as in Kaldi's hash table.
    """

    def __init__(self) -> None:
        """Begin empty."""
        self.rows: dict[tuple[int, ...], list[tuple[list[Element], Found]]] = {}

    def row(self, subset: list[Element]) -> list[tuple[list[Element], Found]]:
        """Return the entries with the same states and strings."""
        key = tuple([number for element in subset for number in element[:2]])
        return self.rows.setdefault(key, [])

    def find(self, subset: list[Element]) -> Found | None:
        """Return what was stored with an equal subset."""
        for known, found in reversed(self.row(subset)):
            if all(
                abs((a[2] + a[3]) - (b[2] + b[3])) <= TOLERANCE
                for a, b in zip(known, subset, strict=True)
            ):
                return found
        return None


@dataclass(frozen=True)
class Deterministic:
    """The result of a pass: the arcs of each state, and the strings that they name."""

    arcs: list[list[OutputArc]]
    strings: Strings


class Determinizer:
    """One pass of determinization over an acceptor; `run` leaves the result in `subsets`."""

    def __init__(self, acceptor: Acceptor, beam: float) -> None:
        """Compute the cheapest way from each state to an end; paths past `beam` are cut."""
        self.acceptor, self.strings, self.beam = acceptor, Strings(), beam
        self.subsets: list[Subset] = []
        self.minimal, self.initial = SubsetTable(), SubsetTable()
        self.queue: list[tuple[float, int, int, int, list[Element]]] = []
        self.tasks = self.arcs = self.elements = self.garbage = 0
        self.backward = backward_costs(acceptor)
        self.cutoff = self.backward[0] + beam
        speaks = np.isfinite(acceptor.final_graph)
        speaks[acceptor.sources()[acceptor.label > 0]] = True
        self.speaks = speaks.tolist()

    def run(self) -> float:
        """Expand subsets in the order of the best path through them; return the beam reached."""
        start = self.close([(0, EMPTY, NOTHING, NOTHING)])
        self.add_subset(start, 0.0)
        while self.queue:
            if len(self.subsets) % 10 == 0 and self.is_too_large():
                return self.queue[0][0] - self.backward[0]
            _, _, owner, label, elements = heapq.heappop(self.queue)
            forward = self.subsets[owner].forward
            elements, string, graph, acoustic = self.normalize(elements)
            state, rest, more_graph, more_acoustic = self.reach(
                elements, forward + cost_of(graph, acoustic)
            )
            string = self.strings.concatenate(string, rest)
            arc = (label, string, graph + more_graph, acoustic + more_acoustic, state)
            self.subsets[owner].arcs.append(arc)
            self.arcs += 1
        return self.beam

    def reach(self, elements: list[Element], forward: float) -> Found:
        """Return the state that the normalized `elements` lead to, and what is left over."""
        found = self.initial.find(elements)
        if found is None:
            closed, string, graph, acoustic = self.normalize(self.close(elements))
            known = self.minimal.find(closed)
            if known is None:
                state = self.add_subset(closed, forward + cost_of(graph, acoustic))
            else:
                state = known[0]
            found = (state, string, graph, acoustic)
            self.initial.row(elements).append((elements, found))
            self.elements += len(elements)
        return found

    def close(self, elements: list[Element]) -> list[Element]:
        """Follow arcs without label; keep the states that end or have labelled arcs."""
        leaving, strings = self.acceptor.leaving, self.strings
        best = {element[0]: element for element in elements}
        heap = [element[0] for element in elements]
        heapq.heapify(heap)
        while heap:
            state, string, graph, acoustic = best[heapq.heappop(heap)]
            for label, tid, arc_graph, arc_acoustic, after in leaving(state):
                if label:
                    continue
                new_graph, new_acoustic = graph + arc_graph, acoustic + arc_acoustic
                old = best.get(after)
                if old is None:
                    heapq.heappush(heap, after)
                elif new_graph + new_acoustic > old[2] + old[3]:
                    continue
                new = (after, strings.extend(string, tid), new_graph, new_acoustic)
                if old is None or strings.prefers(new, old):
                    best[after] = new
        return [best[state] for state in sorted(best) if self.speaks[state]]

    def normalize(self, elements: list[Element]) -> tuple[list[Element], int, Cost, Cost]:
        """Take out the common prefix of the strings and the weight of the cheapest element."""
        strings = self.strings
        prefix, cheapest = elements[0][1], elements[0]
        for element in elements[1:]:
            prefix = strings.common_prefix(prefix, element[1])
            cost, least = element[2] + element[3], cheapest[2] + cheapest[3]
            if cost < least or (cost == least and element[2] < cheapest[2]):
                cheapest = element
        _, _, graph, acoustic = cheapest
        skip = strings.depth[prefix]
        rest = [
            (state, strings.concatenate(EMPTY, string, skip), g - graph, a - acoustic)
            for state, string, g, a in elements
        ]
        return rest, prefix, graph, acoustic

    def add_subset(self, elements: list[Element], forward: float) -> int:
        """Make a new state of the result: its final weight, and tasks for its labels."""
        number = len(self.subsets)
        self.subsets.append(Subset(elements, forward))
        self.minimal.row(elements).append((elements, (number, EMPTY, NOTHING, NOTHING)))
        self.elements += len(elements)
        self.end_paths(number)
        self.plan_arcs(number)
        return number

    def end_paths(self, number: int) -> None:
        """Give the state the cheapest of its final weights, if that is within the beam."""
        subset, best = self.subsets[number], None
        for state, string, graph, acoustic in subset.elements:
            ending = self.acceptor.final_graph[state]
            if ending < np.inf:
                more = self.acceptor.final_acoustic[state]
                new = (state, string, graph + ending, acoustic + more)
                if best is None or self.strings.prefers(new, best):
                    best = new
        if best is not None and cost_of(best[2], best[3]) + subset.forward <= self.cutoff:
            subset.arcs.append((0, best[1], best[2], best[3], -1))
            self.arcs += 1

    def plan_arcs(self, number: int) -> None:
        """Queue one task for each label that leaves the subset within the beam."""
        subset, strings, backward = self.subsets[number], self.strings, self.backward
        ways: dict[int, dict[int, Element]] = {}
        for state, string, graph, acoustic in subset.elements:
            for label, tid, arc_graph, arc_acoustic, after in self.acceptor.leaving(state):
                if not label:
                    continue
                elements = ways.setdefault(label, {})
                longer = strings.extend(string, tid)
                new = (after, longer, graph + arc_graph, acoustic + arc_acoustic)
                if after not in elements or strings.prefers(new, elements[after]):
                    elements[after] = new
        for label in sorted(ways):
            reached = [ways[label][state] for state in sorted(ways[label])]
            least = min(cost_of(g, a) + backward[state] for state, _, g, a in reached)
            priority = subset.forward + least
            if priority <= self.cutoff:
                self.tasks += 1
                heapq.heappush(self.queue, (priority, self.tasks, number, label, reached))

    def is_too_large(self) -> bool:
        """Tell whether Kaldi would stop here; strings that nothing needs any more do not count."""
        rest = self.arcs * ARC_BYTES + self.elements * ELEMENT_BYTES
        strings = len(self.strings.parent) - 1
        if rest + (strings - self.garbage) * STRING_BYTES <= defaults.MAX_BYTES:
            return False
        needed = {arc[1] for subset in self.subsets for arc in subset.arcs}
        known = [entry for row in self.initial.rows.values() for entry in row]
        needed |= {found[1] for _, found in known}
        lists = [subset.elements for subset in self.subsets]
        lists += [task[4] for task in self.queue] + [elements for elements, _ in known]
        needed |= {element[1] for elements in lists for element in elements}
        live = self.strings.count_live(needed)
        self.garbage = strings - live
        return rest + live * STRING_BYTES > defaults.MAX_BYTES * 0.8


def drop_phones(done: Deterministic, first_phone: int) -> Acceptor:
    """Return the result of the first pass as an acceptor of words, one transition-id an arc."""
    states = len(done.arcs)
    ends: dict[int, tuple[Cost, Cost]] = {}
    columns: tuple[array, ...] = tuple(array(kind) for kind in "iiiffi")

    def add(*arc: float | Cost) -> None:
        for column, value in zip(columns, arc, strict=True):
            column.append(value)

    for number, arcs in enumerate(done.arcs):
        for label, string, graph, acoustic, after in arcs:
            tids = done.strings.labels(string)
            word = label if label < first_phone else 0
            if after < 0 and not tids:
                ends[number] = (graph, acoustic)
                continue
            if after < 0:
                after = states + len(tids) - 1
                ends[after] = (NOTHING, NOTHING)
            state = number
            for tid in tids[:-1]:
                add(state, word, tid, graph, acoustic, states)
                word, graph, acoustic, state, states = 0, NOTHING, NOTHING, states, states + 1
            add(state, word, tids[-1] if tids else 0, graph, acoustic, after)
            states = max(states, after + 1)
    final = np.full((2, states), np.inf, np.float32)
    for number, weight in ends.items():
        final[:, number] = weight
    return renumber(AcceptorArcs(*map(np.array, columns)), final[0], final[1])


def determinize(lattice: Lattice, phone_start: np.ndarray, beam: float) -> CompactLattice:
    """Return the word lattice of a state-level lattice (same scale), pruned to `beam`."""
    first_phone = int(lattice.olabel.max(initial=0)) + 1
    both = determinize_acceptor(insert_phones(lattice, phone_start, first_phone), beam)
    words = drop_phones(both, first_phone)
    del both  # hundreds of megabytes if the utterance is long
    return compact_lattice(determinize_acceptor(words, beam))


def determinize_acceptor(acceptor: Acceptor, beam: float) -> Deterministic:
    """Run one pass; where memory sets a much tighter beam, prune the input to about that, retry."""
    for tried in range(1, MAX_TRIES + 1):
        done = Determinizer(acceptor, beam)
        reached = done.run()
        if reached >= beam * RETRY_CUTOFF or tried == MAX_TRIES:
            break
        beam = max(beam * math.sqrt(max(reached, 0.0) / beam), 0.5 * beam)
        acceptor = prune_acceptor(acceptor, beam)
    done.strings.known.clear()  # nothing is added any more, and it is the largest part
    return Deterministic([subset.arcs for subset in done.subsets], done.strings)


def compact_lattice(done: Deterministic) -> CompactLattice:
    """Return the result as arrays, topologically sorted, without states that lead nowhere."""
    rows = [[arc for arc in row if arc[4] >= 0] for row in done.arcs]
    none = (0, EMPTY, Cost(np.inf), Cost(np.inf), -1)
    ends = [next((arc for arc in row if arc[4] < 0), none) for row in done.arcs]
    arcs = [arc for row in rows for arc in row]
    tids = [done.strings.labels(arc[1]) for arc in arcs]
    final_tids = [done.strings.labels(end[1]) for end in ends]
    lattice = CompactLattice(
        offsets=row_offsets(rows),
        word=np.array([arc[0] for arc in arcs], np.int32),
        graph=np.array([arc[2] for arc in arcs], np.float32),
        acoustic=np.array([arc[3] for arc in arcs], np.float32),
        nextstate=np.array([arc[4] for arc in arcs], np.int32),
        tid_offsets=row_offsets(tids),
        tids=np.array([tid for row in tids for tid in row], np.int32),
        final_graph=np.array([end[2] for end in ends], np.float32),
        final_acoustic=np.array([end[3] for end in ends], np.float32),
        final_tid_offsets=row_offsets(final_tids),
        final_tids=np.array([tid for row in final_tids for tid in row], np.int32),
    )
    return connect(lattice)


def row_offsets(rows: Sequence[Sequence]) -> np.ndarray:
    """Return where each row begins when all are laid end to end, and where the last ends."""
    return np.cumsum([0, *(len(row) for row in rows)], dtype=np.int64)

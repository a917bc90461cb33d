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
from dataclasses import dataclass, field

import numpy as np

from bayes_asr.decode.search import strings as defaults
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
from bayes_asr.decode.search.strings import EMPTY, Element, Strings
from bayes_asr.kaldi_io.lattice import CompactLattice, Lattice, connect, row_offsets

TOLERANCE = 1.0 / 1024  # between the weights of subsets that count as one state (OpenFst's kDelta)
ARC_BYTES, ELEMENT_BYTES, STRING_BYTES = 32, 24, 32  # by Kaldi's estimate
RETRY_CUTOFF, MAX_TRIES = 0.5, 10

OutputArc = tuple[int, int, Cost, Cost, int]  # label, string, graph, acoustic, next state or -1


@dataclass
class Subset:
    """A state of the result: its states of the input, the cost of coming here, its arcs."""

    elements: list[Element]
    forward: float
    arcs: list[OutputArc] = field(default_factory=list)


Target = tuple[int, int, Cost, Cost]  # state of the result, residual string, graph, acoustic


class SubsetTable:
    """Targets of subsets, found by equal states and strings and weights within the tolerance.

    Of several the one stored last counts, as in Kaldi's hash table.
    """

    def __init__(self) -> None:
        """Begin empty."""
        self.rows: dict[tuple[int, ...], list[tuple[list[Element], Target]]] = {}

    def row(self, subset: list[Element]) -> list[tuple[list[Element], Target]]:
        """Return the entries with the same states and strings."""
        key = tuple([number for element in subset for number in element[:2]])
        return self.rows.setdefault(key, [])

    def find(self, subset: list[Element]) -> Target | None:
        """Return the target that is stored for an equal subset."""
        for stored, target in reversed(self.row(subset)):
            if all(
                abs((a[2] + a[3]) - (b[2] + b[3])) <= TOLERANCE
                for a, b in zip(stored, subset, strict=True)
            ):
                return target
        return None


@dataclass(frozen=True)
class Deterministic:
    """The result of a pass: the arcs of each state, and the strings that they name."""

    arcs: list[list[OutputArc]]
    strings: Strings


class Determinizer:
    """One pass of determinization over an acceptor; `run` leaves the result in `subsets`."""

    def __init__(self, acceptor: Acceptor, beam: float) -> None:
        """Compute the cheapest path from each state to an end; paths past `beam` are cut."""
        self.acceptor, self.strings, self.beam = acceptor, Strings(), beam
        self.subsets: list[Subset] = []
        self.minimal, self.initial = SubsetTable(), SubsetTable()
        self.queue: list[tuple[float, int, int, int, list[Element]]] = []
        # Counts for Kaldi's estimate of memory; garbage: strings that the last sweep found unused.
        self.tasks = self.arcs = self.elements = self.garbage = 0
        self.backward = backward_costs(acceptor)
        self.cutoff = self.backward[0] + beam
        # Only states that end or have a labelled arc tell subsets apart.
        speaks = np.isfinite(acceptor.final_graph)
        speaks[acceptor.sources()[acceptor.label > 0]] = True
        self.speaks = speaks.tolist()

    def run(self) -> float:
        """Expand subsets in the order of the best path through them; return the beam reached."""
        start = self.close([(0, EMPTY, NOTHING, NOTHING)])
        self.add_subset(start, 0.0)
        while self.queue:
            # Kaldi checks its memory at every tenth state; the first task tells the beam reached.
            if len(self.subsets) % 10 == 0 and self.is_too_large():
                return self.queue[0][0] - self.backward[0]
            _, _, owner, label, elements = heapq.heappop(self.queue)
            forward = self.subsets[owner].forward
            # The arc bears the common part; the subset keeps residuals (Mohri 1997).
            elements, string, graph, acoustic = self.normalize(elements)
            state, residual, residual_graph, residual_acoustic = self.reach(
                elements, forward + cost_of(graph, acoustic)
            )
            string = self.strings.concatenate(string, residual)
            arc = (label, string, graph + residual_graph, acoustic + residual_acoustic, state)
            self.subsets[owner].arcs.append(arc)
            self.arcs += 1
        return self.beam

    def reach(self, elements: list[Element], forward: float) -> Target:
        """Return the state that the normalized `elements` lead to, and the residual of the arc."""
        # Two tables: subsets before the closure (cheap to look up, and most are there), and after.
        target = self.initial.find(elements)
        if target is None:
            closed, string, graph, acoustic = self.normalize(self.close(elements))
            same = self.minimal.find(closed)
            if same is None:
                state = self.add_subset(closed, forward + cost_of(graph, acoustic))
            else:
                state = same[0]
            target = (state, string, graph, acoustic)
            self.initial.row(elements).append((elements, target))
            self.elements += len(elements)
        return target

    def close(self, elements: list[Element]) -> list[Element]:
        """Follow arcs without label; keep the states that end or have labelled arcs."""
        leaving, strings = self.acceptor.leaving, self.strings
        # States are topologically sorted: in their order each is final when it is taken.
        best = {element[0]: element for element in elements}
        heap = [element[0] for element in elements]
        heapq.heapify(heap)
        while heap:
            state, string, graph, acoustic = best[heapq.heappop(heap)]
            for label, tid, arc_graph, arc_acoustic, target in leaving(state):
                if label:
                    continue
                new_graph, new_acoustic = graph + arc_graph, acoustic + arc_acoustic
                old = best.get(target)
                if old is None:
                    heapq.heappush(heap, target)
                # Strings are only compared, and made, where the costs do not decide.
                elif new_graph + new_acoustic > old[2] + old[3]:
                    continue
                new = (target, strings.extend(string, tid), new_graph, new_acoustic)
                if old is None or strings.prefers(new, old):
                    best[target] = new
        return [best[state] for state in sorted(best) if self.speaks[state]]

    def normalize(self, elements: list[Element]) -> tuple[list[Element], int, Cost, Cost]:
        """Take out the common prefix of the strings and the weight of the cheapest element."""
        strings = self.strings
        # Weights are divided from the left: strings by their prefix, costs by the cheapest pair.
        prefix, cheapest = elements[0][1], elements[0]
        for element in elements[1:]:
            prefix = strings.common_prefix(prefix, element[1])
            cost, least = element[2] + element[3], cheapest[2] + cheapest[3]
            if cost < least or (cost == least and element[2] < cheapest[2]):
                cheapest = element
        _, _, graph, acoustic = cheapest
        skip = strings.depth[prefix]
        residuals = [
            (state, strings.concatenate(EMPTY, string, skip), g - graph, a - acoustic)
            for state, string, g, a in elements
        ]
        return residuals, prefix, graph, acoustic

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
                ending_acoustic = self.acceptor.final_acoustic[state]
                new = (state, string, graph + ending, acoustic + ending_acoustic)
                if best is None or self.strings.prefers(new, best):
                    best = new
        if best is not None and cost_of(best[2], best[3]) + subset.forward <= self.cutoff:
            subset.arcs.append((0, best[1], best[2], best[3], -1))
            self.arcs += 1

    def plan_arcs(self, number: int) -> None:
        """Queue one task for each label that leaves the subset within the beam."""
        subset, strings, backward = self.subsets[number], self.strings, self.backward
        targets: dict[int, dict[int, Element]] = {}
        for state, string, graph, acoustic in subset.elements:
            for label, tid, arc_graph, arc_acoustic, target in self.acceptor.leaving(state):
                if not label:
                    continue
                # Of two paths to a state with one label only the better can be part of the result.
                elements = targets.setdefault(label, {})
                longer = strings.extend(string, tid)
                new = (target, longer, graph + arc_graph, acoustic + arc_acoustic)
                if target not in elements or strings.prefers(new, elements[target]):
                    elements[target] = new
        for label in sorted(targets):
            reached = [targets[label][state] for state in sorted(targets[label])]
            # As in A*: the cost so far, and the exact cost from here to the cheapest end.
            least = min(cost_of(g, a) + backward[state] for state, _, g, a in reached)
            priority = subset.forward + least
            if priority <= self.cutoff:
                self.tasks += 1
                heapq.heappush(self.queue, (priority, self.tasks, number, label, reached))

    def is_too_large(self) -> bool:
        """Tell whether Kaldi would stop here; strings that nothing needs any more do not count."""
        arc_bytes = self.arcs * ARC_BYTES + self.elements * ELEMENT_BYTES
        strings = len(self.strings.parent) - 1
        if arc_bytes + (strings - self.garbage) * STRING_BYTES <= defaults.MAX_BYTES:
            return False
        # Mark and sweep: strings that arcs, tables and tasks name, and their prefixes.
        needed = {arc[1] for subset in self.subsets for arc in subset.arcs}
        entries = [entry for row in self.initial.rows.values() for entry in row]
        needed |= {target[1] for _, target in entries}
        lists = [subset.elements for subset in self.subsets]
        lists += [task[4] for task in self.queue] + [elements for elements, _ in entries]
        needed |= {element[1] for elements in lists for element in elements}
        live = self.strings.count_live(needed)
        self.garbage = strings - live
        return arc_bytes + live * STRING_BYTES > defaults.MAX_BYTES * 0.8


def drop_phones(deterministic: Deterministic, first_phone: int) -> Acceptor:
    """Return the result of the first pass as an acceptor of words, one transition-id an arc."""
    states = len(deterministic.arcs)
    ends: dict[int, tuple[Cost, Cost]] = {}
    columns: tuple[array, ...] = tuple(array(kind) for kind in "iiiffi")

    def add(*arc: float | Cost) -> None:
        for column, value in zip(columns, arc, strict=True):
            column.append(value)

    # A string of n transition-ids becomes n arcs, by new states; the first bears word and costs.
    for number, arcs in enumerate(deterministic.arcs):
        for label, string, graph, acoustic, target in arcs:
            tids = deterministic.strings.labels(string)
            word = label if label < first_phone else 0
            if target < 0 and not tids:
                ends[number] = (graph, acoustic)
                continue
            if target < 0:
                target = states + len(tids) - 1
                ends[target] = (NOTHING, NOTHING)
            state = number
            for tid in tids[:-1]:
                add(state, word, tid, graph, acoustic, states)
                word, graph, acoustic, state, states = 0, NOTHING, NOTHING, states, states + 1
            add(state, word, tids[-1] if tids else 0, graph, acoustic, target)
            states = max(states, target + 1)
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
    # Kaldi: DeterminizeLatticePhonePruned's loop over retry_cutoff.
    for attempt in range(1, MAX_TRIES + 1):
        determinizer = Determinizer(acceptor, beam)
        reached = determinizer.run()
        if reached >= beam * RETRY_CUTOFF or attempt == MAX_TRIES:
            break
        beam = max(beam * math.sqrt(max(reached, 0.0) / beam), 0.5 * beam)
        acceptor = prune_acceptor(acceptor, beam)
    determinizer.strings.known.clear()  # nothing is added any more, and it is the largest part
    return Deterministic([subset.arcs for subset in determinizer.subsets], determinizer.strings)


def compact_lattice(deterministic: Deterministic) -> CompactLattice:
    """Return the result as arrays, topologically sorted, without states that lead nowhere."""
    rows = [[arc for arc in row if arc[4] >= 0] for row in deterministic.arcs]
    none = (0, EMPTY, Cost(np.inf), Cost(np.inf), -1)
    ends = [next((arc for arc in row if arc[4] < 0), none) for row in deterministic.arcs]
    arcs = [arc for row in rows for arc in row]
    tids = [deterministic.strings.labels(arc[1]) for arc in arcs]
    final_tids = [deterministic.strings.labels(end[1]) for end in ends]
    lattice = CompactLattice(
        offsets=row_offsets([*map(len, rows)]),
        word=np.array([arc[0] for arc in arcs], np.int32),
        graph=np.array([arc[2] for arc in arcs], np.float32),
        acoustic=np.array([arc[3] for arc in arcs], np.float32),
        nextstate=np.array([arc[4] for arc in arcs], np.int32),
        tid_offsets=row_offsets([*map(len, tids)]),
        tids=np.array([tid for row in tids for tid in row], np.int32),
        final_graph=np.array([end[2] for end in ends], np.float32),
        final_acoustic=np.array([end[3] for end in ends], np.float32),
        final_tid_offsets=row_offsets([*map(len, final_tids)]),
        final_tids=np.array([tid for row in final_tids for tid in row], np.int32),
    )
    return connect(lattice)

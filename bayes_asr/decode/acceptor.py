"""A lattice as the determinization reads it: arcs labelled with words, and phones among them."""

from dataclasses import dataclass

import numpy as np

from bayes_asr.errors import InputError
from bayes_asr.tables.lattice import Lattice, topological_order

Weight = tuple[float, float]  # graph cost, acoustic cost
Arc = tuple[int, int, float, float, int]  # label, transition-id, graph, acoustic, next state


@dataclass
class Acceptor:
    """A topologically sorted lattice whose labels are what is to be made deterministic."""

    arcs: list[list[Arc]]
    final: list[Weight | None]


def renumber(arcs: list[list[Arc]], final: list[Weight | None]) -> Acceptor:
    """Return the reachable part with its states in topological order."""
    offsets = np.cumsum([0, *(len(row) for row in arcs)])
    after = np.array([arc[4] for row in arcs for arc in row])
    order = topological_order(offsets, after, 0)
    if order is None:
        raise InputError("the lattice has a cycle")
    number = {state: new for new, state in enumerate(order.tolist())}
    sorted_arcs = [
        [(label, tid, graph, acoustic, number[after]) for label, tid, graph, acoustic, after in row]
        for row in (arcs[state] for state in order)
    ]
    return Acceptor(sorted_arcs, [final[state] for state in order])


def insert_phones(lattice: Lattice, phone_start: np.ndarray) -> tuple[Acceptor, int]:
    """Return the lattice as an acceptor of words and phones, and the label of the first phone.

    A phone stands on the arc of its first transition-id, after the word if there is one there;
    those on arcs out of the start are left out, as in Kaldi.  `phone_start` [transition-ids + 1]
    holds the phone that a transition-id begins, otherwise 0.
    """
    first_phone = int(lattice.olabel.max(initial=0)) + 1
    phone = phone_start[lattice.ilabel]
    phone[: lattice.offsets[1]] = 0
    arcs: list[list[Arc]] = [[] for _ in range(lattice.num_states)]
    source = np.repeat(np.arange(lattice.num_states), np.diff(lattice.offsets))
    columns = (source, lattice.olabel, phone, lattice.ilabel, lattice.graph, lattice.acoustic)
    rows = zip(*(column.tolist() for column in (*columns, lattice.nextstate)), strict=True)
    for state, word, spoken, tid, graph, acoustic, after in rows:
        if word and spoken:
            arcs[state].append((word, tid, graph, acoustic, len(arcs)))
            arcs.append([(first_phone + spoken, 0, 0.0, 0.0, after)])
        else:
            label = first_phone + spoken if spoken else word
            arcs[state].append((label, tid, graph, acoustic, after))
    ends = np.isfinite(lattice.final_graph)
    final: list[Weight | None] = [
        (float(g), float(a)) if end else None
        for end, g, a in zip(ends, lattice.final_graph, lattice.final_acoustic, strict=True)
    ]
    final += [None] * (len(arcs) - len(final))
    return renumber(arcs, final), first_phone


def backward_costs(acceptor: Acceptor) -> list[float]:
    """Return the cost of the cheapest way from each state to the end of a path."""
    costs = [float("inf")] * len(acceptor.arcs)
    for state in range(len(costs) - 1, -1, -1):
        final = acceptor.final[state]
        least = float("inf") if final is None else final[0] + final[1]
        for _, _, graph, acoustic, after in acceptor.arcs[state]:
            least = min(least, graph + acoustic + costs[after])
        costs[state] = least
    return costs


def prune_acceptor(acceptor: Acceptor, beam: float) -> Acceptor:
    """Return the acceptor without the arcs and ends that no path within the beam uses."""
    backward = backward_costs(acceptor)
    cutoff = backward[0] + beam
    forward = [0.0] + [float("inf")] * (len(backward) - 1)
    arcs: list[list[Arc]] = []
    final: list[Weight | None] = []
    for state, row in enumerate(acceptor.arcs):
        arcs.append([])
        for arc in row:
            cost = forward[state] + (arc[2] + arc[3])
            forward[arc[4]] = min(forward[arc[4]], cost)
            if cost + backward[arc[4]] <= cutoff:
                arcs[state].append(arc)
        ending = acceptor.final[state]
        over = ending is None or forward[state] + ending[0] + ending[1] > cutoff
        final.append(None if over else ending)
    return renumber(arcs, final)

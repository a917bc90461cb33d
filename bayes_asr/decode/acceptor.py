"""A lattice as the determinization reads it: arcs labelled with words, and phones among them."""

from dataclasses import dataclass

import numpy as np

from bayes_asr.errors import InputError
from bayes_asr.tables.lattice import Lattice, topological_order

Cost = np.float32  # costs of paths add up and compare in float32, as in Kaldi: see determinize
Weight = tuple[Cost, Cost]  # graph cost, acoustic cost
Arc = tuple[int, int, Cost, Cost, int]  # label, transition-id, graph, acoustic, next state
NOTHING = Cost(0)


def cost_of(graph: Cost, acoustic: Cost) -> float:
    """Return the sum in float64, in which the costs that guide the search add up."""
    return float(graph) + float(acoustic)


@dataclass
class Acceptor:
    """A topologically sorted lattice whose labels are what is to be made deterministic."""

    arcs: list[list[Arc]]
    final: list[Weight | None]


def renumber(arcs: list[list[Arc]], final: list[Weight | None]) -> Acceptor:
    """Return the reachable part with its states in topological order; `arcs` are used up."""
    offsets = np.cumsum([0, *(len(row) for row in arcs)])
    after = np.array([arc[4] for row in arcs for arc in row])
    order = topological_order(offsets, after, 0)
    if order is None:
        raise InputError("the lattice has a cycle")
    number = np.empty(len(arcs), np.int64)
    number[order] = np.arange(len(order))
    places = number.tolist()
    for row in arcs:
        row[:] = [(label, tid, g, a, places[after]) for label, tid, g, a, after in row]
    return Acceptor([arcs[state] for state in order], [final[state] for state in order])


def insert_phones(lattice: Lattice, phone_start: np.ndarray, first_phone: int) -> Acceptor:
    """Return the lattice as an acceptor of words, and of phones as `first_phone` + phone.

    A phone stands on the arc of its first transition-id, after the word if there is one there;
    those on arcs out of the start are left out, as in Kaldi.  `phone_start` [transition-ids + 1]
    holds the phone that a transition-id begins, otherwise 0.
    """
    phone = phone_start[lattice.ilabel]
    phone[: lattice.offsets[1]] = 0
    arcs: list[list[Arc]] = [[] for _ in range(lattice.num_states)]
    source = np.repeat(np.arange(lattice.num_states), np.diff(lattice.offsets))
    numbers = (source, lattice.olabel, phone, lattice.ilabel, lattice.nextstate)
    columns = (*(column.tolist() for column in numbers), lattice.graph, lattice.acoustic)
    for state, word, spoken, tid, after, graph, acoustic in zip(*columns, strict=True):
        if word and spoken:
            arcs[state].append((word, tid, graph, acoustic, len(arcs)))
            arcs.append([(first_phone + spoken, 0, NOTHING, NOTHING, after)])
        else:
            label = first_phone + spoken if spoken else word
            arcs[state].append((label, tid, graph, acoustic, after))
    ends = np.isfinite(lattice.final_graph)
    final: list[Weight | None] = [
        (graph, acoustic) if end else None
        for end, graph, acoustic in zip(
            ends, lattice.final_graph, lattice.final_acoustic, strict=True
        )
    ]
    final += [None] * (len(arcs) - len(final))
    return renumber(arcs, final)


def backward_costs(acceptor: Acceptor) -> list[float]:
    """Return the cost of the cheapest way from each state to the end of a path."""
    costs = [float("inf")] * len(acceptor.arcs)
    for state in range(len(costs) - 1, -1, -1):
        final = acceptor.final[state]
        least = float("inf") if final is None else cost_of(*final)
        for _, _, graph, acoustic, after in acceptor.arcs[state]:
            least = min(least, cost_of(graph, acoustic) + costs[after])
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
            cost = forward[state] + cost_of(arc[2], arc[3])
            forward[arc[4]] = min(forward[arc[4]], cost)
            if cost + backward[arc[4]] <= cutoff:
                arcs[state].append(arc)
        ending = acceptor.final[state]
        over = ending is None or forward[state] + cost_of(*ending) > cutoff
        final.append(None if over else ending)
    return renumber(arcs, final)

"""Lattices as acceptors for the determinization: arcs labelled with words, and with phones."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from bayes_asr.base.errors import InputError
from bayes_asr.kaldi_io.lattice import Lattice, topological_order

Cost = np.float32  # costs of paths add up and compare in float32, as in Kaldi: see determinize
Arc = tuple[int, int, Cost, Cost, int]  # label, transition-id, graph, acoustic, next state
NOTHING = Cost(0)


def cost_of(graph: Cost, acoustic: Cost) -> float:
    """Return the sum in float64, in which the costs that guide the search add up."""
    return float(graph) + float(acoustic)


@dataclass(frozen=True)
class AcceptorArcs:
    """Arcs in any order, those of one state in theirs: each column int32 or float32 [A]."""

    source: np.ndarray
    label: np.ndarray
    tid: np.ndarray
    graph: np.ndarray
    acoustic: np.ndarray
    nextstate: np.ndarray


@dataclass(frozen=True)
class Acceptor:
    """A topologically sorted lattice whose labels are what is to be made deterministic.

    The arcs of state s are offsets[s]:offsets[s + 1] of the columns [A]; final costs are infinite
    where no path ends.  Columns, because as Python's objects the arcs of a minute are 150 MB.
    """

    offsets: list[int]
    label: np.ndarray
    tid: np.ndarray
    graph: np.ndarray
    acoustic: np.ndarray
    nextstate: np.ndarray
    final_graph: np.ndarray
    final_acoustic: np.ndarray

    def leaving(self, state: int) -> Iterator[Arc]:
        """Yield the arcs of a state."""
        span = slice(self.offsets[state], self.offsets[state + 1])
        return zip(
            self.label[span].tolist(),
            self.tid[span].tolist(),
            self.graph[span],
            self.acoustic[span],
            self.nextstate[span].tolist(),
            strict=True,
        )

    def sources(self) -> np.ndarray:
        """Return the source state of each arc, int64 [A]."""
        return np.repeat(np.arange(len(self.final_graph)), np.diff(self.offsets))


def renumber(arcs: AcceptorArcs, final_graph: np.ndarray, final_acoustic: np.ndarray) -> Acceptor:
    """Return the part that state 0 reaches with its states in topological order."""
    states = len(final_graph)
    rows = np.argsort(arcs.source, kind="stable")
    offsets = row_bounds(arcs.source, states)
    order = topological_order(offsets, arcs.nextstate[rows], 0)
    if order is None:
        raise InputError("the lattice has a cycle")
    # States that are not reached keep the number -1, and their arcs sort to the front.
    number = np.full(states, -1, np.int32)
    number[order] = np.arange(len(order), dtype=np.int32)
    source = number[arcs.source]
    rows = np.argsort(source, kind="stable")[np.count_nonzero(source < 0) :]
    return Acceptor(
        row_bounds(source[rows], len(order)).tolist(),
        arcs.label[rows],
        arcs.tid[rows],
        arcs.graph[rows],
        arcs.acoustic[rows],
        number[arcs.nextstate[rows]],
        final_graph[order],
        final_acoustic[order],
    )


def row_bounds(source: np.ndarray, states: int) -> np.ndarray:
    """Return where the arcs of each state begin when sorted by their sources, int64 [S + 1]."""
    return np.concatenate([[0], np.cumsum(np.bincount(source, minlength=states))])


def insert_phones(lattice: Lattice, phone_start: np.ndarray, first_phone: int) -> Acceptor:
    """Return the lattice as an acceptor of words, and of phones as `first_phone` + phone.

    A phone stands on the arc of its first transition-id, after the word if there is one there;
    those on arcs out of the start are left out, as in Kaldi.  `phone_start` [transition-ids + 1]
    holds the phone that a transition-id begins, otherwise 0.
    """
    word, phone = lattice.olabel, phone_start[lattice.ilabel]
    phone[: lattice.offsets[1]] = 0
    source = np.repeat(np.arange(lattice.num_states, dtype=np.int32), np.diff(lattice.offsets))
    # An arc with a word and a phone becomes two, by a new state between them.
    both = (word > 0) & (phone > 0)
    split = int(both.sum())
    between = np.arange(lattice.num_states, lattice.num_states + split, dtype=np.int32)
    target = lattice.nextstate.astype(np.int32)
    target[both] = between
    phone_label = first_phone + phone
    zeros = np.zeros(split, np.float32)
    arcs = AcceptorArcs(
        np.concatenate([source, between]),
        np.concatenate([np.where((phone > 0) & ~both, phone_label, word), phone_label[both]]),
        np.concatenate([lattice.ilabel, np.zeros(split, np.int32)]),
        np.concatenate([lattice.graph, zeros]),
        np.concatenate([lattice.acoustic, zeros]),
        np.concatenate([target, lattice.nextstate[both]]),
    )
    no_end = np.full(split, np.inf, np.float32)
    return renumber(
        arcs,
        np.concatenate([lattice.final_graph, no_end]),
        np.concatenate([lattice.final_acoustic, no_end]),
    )


def backward_costs(acceptor: Acceptor) -> list[float]:
    """Return the cost of the cheapest path from each state to an end."""
    costs = (acceptor.final_graph.astype(np.float64) + acceptor.final_acoustic).tolist()
    cost = (acceptor.graph.astype(np.float64) + acceptor.acoustic).tolist()
    target, offsets = acceptor.nextstate.tolist(), acceptor.offsets
    # The states are sorted, so that those behind a state are done before it.
    for state in range(len(costs) - 1, -1, -1):
        for arc in range(offsets[state], offsets[state + 1]):
            costs[state] = min(costs[state], cost[arc] + costs[target[arc]])
    return costs


def forward_costs(acceptor: Acceptor) -> list[float]:
    """Return the cost of the cheapest path from the start to each state."""
    costs = [0.0] + [float("inf")] * (len(acceptor.final_graph) - 1)
    cost = (acceptor.graph.astype(np.float64) + acceptor.acoustic).tolist()
    target, offsets = acceptor.nextstate.tolist(), acceptor.offsets
    for state, forward in enumerate(costs):
        for arc in range(offsets[state], offsets[state + 1]):
            costs[target[arc]] = min(costs[target[arc]], forward + cost[arc])
    return costs


def prune_acceptor(acceptor: Acceptor, beam: float) -> Acceptor:
    """Return the acceptor without the arcs and ends that no path within the beam uses."""
    backward, forward = np.array(backward_costs(acceptor)), np.array(forward_costs(acceptor))
    cutoff = backward[0] + beam
    source = acceptor.sources()
    # Forward and backward costs give the cheapest path through an arc.
    through = forward[source] + (acceptor.graph.astype(np.float64) + acceptor.acoustic)
    within = through + backward[acceptor.nextstate] <= cutoff
    columns = (acceptor.label, acceptor.tid, acceptor.graph, acceptor.acoustic, acceptor.nextstate)
    ending = forward + (acceptor.final_graph.astype(np.float64) + acceptor.final_acoustic)
    over = ending > cutoff
    return renumber(
        AcceptorArcs(source[within], *(column[within] for column in columns)),
        np.where(over, np.float32(np.inf), acceptor.final_graph),
        np.where(over, np.float32(np.inf), acceptor.final_acoustic),
    )

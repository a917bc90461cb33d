"""The best path so far of an utterance that has not ended, and how far it is settled.

Whatever comes later, the final path passes a token of the last frame, and reaches it by the
cheapest way there.  So the words that these ways have in common, from the first one on, stay.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bayes_asr.decode.search.engine import BestPath
from bayes_asr.decode.search.search_graph import Arcs, DecodingGraph
from bayes_asr.decode.search.tokens import Frame, Links

NEAR = np.float32(0.01)
"""Ways that cost so little more than the cheapest may win by rounding once the path is complete."""


@dataclass
class Arrival:
    """How a token is reached: `common`, the words that all near ways to it begin with; whether they
    are `whole`, all words of these ways; of the cheapest way the last link, and its kind.
    """

    common: tuple[int, ...]
    whole: bool
    cost: np.float32
    source: int
    arc: int
    emits: bool


def trace(graph: DecodingGraph, frames: Sequence[Frame]) -> BestPath:
    """Return the best path through the frames of a search."""
    # The token of the start state is the one that no epsilon link enters.
    (start,) = set(range(len(frames[0].state))) - set(frames[0].inner.target.tolist())
    arrivals: list[dict[int, Arrival]] = []
    for t, frame in enumerate(frames):
        here: dict[int, Arrival] = {}
        if t == 0:
            here[start] = Arrival((), True, np.float32(0), -1, -1, False)
        else:
            before = frames[t - 1]
            links = range(len(before.outer.arc))
            _arrive(here, frame, arrivals[-1], before, before.outer, links, graph.emitting)
        inner = frame.inner
        place = np.empty(len(frame.state), np.int64)
        place[order_epsilons(frame)] = np.arange(len(place))
        in_order = np.argsort(place[inner.source], kind="stable").tolist()
        _arrive(here, frame, here, frame, inner, in_order, graph.epsilon)
        arrivals.append(here)
    settled = [arrival.common for arrival in arrivals[-1].values()]
    fixed = settled[0]
    for common in settled[1:]:
        fixed = _common(fixed, common)
    return _read_best(graph, frames, arrivals, len(fixed))


def order_epsilons(frame: Frame) -> np.ndarray:
    """Return the tokens of a frame in an order in which its epsilon links lead forward."""
    # The depth of a token is the longest chain of epsilon links before it.
    depth = np.zeros(len(frame.state), np.int64)
    while True:
        deeper = depth.copy()
        np.maximum.at(deeper, frame.inner.target, depth[frame.inner.source] + 1)
        if np.array_equal(deeper, depth):
            return np.argsort(depth, kind="stable")
        depth = deeper


def _arrive(
    here: dict[int, Arrival],
    frame: Frame,
    there: dict[int, Arrival],
    before: Frame,
    links: Links,
    order: Sequence[int],
    arcs: Arcs,
) -> None:
    """Enter the tokens of `frame` by links from those of `before`."""
    cost = (before.cost[links.source] + links.acoustic) + links.graph
    near = cost <= frame.cost[links.target] + NEAR
    for link in order:
        source, target, arc = (int(x[link]) for x in (links.source, links.target, links.arc))
        origin = there.get(source)
        if origin is None or not near[link]:
            continue
        word = int(arcs.olabel[arc])
        said = (*origin.common, word) if word and origin.whole else origin.common
        arrival = Arrival(said, origin.whole, cost[link], source, arc, before is not frame)
        twin = here.setdefault(target, arrival)
        if twin is arrival:
            continue
        common = _common(twin.common, said)
        twin.whole = twin.whole and origin.whole and common == said == twin.common
        twin.common = common
        if cost[link] < twin.cost:
            twin.cost, twin.source, twin.arc = cost[link], source, arc
            twin.emits = arrival.emits


def _common(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    """The longest sequence that both begin with."""
    length = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), None)
    return a[: min(len(a), len(b)) if length is None else length]


def _read_best(
    graph: DecodingGraph,
    frames: Sequence[Frame],
    arrivals: Sequence[dict[int, Arrival]],
    fixed: int,
) -> BestPath:
    """The words, their frames and the transition-ids on the way back from the cheapest token."""
    t, token = len(frames) - 1, int(frames[-1].cost.argmin())
    words: list[tuple[int, int]] = []
    tids: list[int] = []
    while (arrival := arrivals[t][token]).source >= 0:
        arcs = graph.emitting if arrival.emits else graph.epsilon
        t -= arrival.emits
        if arrival.emits:
            tids.append(int(arcs.ilabel[arrival.arc]))
        if word := int(arcs.olabel[arrival.arc]):
            words.append((word, t))
        token = arrival.source
    columns = np.array(words[::-1], np.int32).reshape(-1, 2).T
    return BestPath(columns[0], columns[1], np.array(tids[::-1], np.int32), fixed)

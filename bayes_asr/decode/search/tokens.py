"""Token passing in NumPy: the readable reference of the lattice decoder.

The rules are those of Kaldi's LatticeFasterDecoder: a frame keeps the tokens within the beam of
its best one, bounded by max_active and min_active; every link between kept tokens stays, and every
`prune_interval` frames the links that no path within the lattice beam uses are dropped, so that
memory follows the lattice and not the length of the utterance.  Within a frame the cutoff tightens
while arcs are walked, so which tokens survive depends on their order; that order is kept too
(Kaldi's hash list: buckets by first use, within a bucket by insertion).
"""

from dataclasses import dataclass, field

import numpy as np

from bayes_asr.config.decoding_keys import UNLIMITED, SearchOptions
from bayes_asr.decode.search.search_graph import DecodingGraph

INFINITY = np.float32(np.inf)
BUCKETS = 1000
NO_LINKS = np.empty(0, np.int32)


@dataclass
class Links:
    """Arcs between tokens (Kaldi's ForwardLink): tokens, arc of the graph, costs; each [L]."""

    source: np.ndarray
    target: np.ndarray
    arc: np.ndarray
    acoustic: np.ndarray
    graph: np.ndarray

    def select(self, mask: np.ndarray, source: np.ndarray, target: np.ndarray) -> "Links":
        """Return the links under the mask, their tokens renumbered by the two maps."""
        return Links(
            source[self.source[mask]],
            target[self.target[mask]],
            self.arc[mask],
            self.acoustic[mask],
            self.graph[mask],
        )


def no_links() -> Links:
    """Return an empty set of links."""
    none = np.empty(0, np.float32)
    return Links(NO_LINKS, NO_LINKS, NO_LINKS, none, none)


@dataclass
class Frame:
    """The tokens alive before frame t [N]: graph state, forward cost, extra cost (Kaldi's names).

    The extra cost is that of the best path through a token above the best path of all. `inner`
    links (epsilon arcs) stay within the frame, `outer` links (emitting arcs, whose acoustic costs
    contain `offset`) lead to the next one. Of the first frame that is kept `origin` int32 [N] says
    by which way paths begin in a token: 0 at the begin of the utterance; -1: they do not.
    """

    state: np.ndarray
    cost: np.ndarray
    extra: np.ndarray
    inner: Links
    outer: Links = field(default_factory=no_links)
    offset: float | np.float32 = 0.0
    origin: np.ndarray = field(default_factory=lambda: NO_LINKS)


class Search:
    """One utterance's token passing over a graph; `frames` holds the sets of tokens, T + 1 if none
    has been given away.
    """

    def __init__(self, graph: DecodingGraph, options: SearchOptions) -> None:
        """Put the first token on the start state and follow its epsilon arcs."""
        self.graph, self.options = graph, options
        self.buckets = BUCKETS
        self.place = np.full(graph.num_states, -1, np.int32)  # token of each state, -1: none
        start = np.array([graph.start], np.int32)
        zero = np.zeros(1, np.float32)
        first = self.close(start, zero, np.float32(options.beam), no_links())[0]
        first.origin = np.where(first.state == graph.start, 0, -1).astype(np.int32)
        self.frames = [first]
        self.begin = 0  # number of the first frame that is kept

    def prune(self) -> bool:
        """Drop what no path can use, if it is time for that; tell whether it was."""
        due = (self.begin + len(self.frames) - 1) % self.options.prune_interval == 0
        if due:
            prune(self.frames, self.options.lattice_beam, self.options.prune_interval)
        return due

    def advance(self, loglikes: np.ndarray) -> None:
        """Consume one frame: scaled log-likelihoods [num_pdfs], float32."""
        last = self.frames[-1]
        cutoff, beam = choose_cutoff(last.cost, self.options)
        # PossiblyResizeHash with hash_ratio 2: the table grows and never shrinks.
        self.buckets = max(self.buckets, 2 * len(last.cost))
        states, costs, links, cutoff = self.emit(last, loglikes, cutoff, beam)
        frame, last.outer = self.close(states, costs, cutoff, links)
        self.frames.append(frame)

    def emit(
        self, last: Frame, loglikes: np.ndarray, cutoff: np.float32, beam: np.float32
    ) -> tuple[np.ndarray, np.ndarray, Links, np.float32]:
        """Walk the emitting arcs (ProcessEmitting): new states and costs, links, next cutoff.

        States are in the order of their first arrival.
        """
        arcs, column = self.graph.emitting, self.graph.column
        # The offset brings the best token to cost 0, so that float32 keeps differences of costs.
        best = int(last.cost.argmin())
        least, state = last.cost[best], last.state[best]
        last.offset = -least
        # Arcs of the best token alone bound the next cutoff before any other arc is walked.
        span = slice(arcs.offsets[state], arcs.offsets[state + 1])
        ahead = ((arcs.weight[span] + last.offset) - loglikes[column[span]]) + least
        within = last.cost < cutoff if self.options.strict else last.cost <= cutoff
        alive = np.flatnonzero(within).astype(np.int32)
        owner, arc = arcs.leaving(last.state[alive])
        source = alive[owner]
        acoustic = last.offset - loglikes[column[arc]]
        cost = (last.cost[source] + acoustic) + arcs.weight[arc]
        # Kaldi tightens the cutoff with each arc: the limit of an arc is that of all before it.
        limit = np.minimum.accumulate(
            np.concatenate([[(ahead + beam).min(initial=INFINITY)], cost + beam])
        )
        survives = cost < limit[:-1]
        arc, cost = arc[survives], cost[survives]
        states, target = self.enter(arcs.nextstate[arc])
        # A token has the cost of its cheapest arc; links of all arcs that survive are kept.
        costs = np.full(len(states), INFINITY)
        np.minimum.at(costs, target, cost)
        source, acoustic = source[survives], acoustic[survives]
        links = Links(source, target, arc.astype(np.int32), acoustic, arcs.weight[arc])
        return states, costs, links, limit[-1]

    def enter(self, nextstate: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Number the distinct states in order of first arrival: the states, the number of each."""
        # Written backwards, so that of equal states the first arrival stands.
        arrival = np.arange(len(nextstate), dtype=np.int32)
        self.place[nextstate[::-1]] = arrival[::-1]
        states = nextstate[self.place[nextstate] == arrival]
        self.place[states] = arrival[: len(states)]
        return states, self.place[nextstate]

    def hash_order(self, states: np.ndarray) -> np.ndarray:
        """Return the order in which Kaldi's hash list holds states that arrived in this order."""
        # HashList: buckets in the order of their first use, in a bucket the order of insertion.
        bucket = states % self.buckets
        first_use = np.empty(self.buckets, np.int64)
        first_use[bucket[::-1]] = np.arange(len(states))[::-1]
        return np.argsort(first_use[bucket], kind="stable")

    def close(
        self, states: np.ndarray, costs: np.ndarray, cutoff: np.float32, outer: Links
    ) -> tuple[Frame, Links]:
        """Follow the epsilon arcs (ProcessNonemitting): the finished frame, its incoming links."""
        arcs = self.graph.epsilon
        self.place[states] = np.arange(len(states), dtype=np.int32)
        states, costs = self.follow_epsilons(states, costs, cutoff)
        # The costs are final now: links are made once, in one step, as Kaldi remakes its own.
        alive = np.flatnonzero(costs < cutoff).astype(np.int32)
        owner, arc = arcs.leaving(states[alive])
        source = alive[owner]
        survives = costs[source] + arcs.weight[arc] < cutoff
        source, arc = source[survives], arc[survives].astype(np.int32)
        target = self.place[arcs.nextstate[arc]]
        self.place[states] = -1
        # Tokens are stored in the order in which the next frame walks them: rank [N] renumbers.
        order = self.hash_order(states)
        rank = np.empty(len(order), np.int32)
        rank[order] = np.arange(len(order), dtype=np.int32)
        silence = np.zeros(len(arc), np.float32)
        inner = Links(rank[source], rank[target], arc, silence, arcs.weight[arc])
        outer.target = rank[outer.target]
        extra = np.zeros(len(order), np.float32)
        return Frame(states[order], costs[order], extra, inner), outer

    def follow_epsilons(
        self, states: np.ndarray, costs: np.ndarray, cutoff: np.float32
    ) -> tuple[np.ndarray, np.ndarray]:
        """Append the states reached by epsilon arcs below the cutoff; last in, first out."""
        arcs, place = self.graph.epsilon, self.place
        # ProcessNonemitting's queue is a stack; a token is pushed again when it becomes cheaper.
        branching = arcs.offsets[states] < arcs.offsets[states + 1]
        order = self.hash_order(states)
        stack = order[(branching & (costs < cutoff))[order]].tolist()
        if not stack:
            return states, costs
        new_states, new_costs = states.tolist(), costs.tolist()
        while stack:
            token = stack.pop()
            cost = new_costs[token]
            if cost >= cutoff:
                continue
            state = new_states[token]
            for arc in range(arcs.offsets[state], arcs.offsets[state + 1]):
                total = float(np.float32(cost + float(arcs.weight[arc])))
                if total >= cutoff:
                    continue
                nextstate = int(arcs.nextstate[arc])
                target = int(place[nextstate])
                if target < 0:  # no token there yet
                    target = place[nextstate] = len(new_states)
                    new_states.append(nextstate)
                    new_costs.append(total)
                elif total < new_costs[target]:
                    new_costs[target] = total
                else:
                    continue
                if arcs.offsets[nextstate] < arcs.offsets[nextstate + 1]:
                    stack.append(target)
        return np.array(new_states, np.int32), np.array(new_costs, np.float32)


def choose_cutoff(cost: np.ndarray, options: SearchOptions) -> tuple[np.float32, np.float32]:
    """Return the cost above which tokens are dropped and the next beam (Kaldi's GetCutoff)."""
    best, beam = cost.min(), np.float32(options.beam)
    cutoff = best + beam
    if options.max_active == UNLIMITED and options.min_active == 0:
        return cutoff, beam
    delta = np.float32(options.beam_delta)
    # The beam adapts to the cutoff that max_active or min_active sets, and beam_delta above it.
    if len(cost) > options.max_active:  # max_active is the tighter bound
        tighter = np.partition(cost, options.max_active)[options.max_active]
        if tighter < cutoff:
            return tighter, (tighter - best) + delta
    looser = INFINITY  # fewer tokens than min_active: all stay
    if len(cost) > options.min_active:
        looser = np.partition(cost, options.min_active)[options.min_active]
    if looser > cutoff:
        return looser, (looser - best) + delta
    return cutoff, beam


def excess(links: Links, frame: Frame, next_frame: Frame) -> np.ndarray:
    """Return the extra cost of the best path through each link, float32 [L]."""
    # Kaldi's link_extra_cost: that of the token it leads to, and what this link costs more than
    # the best one there. Below 0 is a rounding error.
    through = (frame.cost[links.source] + links.acoustic) + links.graph
    return np.maximum(next_frame.extra[links.target] + (through - next_frame.cost[links.target]), 0)


def update_extra(frame: Frame, next_frame: Frame | None, ending: np.ndarray) -> None:
    """Set frame.extra to the least excess of its links, or to `ending` where a path may end.

    As Kaldi's PruneForwardLinks.
    """
    least = ending.copy()
    if next_frame is not None:
        np.minimum.at(least, frame.outer.source, excess(frame.outer, frame, next_frame))
    frame.extra = least
    # Epsilon links lie within the frame: repeated until nothing changes, for any order of tokens.
    while len(frame.inner.source):
        updated = least.copy()
        np.minimum.at(updated, frame.inner.source, excess(frame.inner, frame, frame))
        if np.array_equal(updated, frame.extra):
            break
        frame.extra = updated


def drop_links(frame: Frame, next_frame: Frame | None, beam: float) -> np.ndarray:
    """Drop the links past the lattice beam; return the mask of tokens within it."""
    inner = excess(frame.inner, frame, frame) <= beam
    same = np.arange(len(frame.state), dtype=np.int32)
    frame.inner = frame.inner.select(inner, same, same)
    if next_frame is not None:
        targets = np.arange(len(next_frame.state), dtype=np.int32)
        outer = excess(frame.outer, frame, next_frame) <= beam
        frame.outer = frame.outer.select(outer, same, targets)
    return frame.extra <= beam


def drop_tokens(frame: Frame, previous_frame: Frame | None, mask: np.ndarray) -> None:
    """Remove tokens and renumber the links that touch them."""
    if mask.all():
        return
    # By old token, its number among those that stay.
    number = (np.cumsum(mask) - 1).astype(np.int32)
    inner, outer = frame.inner, frame.outer
    frame.inner = inner.select(mask[inner.source] & mask[inner.target], number, number)
    targets = np.arange(outer.target.max(initial=-1) + 1, dtype=np.int32)
    frame.outer = outer.select(mask[outer.source], number, targets)
    frame.state, frame.cost, frame.extra = frame.state[mask], frame.cost[mask], frame.extra[mask]
    if len(frame.origin):
        frame.origin = frame.origin[mask]
    if previous_frame is not None:
        links = previous_frame.outer
        same = np.arange(len(previous_frame.state), dtype=np.int32)
        previous_frame.outer = links.select(mask[links.target], same, number)


def prune(frames: list[Frame], beam: float, interval: int) -> None:
    """Drop what no path within the lattice beam of any token of the last frame can use.

    PruneActiveTokens: extra costs go backwards from the last frame, where they are 0.
    Stops going back where the excess of the tokens no longer changes by a tenth of the beam.
    """
    for t in range(len(frames) - 2, -1, -1):
        frame, previous = frames[t], frames[t].extra
        update_extra(frame, frames[t + 1], np.full(len(frame.state), INFINITY))
        # A frame that an earlier pass has pruned: what is settled here stays so further back.
        seen_before = t < len(frames) - 1 - interval
        settled = seen_before and bool(np.all(np.abs(frame.extra - previous) <= 0.1 * beam))
        alive = drop_links(frame, frames[t + 1], beam)
        drop_tokens(frame, frames[t - 1] if t else None, alive)
        if settled:
            break


def finish(
    graph: DecodingGraph, frames: list[Frame], beam: float, complete: bool
) -> tuple[np.ndarray, bool]:
    """Prune with the final costs: the final cost of each last token, and whether any is final.

    When no token is in a final state, or the frames are not `complete`, every last token may end
    a path, at no cost.
    """
    last = frames[-1]
    ending = graph.final[last.state]
    reached = complete and bool(np.isfinite(ending).any())
    if not reached:
        ending = np.zeros(len(ending), np.float32)
    # PruneForwardLinksFinal: the last tokens compete by their costs with the final ones.
    total = last.cost + ending
    update_extra(last, None, total - total.min(initial=INFINITY))
    for t in range(len(frames) - 1, -1, -1):
        frame, next_frame = frames[t], frames[t + 1] if t + 1 < len(frames) else None
        if next_frame is not None:
            update_extra(frame, next_frame, np.full(len(frame.state), INFINITY))
        alive = drop_links(frame, next_frame, beam)
        if next_frame is None:
            ending = ending[alive]
        drop_tokens(frame, frames[t - 1] if t else None, alive)
    return ending, reached

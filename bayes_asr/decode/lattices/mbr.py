"""Minimum Bayes risk decoding: the words with the least expected number of errors.

H. Xu, D. Povey, L. Mangu, J. Zhu, "Minimum Bayes Risk decoding and system combination based on a
recursion for edit distance", Computer Speech and Language, 2011: figures 4 (the recursion over
lattice nodes n and positions q of the hypothesis R), 5 (its derivatives: which words stand at q,
how often and when) and 6 (take the likeliest word at each q, and repeat).  Here all arcs that end
at nodes of one depth are treated at once.  Kaldi: lattice-mbr-decode, lattice-to-ctm-conf.

Shapes: A arcs, N nodes, Q positions (words, and an empty position before and after each), W words.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from bayes_asr.base.errors import InputError
from bayes_asr.decode.lattices import compiled
from bayes_asr.decode.lattices.paths import Weights, sweep_words, weigh
from bayes_asr.decode.lattices.word_times import WordTimer
from bayes_asr.kaldi_io.lattice import CompactLattice

DELTA = float(np.float32(1.0e-5))  # for a word against nothing: a substitution wins ties
MAX_ROUNDS = 101
MOST_BYTES = 1 << 34  # of the tables of a lattice
MATCH, PASS, SKIP = 1, 2, 3  # word of the arc against r_q; against nothing; r_q against nothing


@dataclass(frozen=True)
class TimedWord:
    """A word with its times in frames (averages over the lattice) and its posterior."""

    word: int
    start: float
    end: float
    confidence: float


@dataclass(frozen=True)
class MbrHypothesis:
    """A hypothesis, and the expected number of errors in it."""

    words: list[TimedWord]
    risk: float


@dataclass(frozen=True)
class ArcTable:
    """A lattice with one final node, the last; arcs sorted by the depth of the node they enter."""

    source: np.ndarray
    target: np.ndarray
    word: np.ndarray  # index into `words`
    posterior: np.ndarray  # of the arc among those that enter its target node
    bounds: np.ndarray  # of layers: where the arcs of each begin, and the last ends
    begin: np.ndarray  # frames of the word of the arc
    end: np.ndarray
    words: np.ndarray  # words[0] is 0, no word
    num_nodes: int

    @property
    def layers(self) -> list[slice]:
        """The arcs of each layer."""
        return [slice(*pair) for pair in pairwise(self.bounds.tolist())]


def decode_mbr(
    lattice: CompactLattice,
    lmwt: float,
    wip: float = 0.0,
    *,
    change_words: bool = True,
    name: str = "a lattice",
    timer: WordTimer | None = None,
) -> MbrHypothesis:
    """Return the words of least expected error, from the best path on, with times and confidences.

    With `change_words` off the words of the best path stay, and only get times and confidences.
    Without `timer` the times are those of the lattice, as of Kaldi's lattice-to-ctm-conf.
    InputError, which begins with `name`, for a lattice that would take more than MOST_BYTES.
    """
    words = sweep_words(lattice, [(lmwt, wip)])[0]
    table = build_arc_table(weigh(lattice, lmwt, wip), timer)
    _check_size(table, words, name)
    for _ in range(MAX_ROUNDS):
        # Figure 6: the likeliest word of each position is the next hypothesis, until none changes.
        hypothesis = np.searchsorted(table.words, insert_epsilons(words))
        errors = expected_errors(table, hypothesis)
        likeliest = choose_likeliest(errors.occupancy) if change_words else hypothesis
        words = [int(table.words[index]) for index in likeliest if index]
        if (likeliest == hypothesis).all():
            break
    rows = np.flatnonzero(likeliest)
    spans = errors.spans(rows, likeliest[rows])
    confidence = errors.occupancy[rows, likeliest[rows]].astype(np.float32)
    timed = [
        TimedWord(word, start, end, float(posterior))
        for word, (start, end), posterior in zip(words, spans, confidence, strict=True)
    ]
    return MbrHypothesis(timed, errors.risk)


def sweep_mbr(lattice: CompactLattice, grid: Sequence[Weights], name: str) -> list[list[int]]:
    """Return for each (LM weight, penalty) the words of least expected error: `decode_mbr`."""
    return [
        [timed.word for timed in decode_mbr(lattice, *weights, name=name).words] for weights in grid
    ]


def _check_size(table: ArcTable, words: list[int], name: str) -> None:
    """Refuse what grows with the square of a recording: every position at every node and arc."""
    positions, arcs = 2 * len(words) + 2, len(table.source)
    # Of doubles: alpha and beta of nodes; flow, and its parts that match and skip, of arcs. In C++
    # those of nodes, one at a time, and the choices of arcs.
    size = 8 * (2 * table.num_nodes + 3 * arcs)
    if compiled.LIBRARY.usable:
        size = 8 * table.num_nodes + arcs
    # Of words: three sums of this round and of the one before, and a float32 copy of one.
    size = positions * (size + (2 * 3 * 8 + 4) * len(table.words))
    if size > MOST_BYTES:
        raise InputError(
            f"{name}: confidences of {len(words)} words in a lattice of {arcs} arcs would take"
            f" {size / 2**30:.0f} GiB, of which {MOST_BYTES / 2**30:.0f} are allowed: cut the"
            " recording at pauses into pieces of some minutes"
        )


def insert_epsilons(words: list[int]) -> np.ndarray:
    """Return the words with an empty position before and after each, int [Q]."""
    positions = np.zeros(2 * len(words) + 1, np.int64)
    positions[1::2] = words
    return positions


def choose_likeliest(occupancy: np.ndarray) -> np.ndarray:
    """Return the likeliest word of each position; of equals (in float32) that of the highest id."""
    reverse = occupancy.astype(np.float32)[:, ::-1]
    return reverse.shape[1] - 1 - reverse.argmax(axis=1)


def build_arc_table(lattice: CompactLattice, timer: WordTimer | None = None) -> ArcTable:
    """Return a weighed lattice with one final node and the posteriors of its arcs, and the times of
    their words; without `timer` those of the arcs.
    """
    states = lattice.num_states
    ends = np.flatnonzero(np.isfinite(lattice.final_graph))
    owner = np.repeat(np.arange(states), np.diff(lattice.offsets))
    source = np.concatenate([owner, ends])
    target = np.concatenate([lattice.nextstate, np.full(len(ends), states)])
    symbols = np.concatenate([lattice.word, np.zeros(len(ends), np.int32)])
    final_cost = lattice.final_graph[ends] + lattice.final_acoustic[ends]
    loglike = -np.concatenate([lattice.graph + lattice.acoustic, final_cost]).astype(np.float64)
    length = np.concatenate(
        [np.diff(lattice.tid_offsets), np.diff(lattice.final_tid_offsets)[ends]]
    )
    # Arcs by the depth of their target: all that enter a layer come from layers before it.
    depth, times = measure_nodes(source, target, length, states + 1)
    begin, end = times[source], times[target]
    if timer:
        begin[: len(owner)], end[: len(owner)] = timer.time_arcs(lattice)
    order = np.argsort(depth[target], kind="stable")
    bounds = np.searchsorted(depth[target][order], np.arange(1, depth[-1] + 2))
    # A leading 0 makes sure that words[0] is the empty word.
    words, index = np.unique(np.concatenate([[0], symbols]), return_inverse=True)
    source, target = source[order], target[order]
    posterior = arc_posteriors(source, target, loglike[order], bounds, states + 1)
    spans = begin[order], end[order]
    return ArcTable(source, target, index[1:][order], posterior, bounds, *spans, words, states + 1)


def measure_nodes(
    source: np.ndarray, target: np.ndarray, length: np.ndarray, nodes: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the depth (most arcs from the start) and the time in frames of each node, int [N]."""
    depth, times = [0] * nodes, [0] * nodes
    for origin, destination, frames in zip(
        source.tolist(), target.tolist(), length.tolist(), strict=True
    ):
        depth[destination] = max(depth[destination], depth[origin] + 1)
        times[destination] = times[origin] + frames
    return np.array(depth), np.array(times)


def arc_posteriors(
    source: np.ndarray,
    target: np.ndarray,
    loglike: np.ndarray,
    bounds: np.ndarray,
    nodes: int,
) -> np.ndarray:
    """Return for each arc its share of all paths from the start to its target node, float64 [A].

    In scalars: NumPy rounds exp differently from one processor to another, and ties hang on it.
    """
    alpha = [-math.inf] * nodes
    alpha[0] = 0.0
    posterior = np.empty(len(source))
    for layer in (slice(*pair) for pair in pairwise(bounds.tolist())):
        targets = target[layer].tolist()
        entering = (alpha[state] for state in source[layer].tolist())
        totals = [sum(pair) for pair in zip(entering, loglike[layer].tolist(), strict=True)]
        for node, total in zip(targets, totals, strict=True):
            larger, smaller = max(alpha[node], total), min(alpha[node], total)
            alpha[node] = larger + math.log1p(math.exp(smaller - larger))
        posterior[layer] = [
            math.exp(total - alpha[node]) for node, total in zip(targets, totals, strict=True)
        ]
    return posterior


@dataclass(frozen=True)
class Errors:
    """Expected errors of a hypothesis; of each word at each position how often, from when to when.

    `occupancy`, `begin`, `end` float64 [Q, W]; the times are weighted by the occupancy.
    """

    risk: float
    occupancy: np.ndarray
    begin: np.ndarray
    end: np.ndarray

    def spans(self, rows: np.ndarray, words: np.ndarray) -> list[tuple[float, float]]:
        """Return (start, end) of the words at these positions; overlaps are shared out."""
        occupancy = self.occupancy[rows, words].astype(np.float32)
        starts = (self.begin[rows, words] / occupancy).astype(np.float32).tolist()
        ends = (self.end[rows, words] / occupancy).astype(np.float32).tolist()
        for i in range(1, len(starts)):
            if ends[i - 1] <= starts[i]:
                continue
            # Both words together keep their stretch of time, in the proportion of their lengths.
            earlier = ends[i - 2] if i > 1 else 0.0
            begin = max(earlier, min(starts[i - 1], starts[i]))
            stop = max(ends[i - 1], ends[i])
            length, other_length = ends[i - 1] - starts[i - 1], ends[i] - starts[i]
            both = length + other_length
            middle = begin + (stop - begin) * length / both if length > 0 else begin
            starts[i - 1], ends[i - 1], starts[i], ends[i] = begin, middle, middle, stop
        return list(zip(starts, ends, strict=True))


def expected_errors(table: ArcTable, hypothesis: np.ndarray) -> Errors:
    """Return figure 5 of the paper for a hypothesis of indices of words, int [Q].

    By C++ where that is built.
    """
    if not compiled.LIBRARY.usable:
        return expected_errors_in_numpy(table, hypothesis)
    risk, sums = np.empty(1), np.zeros((3, len(table.words), len(hypothesis) + 1))
    sizes = {"num_arcs": len(table.source), "num_layers": len(table.bounds) - 1}
    compiled.expected_errors(table, hypothesis, risk, *sums, num_nodes=table.num_nodes, **sizes)
    occupancy, begin, end = (rows[:, 1:].T for rows in sums)
    return Errors(float(risk[0]), occupancy, begin, end)


def expected_errors_in_numpy(table: ArcTable, hypothesis: np.ndarray) -> Errors:
    """The NumPy version of `expected_errors`, which defines its result."""
    Q, arcs = len(hypothesis), len(table.source)
    # alpha[n, q]: expected edit distance of the paths to node n from r_1 ... r_q. At the start
    # node all of them are deleted.
    alpha = np.zeros((table.num_nodes, Q + 1))
    alpha[0, 1:] = np.cumsum(hypothesis > 0)
    choice = np.empty((arcs, Q + 1), np.int8)
    for layer in table.layers:
        distance, choice[layer] = edit_rows(table, layer, alpha, hypothesis)
        shares = table.posterior[layer, None] * distance
        np.add.at(alpha, table.target[layer], shares)
    # Where an arc's word is matched with r_q, it stands at q, as often as its row is reached.
    flow = backward_flow(table, choice)
    matched = flow[:-1] * (choice == MATCH)
    skipped = flow * (np.concatenate([choice, np.full((1, Q + 1), SKIP, np.int8)]) == SKIP)
    ends = np.append(table.end, 0)
    occupancy = np.zeros((len(table.words), Q + 1))
    begin, end = occupancy.copy(), occupancy.copy()
    np.add.at(occupancy, table.word, matched)
    np.add.at(begin, table.word, matched * table.begin[:, None])
    np.add.at(end, table.word, matched * table.end[:, None])
    # A skipped r_q is the empty word at q, where the arc ends.
    occupancy[0] += skipped.sum(axis=0)
    waiting = (skipped * ends[:, None]).sum(axis=0)
    begin[0] += waiting
    end[0] += waiting
    return Errors(float(alpha[-1, Q]), occupancy[:, 1:].T, begin[:, 1:].T, end[:, 1:].T)


def edit_rows(
    table: ArcTable, layer: slice, alpha: np.ndarray, hypothesis: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return for the arcs of a layer the expected errors up to each q, and the choice made there.

    alpha' of an arc is the least of: match w_a with r_q, pass w_a by, skip r_q (from q - 1).
    Ties are frequent; they are settled by exact comparison, in Kaldi's order.
    """
    word = table.word[layer]
    costs = alpha[table.source[layer]]
    passing = costs + (word > 0)[:, None] * (1.0 + DELTA)
    matching = costs[:, :-1] + (word[:, None] != hypothesis)
    distance, choice = passing.copy(), np.full(costs.shape, PASS, np.int8)
    for q, r_q in enumerate(hypothesis, 1):
        # From q - 1 in the same row: this makes the loop over q sequential.
        match, skip = matching[:, q - 1], distance[:, q - 1] + (r_q > 0)
        least = np.minimum(match, passing[:, q])
        choice[:, q] = np.where(match <= passing[:, q], MATCH, PASS)
        choice[least > skip, q] = SKIP
        distance[:, q] = np.minimum(least, skip)
    return distance, choice


def backward_flow(table: ArcTable, choice: np.ndarray) -> np.ndarray:
    """Return how often an arc's row reaches position q, float64 [A + 1, Q + 1].

    The last row is that of the start node, where every r_q still to come is skipped.
    """
    # beta[n, q]: derivative of the risk, alpha of the last node at Q, by alpha[n, q].
    beta = np.zeros((table.num_nodes, choice.shape[1]))
    beta[-1, -1] = 1.0
    flow = np.empty((len(choice) + 1, choice.shape[1]))
    for layer in reversed(table.layers):
        source, choices = table.source[layer], choice[layer]
        rows = table.posterior[layer, None] * beta[table.target[layer]]
        rows = carry_back(rows, choices == SKIP)
        flow[layer] = rows
        passed = np.where(choices == PASS, rows, 0.0)
        passed[:, :-1] += np.where(choices == MATCH, rows, 0.0)[:, 1:]
        np.add.at(beta, source, passed)
    flow[-1] = carry_back(beta[:1], np.ones((1, choice.shape[1]), bool))[0]
    return flow


def carry_back(rows: np.ndarray, skips: np.ndarray) -> np.ndarray:
    """Add to each position what comes from the next one, as long as that one skips."""
    total = np.cumsum(rows[:, ::-1], axis=1)[:, ::-1]
    # A sum from q to the next position that does not skip, as a difference of suffix sums.
    Q = rows.shape[1]
    stops = np.where(skips, Q, np.arange(Q))  # positions from which nothing is carried further
    following = np.full(stops.shape, Q)
    following[:, :-1] = np.minimum.accumulate(stops[:, ::-1], axis=1)[:, ::-1][:, 1:]
    beyond = np.concatenate([total, np.zeros((len(rows), 1))], axis=1)
    return np.maximum(total - np.take_along_axis(beyond, following, axis=1), 0.0)

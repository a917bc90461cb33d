"""Alignment of word networks, as sclite does it: optional words, fragments, alternations."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from bayes_asr.base.errors import InputError
from bayes_asr.evaluate.score.counts import Edit, Kind, align, check_size

MOST_CELLS = 1 << 24  # of 100 bytes, 4,000 words against as many
NULL = "@"
"""An alternative without words."""


@dataclass(frozen=True)
class Arc:
    """A word on the arc; `predecessors` are the arcs that it may follow, -1 for the start.

    `token` is how it was written, in parentheses if it is marked as one that may be missing.
    """

    word: str
    token: str
    optional: bool
    predecessors: tuple[int, ...]


@dataclass
class WordNetwork:
    """Arcs in topological order; `last` are those that may end it."""

    arcs: list[Arc] = field(default_factory=list)
    last: tuple[int, ...] = (-1,)

    def append(self, token: str, optional: frozenset[str] = frozenset()) -> None:
        """Add a word, `(word)` if it may be missing, after all that may end the network."""
        marked = len(token) > 2 and token[0] == "(" and token[-1] == ")"
        # Under sclite a * behind a word is no part of it.
        word = token[1:-1] if marked else token[:1] + token[1:].removesuffix("*")
        self.arcs.append(Arc(word, token, marked or word in optional, self.last))
        self.last = (len(self.arcs) - 1,)


def read_network(tokens: Sequence[str], optional: frozenset[str] = frozenset()) -> WordNetwork:
    """Read `a (b) { c d / @ } e`: b may be missing, `c d` may be missing together.

    The words in `optional` may be missing too. Alternations do not nest.
    """
    network = WordNetwork()
    # fork: where the alternatives of the open brace start; ends: where those read so far end.
    fork: tuple[int, ...] | None = None
    ends: list[int] = []
    for word in tokens:
        if word == "{" and fork is None:
            fork, ends = network.last, []
        elif word in ("/", "}") and fork is not None:
            # An empty alternative gets a null arc, so that the way around the others exists.
            if network.last == fork:
                network.append(NULL)
            ends.extend(network.last)
            closes = word == "}"
            # Each alternative starts at the fork, and what follows starts at all their ends.
            network.last = tuple(ends) if closes else fork
            fork = None if closes else fork
        elif word in ("{", "}"):
            raise InputError(f"braces do not match in {' '.join(tokens)!r}")
        else:
            network.append(word, optional)
    if fork is not None:
        raise InputError(f"an alternation does not end in {' '.join(tokens)!r}")
    return network


def align_marked(
    ref: Sequence[str], hyp: Sequence[str], optional: frozenset[str] = frozenset()
) -> list[Edit]:
    """Align tokens that may be `(x)`, `{ a / b }`, fragments `a-` and `a*`, with sclite's costs.

    A fragment is right if the other word begins (or, for `-a`, ends) with it, as under sclite's
    option -F. Null alternatives leave no trace in the alignment.
    """
    if not any(set(token) & set("(){}@-*") for side in (ref, hyp) for token in side):
        return align(ref, hyp, "sclite", optional)
    return _align_networks(read_network(ref, optional), read_network(hyp))


def same_word(a: str, b: str) -> bool:
    """Whether the words are equal, or one is a fragment of the other."""
    for fragment, word in ((a, b), (b, a)):
        if len(fragment) > 1 and fragment[0] == "-":
            return word.endswith(fragment[1:])
        if len(fragment) > 1 and fragment[-1] == "-":
            return word.startswith(fragment[:-1])
    return a == b


def _gap_cost(arc: Arc) -> int:
    if arc.word == NULL:
        return 1
    return 2000 if arc.optional else 3000


def _pair_cost(a: Arc, b: Arc) -> int:
    if NULL in (a.word, b.word):
        return 10_000  # never: to pass it by is cheaper
    return 0 if same_word(a.word, b.word) else 4000


def _align_networks(ref: WordNetwork, hyp: WordNetwork) -> list[Edit]:
    """Dynamic programming over pairs of arcs (SCTK net_dp.c); row and column 0 are the starts.

    Costs are those of sclite in thousandths.
    """
    check_size(len(ref.arcs), len(hyp.arcs), MOST_CELLS)
    rows, columns = len(ref.arcs) + 1, len(hyp.arcs) + 1
    cost = [[0] * columns for _ in range(rows)]
    back = [[(0, 0)] * columns for _ in range(rows)]
    for a in range(rows):
        for b in range(columns):
            if a or b:
                cost[a][b], back[a][b] = _choose_cheapest(ref, hyp, cost, a, b)
    # Arc -1 is the start, so arc i has row i + 1.
    ends = ((i + 1, j + 1) for i in ref.last for j in hyp.last)
    a, b = min(ends, key=lambda cell: cost[cell[0]][cell[1]])
    return list(_trace(ref, hyp, back, a, b))[::-1]


def _choose_cheapest(
    ref: WordNetwork, hyp: WordNetwork, cost: list[list[int]], a: int, b: int
) -> tuple[int, tuple[int, int]]:
    """The least cost of a cell and the cell before it; ties go to a pair, then to an insertion."""
    rows = [i + 1 for i in ref.arcs[a - 1].predecessors] if a else []
    columns = [j + 1 for j in hyp.arcs[b - 1].predecessors] if b else []
    steps = []
    if a and b:
        pair = _pair_cost(ref.arcs[a - 1], hyp.arcs[b - 1])
        steps += [(cost[i][j] + pair, (i, j)) for i in rows for j in columns]
    if b:
        inserted = _gap_cost(hyp.arcs[b - 1])
        steps += [(cost[a][j] + inserted, (a, j)) for j in columns]
    if a:
        deleted = _gap_cost(ref.arcs[a - 1])
        steps += [(cost[i][b] + deleted, (i, b)) for i in rows]
    # min takes the first of equal steps, so their order above settles ties.
    return min(steps, key=lambda step: step[0])


def _trace(
    ref: WordNetwork, hyp: WordNetwork, back: list[list[tuple[int, int]]], a: int, b: int
) -> Iterator[Edit]:
    """The edits from the last cell to the first, without null alternatives."""
    while a or b:
        i, j = back[a][b]
        r = ref.arcs[a - 1] if i != a else None
        h = hyp.arcs[b - 1] if j != b else None
        kind: Kind
        if r and h:
            kind = "correct" if same_word(r.word, h.word) else "substitution"
            yield Edit(kind, r.token, h.token)
        elif h and h.word != NULL:
            yield Edit("correct" if h.optional else "insertion", None, h.token)
        elif r and r.word != NULL:
            yield Edit("correct" if r.optional else "deletion", r.token, None)
        a, b = i, j

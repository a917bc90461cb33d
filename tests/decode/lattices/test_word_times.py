"""Times of words in lattices, against those with which the lattices are made."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pytest

from bayes_asr.data.targets.marks import spread_states
from bayes_asr.decode.lattices.aligned import find_times
from bayes_asr.decode.lattices.mbr import decode_mbr
from bayes_asr.decode.lattices.word_times import WordTimer
from bayes_asr.kaldi_io.initial_mdl import build_monophone_model
from bayes_asr.kaldi_io.lattice import CompactLattice, connect, row_offsets

SIL, A, B, C, D = range(1, 6)
# The phones of any path can be shared among its words in one way.
LEXICON = {1: [[A, B]], 2: [[A, B, C], [A, B]], 3: [[B, C]], 4: [[C, A], [D, A]], 5: [[SIL, D]]}
MODEL = build_monophone_model([SIL, A, B, C, D], 3)
TIMER = WordTimer(LEXICON, SIL, MODEL)
LEAST = 4  # frames of a phone
HEAD, REST = 12, 12  # frames of a word before and after it is known
GAPS = ((0, 5, 0), (0, 4, 1), (0, 0, 5), (2, 0, 3), (1, 3, 1), (5, 0, 0))
"""Five frames between two words: of the one before, of silence, of the one behind."""

Span = tuple[int, int]


def speak(phone: int, frames: int) -> list[int]:
    return spread_states([phone], np.array([frames]), MODEL).tolist()


@dataclass(frozen=True)
class Said:
    """A word, which stands in a lattice where `known` frames of its second phone are over."""

    word: int
    phones: list[int]
    known: int

    def head(self, longer: int) -> list[int]:
        first, second = self.phones[:2]
        return speak(first, HEAD - self.known + longer) + speak(second, LEAST)[: self.known]

    def rest(self, longer: int) -> list[int]:
        tids = [tid for phone in self.phones[1:] for tid in speak(phone, LEAST)][self.known :]
        return tids + tids[-1:] * (REST + longer - len(tids))


@dataclass(frozen=True)
class Arc:
    """An arc, or the end of a path, with what is heard between two words."""

    target: int
    word: int
    cost: float
    gap: tuple[int, int, int]
    tids: list[int]


@dataclass
class Network:
    """States that know a word, the arcs out of each, and the ends of paths."""

    said: list[Said | None] = field(default_factory=lambda: [None])
    arcs: list[list[Arc]] = field(default_factory=lambda: [[]])
    ends: dict[int, Arc] = field(default_factory=dict)

    def to_lattice(self) -> CompactLattice:
        arcs = [arc for row in self.arcs for arc in row]
        ends = [self.ends.get(state) for state in range(len(self.arcs))]
        last = [end.tids if end else [] for end in ends]
        return CompactLattice(
            offsets=row_offsets([*map(len, self.arcs)]),
            word=np.array([arc.word for arc in arcs], np.int32),
            graph=np.array([arc.cost for arc in arcs], np.float32),
            acoustic=np.zeros(len(arcs), np.float32),
            nextstate=np.array([arc.target for arc in arcs], np.int32),
            tid_offsets=row_offsets([len(arc.tids) for arc in arcs]),
            tids=np.array([tid for arc in arcs for tid in arc.tids], np.int32),
            final_graph=np.array([end.cost if end else np.inf for end in ends], np.float32),
            final_acoustic=np.zeros(len(ends), np.float32),
            final_tid_offsets=row_offsets([*map(len, last)]),
            final_tids=np.array([tid for tids in last for tid in tids], np.int32),
        )

    def paths(self) -> Iterator[tuple[float, dict[int, Span]]]:
        """Every path: its cost, and the span of the word of each of its arcs, by their numbers."""
        rows = row_offsets([*map(len, self.arcs)]).tolist()
        stack: list[tuple[int, float, list[tuple[int, Arc]]]] = [(0, 0.0, [])]
        while stack:
            state, cost, path = stack.pop()
            if end := self.ends.get(state):
                yield cost + end.cost, dict(self._place([*path, (-1, end)]))
            for number, arc in enumerate(self.arcs[state], rows[state]):
                stack.append((arc.target, cost + arc.cost, [*path, (number, arc)]))

    def _place(self, path: list[tuple[int, Arc]]) -> Iterator[tuple[int, Span]]:
        known = 0
        for (number, arc), (_, later) in pairwise(path):
            known += len(arc.tids)
            yield number, (known - HEAD - arc.gap[2], known + REST + later.gap[0])


def make_network(rng: random.Random, slots: int) -> Network:
    """Paths of so many words, that meet in some states."""
    network, sources = Network(), [0]

    def add(source: int, target: int) -> None:
        before, behind = network.said[source], network.said[target]
        assert behind
        gaps = [gap for gap in GAPS if before or not gap[0]]
        for gap in rng.sample(gaps, 2):
            tids = before.rest(gap[0]) if before else []
            tids = tids + (speak(SIL, gap[1]) if gap[1] else []) + behind.head(gap[2])
            network.arcs[source].append(Arc(target, behind.word, rng.random(), gap, tids))

    for _ in range(slots):
        targets = range(len(network.arcs), len(network.arcs) + rng.randint(1, 3))
        for _ in targets:
            word = rng.choice([*LEXICON])
            phones, known = rng.choice(LEXICON[word]), rng.randrange(LEAST)
            network.said.append(Said(word, phones, known))
            network.arcs.append([])
        for source in sources:
            for target in targets:
                add(source, target)
        sources = [*targets]
    for state in sources:
        said, gap = network.said[state], rng.choice([(5, 0, 0), (0, 5, 0), (1, 4, 0)])
        assert said
        tids = said.rest(gap[0]) + (speak(SIL, gap[1]) if gap[1] else [])
        network.ends[state] = Arc(-1, 0, rng.random(), gap, tids)
    return network


@pytest.mark.parametrize("seed", range(20))
def test_a_word_has_the_times_of_the_best_path_that_takes_its_arc(seed: int) -> None:
    network = make_network(random.Random(seed), slots=4)
    best: dict[int, tuple[float, Span]] = {}
    for cost, spans in network.paths():
        for number, span in spans.items():
            best[number] = min((cost, span), best.get(number, (np.inf, span)))
    begin, end = TIMER.time_arcs(network.to_lattice())
    assert [*zip(begin.tolist(), end.tolist(), strict=True)] == [
        span for _, (_, span) in sorted(best.items())
    ]


def test_words_of_a_single_path_have_its_times() -> None:
    network = make_network(random.Random(0), slots=4)
    for row in network.arcs:
        del row[1:]
    ((_, spans),) = network.paths()
    words = decode_mbr(connect(network.to_lattice()), 1.0, timer=TIMER).words
    assert [(word.start, word.end) for word in words] == [*spans.values()]


@pytest.mark.parametrize("seed", range(20))
def test_words_behind_a_pause_have_times_whatever_was_before(seed: int) -> None:
    """One word of the lexicon has no pronunciation: words up to the next pause are of arcs."""
    network = make_network(random.Random(seed), slots=8)
    for row in network.arcs:
        del row[1:]
    ((_, spans),) = network.paths()
    lattice = connect(network.to_lattice())
    timer = WordTimer({**LEXICON, 3: []}, SIL, MODEL)
    begin, end = timer.time_arcs(lattice)
    rough = WordTimer({}, SIL, MODEL).time_arcs(lattice)
    arcs, state = [], 0
    while row := network.arcs[state]:
        arcs.append(row[0])
        state = row[0].target
    following = [*(arc.word for arc in arcs[1:]), 0]
    is_read = True
    for number, (arc, span) in enumerate(zip(arcs, spans.values(), strict=True)):
        # The fifth word begins with the phone of a pause.
        is_read = arc.word != 3 and (is_read or arc.gap[1] > 0 or arc.word == 5)
        if (arc.word, following[number]) == (2, 3):
            continue  # which of its pronunciations is said, the unknown word does not tell
        expected = span if is_read else (rough[0][number], rough[1][number])
        assert (begin[number], end[number]) == expected


def chain(words: list[tuple[int, list[int]]]) -> CompactLattice:
    """A lattice of one path, of words and their phones."""
    parts = [[tid for phone in phones for tid in speak(phone, LEAST)] for _, phones in words]
    final = np.full(len(words) + 1, np.inf, np.float32)
    final[-1] = 0
    zeros = np.zeros(len(words), np.float32)
    return CompactLattice(
        offsets=row_offsets([*[1] * len(words), 0]),
        word=np.array([word for word, _ in words], np.int32),
        graph=zeros,
        acoustic=zeros,
        nextstate=np.arange(1, len(final), dtype=np.int32),
        tid_offsets=row_offsets([*map(len, parts)]),
        tids=np.concatenate(parts).astype(np.int32),
        final_graph=final,
        final_acoustic=final,
        final_tid_offsets=row_offsets([0] * len(final)),
        final_tids=np.empty(0, np.int32),
    )


@pytest.mark.parametrize(
    ("lexicon", "second"),
    [
        ({1: [[A]], 2: [[SIL]]}, [SIL, SIL]),  # a word that is said as the pause is
        ({1: [[A], [A, B]], 2: [[B, C], [C]]}, [B, C]),
    ],
)
def test_many_ways_to_read_a_path_take_no_time(
    lexicon: dict[int, list[list[int]]], second: list[int]
) -> None:
    """Two ways for each pair of words: one after the other, 2 to the power of their number."""
    pairs = 100
    lattice = chain([(1, [A]), (2, second)] * pairs)
    begin, _ = WordTimer(lexicon, SIL, MODEL).time_arcs(lattice)
    assert begin[::2].tolist() == [3 * LEAST * pair for pair in range(pairs)]
    assert set((begin[1::2] - begin[::2]).tolist()) <= {LEAST, 2 * LEAST}


def test_what_is_not_of_the_lexicon_has_the_times_of_its_arc() -> None:
    lattice = make_network(random.Random(0), slots=2).to_lattice()
    plain = WordTimer({}, SIL, MODEL).time_arcs(lattice)
    source = np.repeat(np.arange(lattice.num_states), np.diff(lattice.offsets))
    times = find_times(source, lattice.nextstate, np.diff(lattice.tid_offsets), lattice.num_states)
    np.testing.assert_array_equal(plain, (times[source], times[lattice.nextstate]))

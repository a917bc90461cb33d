"""Keyword search: times and posteriors of words and phrases in lattices.

The posterior of a phrase at a place is the share of all paths, by their weight, that pass its
words there, one right after the other.  Kaldi: lattice-to-kws-index, kws-search (Can & Saraclar,
"Lattice indexing for spoken term detection", 2011).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property, partial
from itertools import pairwise
from pathlib import Path

import numpy as np

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import is_there
from bayes_asr.base.log import LOGGER
from bayes_asr.base.processes.pool import map_utterances
from bayes_asr.base.progress import follow
from bayes_asr.data.corpus.index import Arrays, Index, NotKeptError, state_of
from bayes_asr.decode.lattices.mbr import build_arc_table
from bayes_asr.decode.lattices.paths import Weights, weigh
from bayes_asr.decode.lattices.rescore import count_decoded, iter_word_lattices
from bayes_asr.decode.lattices.word_times import ReadTimer, read_no_timer
from bayes_asr.kaldi_io.lattice import CompactLattice, take_rows

NO_WORD = 0
TIMED = "is_timed"  # of the file: whether words have other times than those of lattices


@dataclass(frozen=True)
class Hit:
    """An occurrence of a phrase in a lattice: its frames, and its posterior."""

    utterance: str
    begin: int
    end: int
    posterior: float


@dataclass(frozen=True)
class KeywordIndex:
    """The arcs [A] of lattices, sorted by the state that they enter.

    `utterances` [U]; `owner` int32 [A]: the lattice of an arc; `word`, `source`, `target`
    int32 [A], states counted through all lattices; `begin`, `end` int32 [A], frames; `share`
    float64 [A]: of the paths that enter `target`, those by the arc; `visits` float64 [A]: of all
    paths, those that enter `target`.
    """

    utterances: np.ndarray
    owner: np.ndarray
    word: np.ndarray
    source: np.ndarray
    target: np.ndarray
    begin: np.ndarray
    end: np.ndarray
    share: np.ndarray
    visits: np.ndarray

    def find(self, phrase: Sequence[int]) -> list[Hit]:
        """The places of a phrase of word-ids, by utterance, likeliest first within it."""
        *earlier, final = phrase
        first = last = np.flatnonzero(self.word == final)
        posterior = self.visits[first] * self.share[first]
        for word in reversed(earlier):
            passed: tuple[np.ndarray, ...] = (first, last, posterior)
            columns = []
            # Arcs without a word may lie between two words, several in a row.
            while len(passed[0]):
                entering = self._enter(*passed)
                columns.append(self._choose(word, *entering))
                passed = self._choose(NO_WORD, *entering)
            if columns:
                first, last, posterior = map(np.concatenate, zip(*columns, strict=True))
        order = np.argsort(self.owner[first], kind="stable")
        owners, begins = np.unique(self.owner[first][order], return_index=True)
        hits = []
        for owner, rows in zip(owners, np.split(order, begins)[1:], strict=True):
            places = self._merge_overlaps(first[rows], last[rows], posterior[rows])
            of_utterance = [Hit(str(self.utterances[owner]), *place) for place in places]
            hits += sorted(of_utterance, key=lambda hit: -hit.posterior)
        return hits

    def _merge_overlaps(
        self, first: np.ndarray, last: np.ndarray, posterior: np.ndarray
    ) -> Iterator[tuple[int, int, float]]:
        """Yield begin, end and posterior of the places of a phrase, arcs `first` to `last` [N].

        Those that share a frame are one place, with the times of the likeliest of them. No path has
        two of these, unless the phrase overlaps itself, so that the sum is the posterior that one
        is said. Where one can follow the other they are two places: the times of an arc are those
        of its own best path, and may reach into those of its neighbours.
        """
        begin, end = self.begin[first], self.end[last]
        stop = np.maximum(end, begin + 1)  # a word without a frame has one here
        remaining = np.argsort(-posterior, kind="stable")
        while len(remaining):
            change = np.zeros(int(stop[remaining].max()) + 1)
            np.add.at(change, begin[remaining], posterior[remaining])
            np.subtract.at(change, stop[remaining], posterior[remaining])
            peak = int(change.cumsum().argmax())
            there = remaining[(begin[remaining] <= peak) & (peak < stop[remaining])]
            place = there[self._choose_apart(first[there], last[there])]
            best = place[0]
            yield int(begin[best]), int(end[best]), min(1.0, float(posterior[place].sum()))
            remaining = remaining[~np.isin(remaining, place)]

    def _choose_apart(self, first: np.ndarray, last: np.ndarray) -> list[int]:
        """The rows of sequences of arcs `first` to `last` [N] of which no path has two in turn.

        One that a path has before or behind an earlier row is left out.
        """
        before = self._find_before(self.target[last].tolist(), self.source[first].tolist())
        rows: list[int] = []
        chosen = earlier = 0  # sets of rows, a bit for each
        for row, leading in enumerate(before):
            if not (leading & chosen or earlier >> row & 1):
                rows.append(row)
                chosen |= 1 << row
                earlier |= leading
        return rows

    def _find_before(self, ends: list[int], starts: list[int]) -> list[int]:
        """For each state of `starts`, a bit for each of `ends` from which a path leads there."""
        low, high = min(ends), max(starts)
        if low > high:
            return [0] * len(starts)
        leading = [0] * (high + 1 - low)
        for row, end in enumerate(ends):
            if end <= high:
                leading[end - low] |= 1 << row
        offsets = self._offsets[low : high + 2].tolist()
        sources = self.source[offsets[0] : offsets[-1]].tolist()
        # States are numbered in topological order: all that lead to one come before it.
        for state, (begin, end) in enumerate(pairwise(offsets)):
            for source in sources[begin - offsets[0] : end - offsets[0]]:
                if source >= low:
                    leading[state] |= leading[source - low]
        return [leading[start - low] if start >= low else 0 for start in starts]

    @cached_property
    def _offsets(self) -> np.ndarray:
        """The rows of the arcs into each state, int64 [S + 1]."""
        states = int(max(self.source.max(initial=0), self.target.max(initial=0))) + 1
        return np.searchsorted(self.target, np.arange(states + 1))

    def _enter(
        self, first: np.ndarray, last: np.ndarray, posterior: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Sequences of arcs with each arc that enters the first of them put before them."""
        # Backwards from a state paths forget what follows it: the shares are multiplied.
        rows, begins = take_rows(self._offsets, self.source[first])
        counts = np.diff(begins)
        return rows, np.repeat(last, counts), np.repeat(posterior, counts) * self.share[rows]

    def _choose(self, word: int, *columns: np.ndarray) -> tuple[np.ndarray, ...]:
        """The sequences whose first arc bears `word`."""
        chosen = self.word[columns[0]] == word
        return tuple(column[chosen] for column in columns)


def index_lattices(
    lattices: Iterable[tuple[str, CompactLattice]],
    weights: Weights,
    nj: int = 1,
    read_timer: ReadTimer = read_no_timer,
) -> KeywordIndex:
    """Return the index of word lattices at an LM weight and a penalty, made by `nj` processes.

    InputError where there is no lattice.
    """
    utterances: list[str] = []
    tables, states = [], 0
    for utt, num_states, table in map_utterances(
        partial(_list_arcs, weights, read_timer), lattices, nj
    ):
        table["owner"] = np.full(len(table["word"]), len(utterances), np.int32)
        table["source"] += states
        table["target"] += states
        utterances.append(utt)
        tables.append(table)
        states += num_states
    if not tables:
        raise InputError("there is no lattice; decode the set again")
    columns = {name: np.concatenate([table[name] for table in tables]) for name in tables[0]}
    return KeywordIndex(utterances=np.array(utterances), **columns)


def _list_arcs(
    weights: Weights, read_timer: ReadTimer, utt: str, lattice: CompactLattice
) -> tuple[str, int, dict[str, np.ndarray]]:
    """The utterance, its number of states, and its columns of a KeywordIndex but `owner`."""
    table = build_arc_table(weigh(lattice, *weights), read_timer())
    # Backwards from the last state, which all paths enter: a layer enters states of one depth.
    visits = np.zeros(table.num_nodes)
    visits[-1] = 1.0
    for layer in reversed(table.layers):
        np.add.at(visits, table.source[layer], visits[table.target[layer]] * table.posterior[layer])
    order = np.argsort(table.target, kind="stable")
    source, target = table.source[order], table.target[order]
    numbers = {
        "word": table.words[table.word[order]],
        "source": source,
        "target": target,
        "begin": table.begin[order],
        "end": table.end[order],
    }
    columns = {name: column.astype(np.int32) for name, column in numbers.items()}
    return (
        utt,
        table.num_nodes,
        columns | {"share": table.posterior[order], "visits": visits[target]},
    )


def open_index(
    decode_dir: Path,
    lattices: Sequence[Path],
    weights: Weights,
    nj: int = 1,
    read_timer: ReadTimer = read_no_timer,
    lexicon: Sequence[Path] = (),
) -> KeywordIndex:
    """Read decode_dir/keywords.npz, which is made, or made anew where the lattices changed.

    Where it cannot be written, the index is held in memory. read_timer: asked for where it is made,
    and where it was made without a timer, to say so or to make it with one; lexicon: the files, as
    far as they are there, that the times of words hang on.
    """

    def read() -> KeywordIndex:
        what, total = f"{decode_dir}: index", count_decoded(lattices)
        shown = follow(iter_word_lattices(lattices), what, total=total)
        return index_lattices(shown, weights, nj, read_timer)

    def make(_: Path) -> Arrays:
        timed, index = np.array(read_timer() is not None), read()
        columns = {field.name: getattr(index, field.name) for field in fields(index)}
        return columns | {TIMED: timed}

    def use(_: Path, arrays: Arrays) -> KeywordIndex:
        if not arrays.pop(TIMED) and read_timer():
            raise InputError("made without the times of words, which can be told by now")
        return KeywordIndex(**arrays)

    made_from = {path.name: state_of(path) for path in lattices}
    made_from |= {str(path): state_of(path) for path in lexicon if is_there(path)}
    # The last one tells indexes of this form from those that do not say whether they are timed.
    made_from |= {"weights": repr(weights), "times": f"of words where {TIMED}"}
    try:
        return Index(decode_dir).of("keywords", made_from, make, use)
    except NotKeptError as error:
        LOGGER.warning("no index of the lattices, which is held in memory: %s", error)
        return read()

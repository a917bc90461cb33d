"""Keywords against counting over all paths of small lattices, and in the lattices of a run."""

from collections import defaultdict
from collections.abc import Iterator
from itertools import groupby, product
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import pytest

from bayes_asr.base.errors import InputError
from bayes_asr.decode.keywords import Hit, KeywordIndex, index_lattices, open_index
from bayes_asr.decode.lattices.aligned import find_times
from bayes_asr.decode.lattices.paths import weigh
from bayes_asr.decode.lattices.word_times import WordTimer
from bayes_asr.kaldi_io.lattice import CompactLattice
from bayes_asr.kaldi_io.lattice_files import write_lattices
from tests.decode.lattices.test_mbr import LMWT, WIP, word_lattice

Span = tuple[int, int]


def timed_paths(lattice: CompactLattice) -> Iterator[tuple[float, list[tuple[int, int, int]]]]:
    """Every path: its cost, and its words with the frames from which to which they last."""
    stack: list[tuple[int, int, float, list[tuple[int, int, int]]]] = [(0, 0, 0.0, [])]
    while stack:
        state, frame, cost, words = stack.pop()
        if np.isfinite(lattice.final_graph[state]):
            yield (cost + lattice.final_graph[state] + lattice.final_acoustic[state], words)
        for arc in range(lattice.offsets[state], lattice.offsets[state + 1]):
            end = frame + int(lattice.tid_offsets[arc + 1] - lattice.tid_offsets[arc])
            word = int(lattice.word[arc])
            said = [*words, (word, frame, end)] if word else words
            through = cost + lattice.graph[arc] + lattice.acoustic[arc]
            stack.append((int(lattice.nextstate[arc]), end, through, said))


class Counted(NamedTuple):
    """How often a phrase is said from which frame to which, in the mean over all paths.

    share: of the paths that have it; most: how often on one path, at most.
    """

    spans: dict[Span, float]
    share: float
    most: int


def count_spans(lattice: CompactLattice, phrase: tuple[int, ...]) -> Counted:
    """Count a phrase on all paths."""
    paths = list(timed_paths(weigh(lattice, LMWT, WIP)))
    costs = np.array([cost for cost, _ in paths])
    shares = np.exp(costs.min() - costs)
    spans: dict[Span, float] = defaultdict(float)
    most, having = 0, 0.0
    for share, (_, words) in zip(shares / shares.sum(), paths, strict=True):
        starts = range(len(words) - len(phrase) + 1)
        said = [words[first : first + len(phrase)] for first in starts]
        found = [s for s in said if tuple(word for word, _, _ in s) == phrase]
        most = max(most, len(found))
        having += share * bool(found)
        for first, *_, last in ([*s, s[-1]] for s in found):
            spans[first[1], last[2]] += share
    return Counted(spans, having, most)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("length", [1, 2, 3])
def test_posteriors_are_sums_over_all_paths(seed: int, length: int) -> None:
    lattices = {"a": word_lattice(seed), "b": word_lattice(seed + 100)}
    index = index_lattices(lattices.items(), (LMWT, WIP))
    words = sorted({int(word) for lattice in lattices.values() for word in lattice.word} - {0})
    assert words
    said = 0
    for phrase in product(words, repeat=length):
        hits = index.find(phrase)
        grouped = {utt: [*group] for utt, group in groupby(hits, lambda hit: hit.utterance)}
        for utt, lattice in lattices.items():
            spans, share, most = count_spans(lattice, phrase)
            found = grouped.get(utt, [])
            said += len(found)
            assert {(hit.begin, hit.end) for hit in found} <= spans.keys()
            if length == 1 or most <= 1:  # else the phrase may overlap itself
                assert all(hit.posterior <= share + 1e-6 for hit in found)
                total = sum(hit.posterior for hit in found)
                assert total == pytest.approx(sum(spans.values()), rel=1e-5)
            if most <= 1:
                # How likely the phrase is being said in a frame. The best place has the most.
                by_frame: dict[int, float] = defaultdict(float)
                for (begin, end), expected in spans.items():
                    for frame in range(begin, max(end, begin + 1)):
                        by_frame[frame] += expected
                best = max((hit.posterior for hit in found), default=0.0)
                assert best == pytest.approx(max(by_frame.values(), default=0.0), rel=1e-5)
    assert said


class Wider:
    """Times of words that reach into those of their neighbours, as on paths of their own."""

    def time_arcs(self, lattice: CompactLattice) -> tuple[np.ndarray, np.ndarray]:
        source = np.repeat(np.arange(lattice.num_states), np.diff(lattice.offsets))
        lengths = np.diff(lattice.tid_offsets)
        times = find_times(source, lattice.nextstate, lengths, lattice.num_states)
        return np.maximum(times[source] - 2, 0), times[lattice.nextstate] + 2


@pytest.mark.parametrize("seed", range(20))
def test_words_in_turn_are_two_places_where_their_times_overlap(seed: int) -> None:
    lattice = word_lattice(seed)
    index = index_lattices([("a", lattice)], (LMWT, WIP), 1, lambda: cast(WordTimer, Wider()))
    for word in {*lattice.word.tolist()} - {0}:
        total = sum(hit.posterior for hit in index.find([word]))
        assert total == pytest.approx(sum(count_spans(lattice, (word,)).spans.values()), rel=1e-5)


def test_words_of_another_lattice_do_not_follow() -> None:
    lattices = [(name, word_lattice(seed)) for name, seed in (("a", 1), ("b", 2))]
    index = index_lattices(lattices, (LMWT, WIP))
    last = int(index.word[index.owner == 0][-1])
    alone = index_lattices(lattices[1:], (LMWT, WIP))
    hits = [hit for hit in index.find([last, *map(int, alone.word[:1])]) if hit.utterance == "b"]
    assert hits == alone.find([last, *map(int, alone.word[:1])])


class Tally(np.ndarray):
    """An array that counts how many of its numbers are computed with."""

    touched = 0

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        plain = [i.view(np.ndarray) if isinstance(i, Tally) else i for i in inputs]
        Tally.touched += max(map(np.size, plain))
        return getattr(ufunc, method)(*plain, **kwargs)


def test_each_hit_is_looked_at_by_its_own_utterance_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not by all of them, whose number may be that of the hits."""
    utterances = 200
    owner = np.arange(utterances, dtype=np.int32).view(Tally)
    begin, word = np.full(utterances, 7), np.ones(utterances, np.int32)
    names = np.array([f"utt{i}" for i in owner.tolist()])
    columns = (word, 2 * owner.view(np.ndarray), 2 * owner.view(np.ndarray) + 1)
    index = KeywordIndex(names, owner, *columns, begin, begin + 2, np.ones(utterances), word / 2)
    monkeypatch.setattr(Tally, "touched", 0)
    assert index.find([1]) == [Hit(name, 7, 9, 0.5) for name in names]
    assert Tally.touched <= 5 * utterances


def test_nothing_to_index_is_refused() -> None:
    with pytest.raises(InputError, match="no lattice"):
        index_lattices([], (LMWT, WIP))


@pytest.mark.parametrize("hindrance", ["keywords.npz", "keywords.lock"])
def test_a_folder_that_cannot_be_written_is_searched_all_the_same(
    hindrance: str, tmp_path: Path
) -> None:
    write_lattices([("a", word_lattice(1))], tmp_path / "lat.1.gz")
    (tmp_path / hindrance).mkdir()
    index = open_index(tmp_path, [tmp_path / "lat.1.gz"], (LMWT, WIP))
    expected = index_lattices([("a", word_lattice(1))], (LMWT, WIP))
    word = int(expected.word[0])
    assert index.find([word]) == expected.find([word])

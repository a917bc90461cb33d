"""Times of the words of a lattice, on whose arcs they stand before they are said.

A search knows a phone when the next one begins, and a word when it can be no other: an arc bears
the end of the word before its own. Kaldi: lattice-align-words-lexicon, which makes another lattice;
here an arc has the times of its word on the best path that takes it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from bayes_asr.base.errors import InputError
from bayes_asr.decode.lattices.aligned import find_times
from bayes_asr.kaldi_io.lattice import CompactLattice, row_offsets
from bayes_asr.kaldi_io.transition_model import TransitionModel

END = -1  # stands behind the phones of a path

Phones = tuple[tuple[int, int], ...]
"""Phone-ids, each with its first frame."""


ReadTimer = Callable[[], "WordTimer | None"]
"""Reads what tells the times of words, once in each process; None where words have the times of
lattices.
"""


def read_no_timer() -> None:
    """No timer: words have the times of lattices."""


class Reading(NamedTuple):
    """A path up to some state, read in one way: the arcs whose words have not ended, the phones
    behind those of other words, and the frames of the word that is looked for.
    """

    arcs: tuple[int, ...]
    phones: Phones
    span: tuple[int, int] | None


NOTHING = Reading((), (), None)


@dataclass(frozen=True)
class WordTimer:
    """Lexicon and transition model, which tell the frames of words.

    pronunciations: the phone-ids of each word-id, of one or more pronunciations; silence: the phone
    that may stand before a word, and behind the last one, 0 where none does.
    """

    pronunciations: Mapping[int, Sequence[Sequence[int]]]
    silence: int
    model: TransitionModel

    def check(self, utt: str, lattice: CompactLattice) -> None:
        """InputError for a lattice that another model has made."""
        last = max(ids.max(initial=0) for ids in (lattice.tids, lattice.final_tids))
        if last > (known := self.model.num_transition_ids):
            raise InputError(
                f"{utt}: its lattice has transition-id {last}, and the model {known} of them; give"
                " the model that made it"
            )

    def time_arcs(self, lattice: CompactLattice) -> tuple[np.ndarray, np.ndarray]:
        """Return the first frame of each arc's word, and the first after it, int64 [A].

        lattice: weighed. Where the phones of a path can be shared among its words in several ways,
        one is taken. An arc without a word has its own times, and so has one whose best path has,
        between a pause and its word, other phones than those of its words, such as a word that was
        broken off.
        """
        source = np.repeat(np.arange(lattice.num_states), np.diff(lattice.offsets))
        lengths = np.diff(lattice.tid_offsets)
        times = find_times(source, lattice.nextstate, lengths, lattice.num_states)
        phones = self._list_phones(lattice.tids, lattice.tid_offsets, times[source])
        ends = times + np.diff(lattice.final_tid_offsets)
        last = self._list_phones(lattice.final_tids, lattice.final_tid_offsets, times)
        closing = [(*rest, (END, end)) for rest, end in zip(last, ends.tolist(), strict=True)]
        into, onward = find_best_arcs(lattice, source)
        sources, targets = source.tolist(), lattice.nextstate.tolist()
        read = partial(self._read, lattice.word.tolist())

        # What is behind the last whole word of the best path to each state.
        reached = [[NOTHING]]
        for arc in into[1:]:
            reached.append(read(reached[sources[arc]], (arc,), phones[arc]) if arc >= 0 else [])
        spans = np.stack([times[source], times[lattice.nextstate]], 1)
        for wanted in np.flatnonzero(lattice.word).tolist():
            readings = read(reached[sources[wanted]], (wanted,), phones[wanted], wanted)
            state = targets[wanted]
            # Of two pronunciations, the one with the other, what follows the word tells.
            while len(differing := {reading.span for reading in readings}) > 1 or None in differing:
                if (arc := onward[state]) < 0:
                    readings = read(readings, (), closing[state], wanted)
                    readings = [reading for reading in readings if self._is_whole(reading)]
                    break
                readings = read(readings, (arc,), phones[arc], wanted)
                state = targets[arc]
            if readings:
                spans[wanted] = readings[0].span
        return spans[:, 0], spans[:, 1]

    def _is_whole(self, reading: Reading) -> bool:
        """Whether nothing is left of a path that has ended, but a pause."""
        left = [phone for phone, _ in reading.phones]
        return not reading.arcs and left in ([END], [self.silence, END])

    def _list_phones(
        self, tids: np.ndarray, offsets: np.ndarray, times: np.ndarray
    ) -> list[Phones]:
        """The phones that begin in each row of transition-ids, which begins at its time."""
        model = self.model
        begins = np.flatnonzero((model.hmm_state[tids] == 0) & ~model.self_loop[tids])
        rows = np.searchsorted(offsets, begins, side="right") - 1
        frames = times[rows] + begins - offsets[rows]
        phones = [*zip(model.phone[tids[begins]].tolist(), frames.tolist(), strict=True)]
        bounds = row_offsets(np.bincount(rows, minlength=len(times)).tolist()).tolist()
        return [tuple(phones[begin:end]) for begin, end in pairwise(bounds)]

    def _read(
        self,
        words: Sequence[int],
        readings: Sequence[Reading],
        arcs: tuple[int, ...],
        phones: Phones,
        wanted: int | None = None,
    ) -> list[Reading]:
        """The readings of a path with arcs and phones behind it; words: of all arcs."""
        arcs = tuple(arc for arc in arcs if words[arc])
        settled = (
            reading
            for before in readings
            for reading in self._settle(
                words, Reading(before.arcs + arcs, before.phones + phones, before.span), wanted
            )
        )
        # Ways to read what is over, of which there may be very many, leave the same.
        left = [*dict.fromkeys(settled)]
        if left or not (wanted is None or wanted in arcs):
            return left
        return self._begin_anew(words, arcs, phones, wanted)

    def _begin_anew(
        self, words: Sequence[int], arcs: tuple[int, ...], phones: Phones, wanted: int | None
    ) -> list[Reading]:
        """The readings of an arc from its last pause on, where nothing explains what was before,
        such as a word without pronunciation: behind a pause the word of the arc begins.
        """
        pauses = [i for i, (phone, _) in enumerate(phones) if phone == self.silence]
        if not pauses:
            return []
        return [*self._settle(words, Reading(arcs, phones[pauses[-1] :], None), wanted)]

    def _settle(
        self, words: Sequence[int], reading: Reading, wanted: int | None
    ) -> Iterator[Reading]:
        """Yield the readings of what has been heard without the words that have ended."""
        if not reading.arcs:
            yield reading
            return
        arc, *later = reading.arcs
        pronunciations = self.pronunciations.get(words[arc], ())
        waits = reading.span is not None and not pronunciations  # what is looked for is known
        pause = bool(reading.phones) and reading.phones[0][0] == self.silence
        for first in (0, 1) if pause else (0,):
            heard = [phone for phone, _ in reading.phones[first:]]
            for phones in pronunciations:
                count = len(phones)
                if len(heard) <= count:  # where the word ends, the next phone tells
                    waits |= heard == [*phones[: len(heard)]]
                elif heard[:count] == [*phones]:
                    rest = reading.phones[first + count :]
                    span = (reading.phones[first][1], rest[0][1]) if arc == wanted else reading.span
                    yield from self._settle(words, Reading(tuple(later), rest, span), wanted)
        if waits:
            yield reading


def find_best_arcs(lattice: CompactLattice, source: np.ndarray) -> tuple[list[int], list[int]]:
    """The arc by which the best path enters each state, and that by which it goes on; -1 for none,
    where it begins, or ends.
    """
    costs = (lattice.graph.astype(np.float64) + lattice.acoustic).tolist()
    arcs = [*enumerate(zip(source.tolist(), lattice.nextstate.tolist(), costs, strict=True))]
    into, onward = ([-1] * lattice.num_states for _ in range(2))
    reached = [0.0] + [np.inf] * (lattice.num_states - 1)
    for arc, (state, target, cost) in arcs:
        if reached[state] + cost < reached[target]:
            into[target], reached[target] = arc, reached[state] + cost
    left = (lattice.final_graph.astype(np.float64) + lattice.final_acoustic).tolist()
    for arc, (state, target, cost) in reversed(arcs):
        if cost + left[target] < left[state]:
            onward[state], left[state] = arc, cost + left[target]
    return into, onward

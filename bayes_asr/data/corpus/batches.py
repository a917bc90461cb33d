"""Batches of utterances that are trained together, and their frames, read ahead."""

import hashlib
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import TypeVar, overload

import numpy as np

from bayes_asr.kaldi_io.sorted_table import SortedTable

Loaded = TypeVar("Loaded")


class Batches(Sequence[list[str]]):
    """Batches of utterances, whose names are made out when a batch is asked for.

    names: str or UTF-8 [N]; order: places of names [N], one batch after the other; begins: where
    each batch begins and, at last, where all end; selected: which batches, in their order.
    """

    def __init__(
        self,
        names: Sequence[str] | np.ndarray,
        order: np.ndarray,
        begins: Sequence[int],
        selected: np.ndarray,
    ) -> None:
        self._names, self._order, self._begins, self._selected = names, order, begins, selected

    def __len__(self) -> int:
        return len(self._selected)

    @overload
    def __getitem__(self, which: int) -> list[str]: ...
    @overload
    def __getitem__(self, which: slice) -> "Batches": ...
    def __getitem__(self, which: int | slice) -> "list[str] | Batches":
        if isinstance(which, slice):
            return Batches(self._names, self._order, self._begins, self._selected[which])
        batch = self._selected[which]
        # A batch b has the places order[begins[b]:begins[b + 1]].
        names = (self._names[p] for p in self._order[self._begins[batch] : self._begins[batch + 1]])
        return [name.decode() if isinstance(name, bytes) else name for name in names]


def batches_of(
    lengths: Mapping[str, int], *, sequences: int, frames: int, seed: int, epoch: int
) -> Sequence[list[str]]:
    """Group utterances of similar length into batches, by (seed, epoch) and nothing else.

    sequences, frames: most utterances and most frames of a batch; an utterance longer than `frames`
    is a batch of its own. No utterance is left out, and a batch may be small.
    """
    rng = np.random.default_rng((seed, epoch))
    names, frames_of = _columns(lengths)
    # A tenth of noise on the length keeps batches from being the same in every epoch.
    order = np.argsort(frames_of * rng.uniform(0.9, 1.1, len(names)), kind="stable")
    begins = _begins(frames_of[order], sequences, frames)
    # Batches are shuffled as a whole: their utterances stay together, which saves padding.
    selected = np.arange(len(begins) - 1)
    rng.shuffle(selected)
    return Batches(names, order, begins, selected)


def in_order(lengths: Mapping[str, int], *, sequences: int, frames: int) -> Sequence[list[str]]:
    """Group utterances by length for evaluation, longest first: a batch too large fails at once."""
    names, frames_of = _columns(lengths)
    order = np.argsort(-frames_of, kind="stable")
    begins = _begins(frames_of[order], sequences, frames)
    return Batches(names, order, begins, np.arange(len(begins) - 1))


def _columns(lengths: Mapping[str, int]) -> tuple[Sequence[str] | np.ndarray, np.ndarray]:
    """The names in order, and the length of each, int64 [N]."""
    if isinstance(lengths, SortedTable):
        return lengths.names, lengths.column
    names = sorted(lengths)
    return names, np.array([lengths[name] for name in names], np.int64)


def _begins(lengths: np.ndarray, sequences: int, frames: int) -> list[int]:
    """The begins of batches of utterances of these lengths, and the end of the last one."""
    # A Python list is searched by bisect faster than an array of NumPy.
    total = [0, *np.cumsum(lengths).tolist()]  # frames of the first 0, 1, 2, ... utterances
    begins = [0]
    while (begin := begins[-1]) < len(lengths):
        # The largest end whose frames fit, but at least one utterance (begin + 1).
        last = min(begin + sequences, len(lengths))
        begins.append(bisect_right(total, total[begin] + frames, begin + 2, last + 1) - 1)
    return begins


def utterance_key(seed: int, epoch: int, utt: str) -> int:
    """A signed 64-bit integer for an utterance in an epoch: what makes its dropout and noise."""
    digest = hashlib.blake2b(f"{seed} {epoch} {utt}".encode(), digest_size=8).digest()
    # The integer is signed because a tensor of int64 has to hold it.
    return int.from_bytes(digest, "little", signed=True)


def read_ahead(
    batches: Sequence[list[str]], load: Callable[[list[str]], Loaded], ahead: int = 2
) -> Iterator[Loaded]:
    """Yield `load(batch)` of each batch in order, reading up to `ahead` of them in another thread.

    An error in `load` is raised here, at the batch that caused it.
    """
    with ThreadPoolExecutor(max_workers=1) as pool:
        # One worker keeps the order of reading, and no lock is needed in `load`.
        pending = [pool.submit(load, batch) for batch in batches[:ahead]]
        for batch in batches[ahead:]:
            pending.append(pool.submit(load, batch))
            yield pending.pop(0).result()
        for future in pending:
            yield future.result()


def cut_pieces(lengths: Mapping[str, int], most: int) -> dict[str, int]:
    """The frames of utterances, of which those longer than `most` are cut into pieces.

    As few pieces as there must be, of equal length but for one frame: together they are the
    utterance. So an epoch has every frame once, and pdfs are as frequent as without.
    """
    pieces = {}
    for utt, frames in lengths.items():
        # Division rounded up: the fewest pieces of at most `most` frames.
        count = -(-frames // most)
        if count == 1:
            pieces[utt] = frames
            continue
        # Bounds rounded down at multiples of frames / count differ by one frame at most.
        for begin, end in pairwise(frames * number // count for number in range(count + 1)):
            pieces[f"{utt} {begin} {end}"] = end - begin
    return pieces


def find_piece(name: str) -> tuple[str, slice]:
    """The utterance of a piece, or of its own name, and which of its frames it has."""
    # No name of Kaldi has a space in it, so a name with spaces is one of a piece.
    utt, *ends = name.split(" ")
    return utt, slice(*map(int, ends)) if ends else slice(None)

"""Which utterances are trained together, and their frames, read ahead."""

import hashlib
import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np

Loaded = TypeVar("Loaded")


def batches_of(
    lengths: Mapping[str, int], *, sequences: int, frames: int, seed: int, epoch: int
) -> list[list[str]]:
    """Group utterances of similar length into batches, by (seed, epoch) and nothing else.

    sequences, frames: most utterances and most frames of a batch; an utterance longer than `frames`
    is a batch of its own. No utterance is left out, and a batch may be small.
    """
    rng = np.random.default_rng((seed, epoch))
    utterances = sorted(lengths)
    frames_of = np.array([lengths[utt] for utt in utterances])
    # A tenth of noise on the length keeps batches from being the same in every epoch.
    noise = rng.uniform(0.9, 1.1, len(utterances))
    order = np.argsort(frames_of * noise, kind="stable")
    batches = _grouped(utterances, frames_of, order, sequences, frames)
    rng.shuffle(batches)
    return batches


def in_order(lengths: Mapping[str, int], *, sequences: int, frames: int) -> list[list[str]]:
    """Group utterances by length for evaluation, longest first: a batch too large fails at once."""
    utterances = sorted(lengths)
    frames_of = np.array([lengths[utt] for utt in utterances])
    order = np.argsort(-frames_of, kind="stable")
    return _grouped(utterances, frames_of, order, sequences, frames)


def _grouped(
    utterances: Sequence[str], lengths: np.ndarray, order: np.ndarray, sequences: int, frames: int
) -> list[list[str]]:
    """Cut the utterances, in this order, into batches; lengths: of each utterance."""
    batches: list[list[str]] = []
    room = 0  # frames that the last batch may still take
    for place, length in zip(order.tolist(), lengths[order].tolist(), strict=True):
        if not batches or length > room or len(batches[-1]) == sequences:
            batches.append([])
            room = frames
        batches[-1].append(utterances[place])
        room -= length
    return batches


def dealt(batch: Sequence[str], lengths: Mapping[str, int], processes: int) -> list[list[str]]:
    """Deal the utterances of a batch to processes, so that all have about as many frames.

    The longest come first, each to the process that has the fewest frames; some may get none.
    """
    hands: list[list[str]] = [[] for _ in range(processes)]
    loads = [(0, number) for number in range(processes)]
    for utt in sorted(batch, key=lambda utt: (-lengths[utt], utt)):
        frames, number = loads[0]
        hands[number].append(utt)
        heapq.heapreplace(loads, (frames + lengths[utt], number))
    return hands


def key_of(seed: int, epoch: int, utt: str) -> int:
    """A signed 64-bit integer for an utterance in an epoch: what makes its dropout and noise."""
    digest = hashlib.blake2b(f"{seed} {epoch} {utt}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


def read_ahead(
    batches: Sequence[list[str]], load: Callable[[list[str]], Loaded], ahead: int = 2
) -> Iterator[Loaded]:
    """Yield `load(batch)` of each batch in order, reading up to `ahead` of them in another thread.

    An error in `load` is raised here, at the batch that caused it.
    """
    with ThreadPoolExecutor(max_workers=1) as pool:
        pending = [pool.submit(load, batch) for batch in batches[:ahead]]
        for batch in batches[ahead:]:
            pending.append(pool.submit(load, batch))
            yield pending.pop(0).result()
        for future in pending:
            yield future.result()

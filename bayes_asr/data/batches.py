"""Which utterances are trained together, and their frames, read ahead."""

import hashlib
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
    # A tenth of noise on the length keeps batches from being the same in every epoch.
    noise = dict(zip(utterances, rng.uniform(0.9, 1.1, len(utterances)), strict=True))
    utterances.sort(key=lambda utt: lengths[utt] * noise[utt])
    batches = list(_grouped(utterances, lengths, sequences, frames))
    rng.shuffle(batches)
    return batches


def in_order(lengths: Mapping[str, int], *, sequences: int, frames: int) -> list[list[str]]:
    """Group utterances by length for evaluation, longest first: a batch too large fails at once."""
    utterances = sorted(lengths, key=lambda utt: (-lengths[utt], utt))
    return list(_grouped(utterances, lengths, sequences, frames))


def _grouped(
    utterances: Sequence[str], lengths: Mapping[str, int], sequences: int, frames: int
) -> Iterator[list[str]]:
    batch: list[str] = []
    for utt in utterances:
        if batch and (
            len(batch) == sequences or sum(lengths[u] for u in batch) + lengths[utt] > frames
        ):
            yield batch
            batch = []
        batch.append(utt)
    if batch:
        yield batch


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

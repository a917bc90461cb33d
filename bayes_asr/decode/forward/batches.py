"""Utterances that are computed together."""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor

from bayes_asr.base.errors import count_of, needing_memory
from bayes_asr.nn.frames import CPU

BATCH_SEQUENCES = 64
WINDOW = 256  # utterances that are put into batches by their lengths
WINDOW_BATCHES = 8  # and the frames of so many batches, as all outputs of a window are held
MORE_MEMORY = "close other programs, raise the limit on memory (ulimit -v)"
MORE_MEMORY_THAN_A_GPU = "close other programs on the GPU, compute on the CPU (--device cpu)"
Utterance = tuple[str, np.ndarray]
"""A name, and prepared features [T, F'] or outputs [T, P]."""

Item = TypeVar("Item", np.ndarray, range)  # has as many elements as the utterance frames
Key = TypeVar("Key", str, int)


class BatchNetwork(Protocol):
    """A network that computes several utterances at once."""

    def compute_prepared(self, matrices: Sequence[np.ndarray], /) -> Sequence[Tensor]:
        """The outputs [T, P] of prepared features [T, F'] of each."""


def in_batches(
    network: BatchNetwork, utterances: Iterable[Utterance], frames: int
) -> Iterator[Utterance]:
    """Yield log-likelihoods [T, P] of prepared utterances [T, F'], many computed together.

    Up to BATCH_SEQUENCES utterances and so many frames, or one that is longer.
    """
    for group in group_utterances(utterances, frames):
        with needing_memory(partial(describe_batch, group)):
            computed = network.compute_prepared([matrix for _, matrix in group])
        for (utt, _), loglikes in zip(group, computed, strict=True):
            yield utt, loglikes.numpy()


def in_windows(
    network: BatchNetwork, utterances: Iterable[Utterance], frames: int
) -> Iterator[Utterance]:
    """As `in_batches`, on a GPU: up to WINDOW utterances are put into batches by their lengths.

    A recurrence takes as many steps as the longest utterance of its batch, and a GPU as long for
    one utterance as for many. A thread computes while the outputs of the window before are read.
    """
    with ThreadPoolExecutor(max_workers=1) as pool:
        computing = None
        for window in group_utterances(utterances, WINDOW_BATCHES * frames, WINDOW):
            following = pool.submit(_compute_window, network, window, frames)
            if computing:
                yield from computing.result()
            computing = following
        if computing:
            yield from computing.result()


def _compute_window(
    network: BatchNetwork, window: Sequence[Utterance], frames: int
) -> list[Utterance]:
    """The outputs of utterances, in their order."""
    by_length = sorted(enumerate(window), key=lambda item: -len(item[1][1]))
    outputs: dict[int, Tensor] = {}
    matrices = ((i, matrix) for i, (_, matrix) in by_length)
    for group in group_utterances(matrices, frames):
        batch = [window[i] for i, _ in group]
        with needing_memory(partial(describe_batch, batch, MORE_MEMORY_THAN_A_GPU)):
            computed = network.compute_prepared([matrix for _, matrix in batch])
            # Copies of a batch go on while the operations of the next one are launched.
            copies = list(map(_start_copy, computed))
        outputs |= {i: copy for (i, _), copy in zip(group, copies, strict=True)}
    _wait_for(computed[0].device)
    return [(utt, outputs[i].numpy()) for i, (utt, _) in enumerate(window)]


def _start_copy(x: Tensor) -> Tensor:
    """A copy in pinned memory, complete when the GPU has done what it was given; on a CPU, x."""
    if x.device == CPU:
        return x
    return torch.empty(x.shape, dtype=x.dtype, pin_memory=True).copy_(x, non_blocking=True)


def _wait_for(device: torch.device) -> None:
    """Wait for what this thread has given to a GPU so far; nothing on a CPU."""
    if device.type == "cuda":
        event = torch.cuda.Event()
        event.record(torch.cuda.current_stream(device))  # threads begin with another device
        event.synchronize()


def describe_batch(group: Sequence[Utterance], remedies: str = MORE_MEMORY) -> str:
    """Utterances that lack memory together, and what to do; remedies: beside cutting."""
    longest, matrix = max(group, key=lambda item: len(item[1]))
    number, frames = count_of(len(group), "utterance"), sum(len(x) for _, x in group)
    return (
        f"for {number} of {frames} frames, {longest} with {len(matrix)};"
        f" {remedies}, or cut long recordings into segments"
    )


def group_utterances(
    utterances: Iterable[tuple[Key, Item]], frames: int, sequences: int | None = None
) -> Iterator[list[tuple[Key, Item]]]:
    """Yield the utterances of each batch: up to so many, by default BATCH_SEQUENCES, and frames."""
    most = BATCH_SEQUENCES if sequences is None else sequences
    group: list[tuple[Key, Item]] = []
    total = 0
    for item in utterances:
        # Full, or too long with this one; a longer utterance than `frames` is a batch of its own.
        if group and (len(group) == most or total + len(item[1]) > frames):
            yield group
            group, total = [], 0
        group.append(item)
        total += len(item[1])
    if group:
        yield group

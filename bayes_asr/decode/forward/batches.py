"""Utterances that are computed together, or a few frames at a time."""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from typing import TypeVar, cast

import numpy as np
import torch

from bayes_asr.base.errors import needing_memory
from bayes_asr.decode.forward.average import UtteranceOutput
from bayes_asr.decode.forward.log_likelihoods import LogLikelihoods
from bayes_asr.decode.forward.onnx_network import OnnxNetwork
from bayes_asr.nn.layer import Layer
from bayes_asr.nn.network import States
from bayes_asr.nn.transfer import start_copy, wait_for

BATCH_SEQUENCES, BATCH_FRAMES = 64, 10_000
BATCH_NUMBERS = 2**26  # that a layer hands on of all frames of a batch
WINDOW = 256  # utterances that are put into batches by their lengths
Item = TypeVar("Item", np.ndarray, range)  # has as many elements as the utterance frames
Key = TypeVar("Key", str, int)

Network = LogLikelihoods | OnnxNetwork


def choose_batch_frames(networks: Iterable[Network]) -> int:
    """The frames that are computed together: fewer where a layer has many outputs."""
    # Memory is that of the widest layer: its outputs of all frames of a batch are held at once.
    widest = max(
        (
            cast(Layer, layer).outputs
            for network in networks
            if isinstance(network, LogLikelihoods)
            for layer in network.model.layers
        ),
        default=1,
    )
    return max(1, min(BATCH_FRAMES, BATCH_NUMBERS // widest))


def in_chunks(
    network: LogLikelihoods, utterances: Iterable[tuple[str, np.ndarray]], chunk: int
) -> Iterator[tuple[str, np.ndarray]]:
    """Yield log-likelihoods [T, P] of prepared utterances [T, F'], `chunk` frames at a time.

    The state goes on from chunk to chunk: the numbers are those of the whole utterance. InputError
    for a network that looks ahead.
    """
    network.check_causal()
    for utt, matrix in utterances:
        loglikes = np.empty((len(matrix), network.size), np.float32)
        # The output is allocated once; input, hidden layers and states are of one chunk.
        states: States = []
        for start in range(0, len(matrix), chunk):
            span = slice(start, start + chunk)
            with needing_memory(partial(_describe, [(utt, matrix[span])])):
                computed, states = network.advance(matrix[span], states)
            loglikes[span] = computed.numpy()
        yield utt, loglikes


def in_batches(
    network: Network, utterances: Iterable[tuple[str, np.ndarray]], frames: int
) -> Iterator[tuple[str, np.ndarray]]:
    """Yield log-likelihoods [T, P] of prepared utterances [T, F'], many computed together.

    Up to BATCH_SEQUENCES utterances and so many frames, or one that is longer.
    """
    for group in group_utterances(utterances, frames):
        with needing_memory(partial(_describe, group)):
            computed = network.compute_prepared([matrix for _, matrix in group])
        for (utt, _), loglikes in zip(group, computed, strict=True):
            yield utt, loglikes.numpy()


def in_windows(
    network: LogLikelihoods, utterances: Iterable[UtteranceOutput], frames: int
) -> Iterator[UtteranceOutput]:
    """As `in_batches`, on a GPU: WINDOW utterances are put into batches by their lengths.

    A recurrence takes as many steps as the longest utterance of its batch, and a GPU as long for
    one utterance as for many. A thread computes while the outputs of the window before are read.
    """
    source = iter(utterances)
    with ThreadPoolExecutor(max_workers=1) as pool:
        computing = None
        while window := list(islice(source, WINDOW)):
            following = pool.submit(_compute_window, network, window, frames)
            if computing:
                yield from computing.result()
            computing = following
        if computing:
            yield from computing.result()


def _compute_window(
    network: LogLikelihoods, window: Sequence[UtteranceOutput], frames: int
) -> list[UtteranceOutput]:
    """The outputs of utterances, in their order."""
    by_length = sorted(enumerate(window), key=lambda item: -len(item[1][1]))
    outputs: dict[int, torch.Tensor] = {}
    for group in group_utterances(((i, matrix) for i, (_, matrix) in by_length), frames):
        named = [window[i] for i, _ in group]
        with needing_memory(partial(_describe, named)):
            computed = network.compute_prepared([matrix for _, matrix in named])
            # Copies of a batch go on while the operations of the next one are launched.
            for (i, _), output in zip(group, computed, strict=True):
                outputs[i] = start_copy(output)
    wait_for(network.device)
    return [(utt, outputs[i].numpy()) for i, (utt, _) in enumerate(window)]


def _describe(group: Sequence[tuple[str, np.ndarray]]) -> str:
    """Utterances that lack memory together, and what to do."""
    longest, matrix = max(group, key=lambda item: len(item[1]))
    return (
        f"for {len(group)} utterances of {sum(len(x) for _, x in group)} frames, {longest} with"
        f" {len(matrix)}; close other programs, raise the limit on memory (ulimit -v), or cut long"
        " recordings into segments"
    )


def group_utterances(
    utterances: Iterable[tuple[Key, Item]], frames: int
) -> Iterator[list[tuple[Key, Item]]]:
    """Yield the utterances of each batch: up to BATCH_SEQUENCES, and so many frames."""
    group: list[tuple[Key, Item]] = []
    total = 0
    for item in utterances:
        # Full, or too long with this one; a longer utterance than `frames` is a batch of its own.
        if group and (len(group) == BATCH_SEQUENCES or total + len(item[1]) > frames):
            yield group
            group, total = [], 0
        group.append(item)
        total += len(item[1])
    if group:
        yield group

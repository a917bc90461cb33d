"""Attention weights of the frames of an utterance in a layer that pools them."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from bayes_asr.base.errors import InputError, nearest
from bayes_asr.data.corpus.streams import StoredStreams
from bayes_asr.decode.forward.log_likelihoods import LogLikelihoods
from bayes_asr.nn.frames import WHOLE
from bayes_asr.nn.pooling import Pool


def find_pools(network: LogLikelihoods) -> dict[str, Pool]:
    """The layers of a network that pool whole utterances by weights, by name."""
    pairs = zip(network.model.names, network.model.layers, strict=True)
    return {
        name: layer
        for name, layer in pairs
        if isinstance(layer, Pool) and layer.attends and layer.stride == WHOLE
    }


def weigh_frames(
    network: LogLikelihoods, features: StoredStreams, name: str
) -> Iterator[tuple[str, np.ndarray]]:
    """Yield utterances and the weights of their frames in the pool `name`, float32 [T, 1].

    They add up to 1. Where the pool reads segments, the frames up to the next share what theirs
    has. InputError where there is no such pool.
    """
    pools, model = find_pools(network), network.model
    if name not in pools:
        names = ", ".join(pools) or "it has none"
        raise InputError(
            f"the network has no layer {name} that pools whole utterances by attention"
            f"{nearest(name, pools)}; those that do: {names}"
        )
    captured: dict[str, Any] = {}

    def capture(_: torch.nn.Module, inputs: tuple[Any, ...]) -> None:
        captured["x"], captured["frames"] = inputs[:2]

    # The pool does not return its weights: a hook takes what it reads, to compute them again.
    stride = model.read_stride(model.names.index(name))
    hook = pools[name].register_forward_pre_hook(capture)
    try:
        for utt in features.utterances:
            matrix = features[utt]
            network.compute_prepared([matrix])
            weights = pools[name].weigh(captured["x"], captured["frames"]).numpy()
            # Strided frames: each has the weight of its step, divided among the frames of the step.
            step = np.minimum(np.arange(len(matrix)) // stride, len(weights) - 1)
            shared = weights[step] / np.bincount(step)[step]
            yield utt, shared[:, None].astype(np.float32)
    finally:
        hook.remove()

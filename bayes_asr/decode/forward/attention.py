"""How much each frame of an utterance weighs in what a network pools of it."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from bayes_asr.base.errors import InputError
from bayes_asr.config.catalogue import nearest
from bayes_asr.data.features.streams import StoredStreams
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
        known = ", ".join(pools) or "it has none"
        raise InputError(
            f"the network has no layer {name} that pools whole utterances by attention"
            f"{nearest(name, pools)}; those that do: {known}"
        )
    read: dict[str, Any] = {}

    def note(_: torch.nn.Module, given: tuple[Any, ...]) -> None:
        read["x"], read["frames"] = given[:2]

    stride = model.read_stride(model.names.index(name))
    hook = pools[name].register_forward_pre_hook(note)
    try:
        for utt in features.utterances:
            matrix = features[utt]
            network.of_prepared([matrix])
            weights = pools[name].weigh(read["x"], read["frames"]).numpy()
            step = np.minimum(np.arange(len(matrix)) // stride, len(weights) - 1)
            shared = weights[step] / np.bincount(step)[step]
            yield utt, shared[:, None].astype(np.float32)
    finally:
        hook.remove()

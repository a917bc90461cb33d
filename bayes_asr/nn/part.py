"""The part of a network that gives one of its heads, or one of its layers."""

from collections.abc import Sequence

import torch
from torch import nn

from bayes_asr.base.errors import InputError
from bayes_asr.config.catalogue import nearest
from bayes_asr.nn.network import AcousticModel


def take_head(model: AcousticModel, name: str) -> AcousticModel:
    """The network of one head and of what it needs; InputError for an unknown name.

    It shares the weights, as that of `take_layer`.
    """
    _check_known("head", name, model.outputs)
    model.check_frames_labelled()
    return _take(model, model.head_layers[model.outputs.index(name)], [name])


def take_layer(model: AcousticModel, name: str) -> AcousticModel:
    """A layer and what it needs, without heads: `hidden` gives what that layer does.

    InputError for an unknown name.
    """
    _check_known("layer", name, model.names)
    return _take(model, name, [])


def _check_known(what: str, name: str, known: Sequence[str]) -> None:
    if name not in known:
        raise InputError(
            f"the network has no {what} {name}{nearest(name, known)}; known: {', '.join(known)}"
        )


def _take(model: AcousticModel, last: str, heads: Sequence[str]) -> AcousticModel:
    """A layer, the heads on it, and what they need; it is the last one of the part.

    The first stream stays, read or not: it says how many frames there are.
    """
    whole = model.architecture
    needed = {last, next(iter(whole["streams"]))}
    for name, reads in zip(reversed(model.names), reversed(model.reads), strict=True):
        needed |= {*reads} if name in needed else set()
    taken = [number for number, name in enumerate(model.names) if name in needed]
    with torch.device("meta"):
        part = AcousticModel(
            {name: size for name, size in whole["streams"].items() if name in needed},
            [whole["layers"][number] for number in taken],
            {name: whole["heads"][name] for name in heads},
            of_utterances=[name for name in heads if name in model.of_utterances],
            output_stride=model.output_stride if heads else 1,
        )
    part.layers = nn.ModuleList(model.layers[number] for number in taken)
    part.heads = nn.ModuleList(model.heads[model.outputs.index(name)] for name in heads)
    return part

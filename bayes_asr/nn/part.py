"""The part of a network that gives one of its heads, or one of its layers."""

from collections.abc import Sequence

import torch
from torch import nn

from bayes_asr.catalogue import nearest
from bayes_asr.errors import InputError
from bayes_asr.nn.network import AcousticModel


def take_head(model: AcousticModel, name: str) -> AcousticModel:
    """The network of one head alone, which shares the weights; InputError for an unknown name."""
    _check_known("head", name, model.outputs)
    read = model.architecture.get("head_reads", {}).get(name, model.names[-1])
    return _take(model, read, [name])


def take_layer(model: AcousticModel, name: str) -> AcousticModel:
    """The layers up to one of them, without heads: `hidden` gives what that layer does.

    It shares the weights. InputError for an unknown name.
    """
    _check_known("layer", name, model.names)
    return _take(model, name, [])


def _check_known(what: str, name: str, known: Sequence[str]) -> None:
    if name not in known:
        raise InputError(
            f"the network has no {what} {name}{nearest(name, known)}; known: {', '.join(known)}"
        )


def _take(model: AcousticModel, last: str, heads: Sequence[str]) -> AcousticModel:
    whole = model.architecture
    needed = {last}
    for name, reads in zip(reversed(model.names), reversed(model.reads), strict=True):
        needed |= {*reads} if name in needed else set()
    taken = [number for number, name in enumerate(model.names) if name in needed]
    with torch.device("meta"):
        part = AcousticModel(
            {name: size for name, size in whole["streams"].items() if name in needed},
            [whole["layers"][number] for number in taken],
            {name: whole["heads"][name] for name in heads},
        )
    part.layers = nn.ModuleList(model.layers[number] for number in taken)
    part.heads = nn.ModuleList(model.heads[model.outputs.index(name)] for name in heads)
    return part

"""The part of a network that gives one of its heads, or one of its layers."""

from collections.abc import Sequence

import torch
from torch import nn

from bayes_asr.base.errors import InputError, nearest
from bayes_asr.nn.network import AcousticModel


def extract_head(model: AcousticModel, name: str) -> AcousticModel:
    """The network of one head and of the layers below it; InputError for an unknown name.

    It shares the weights, as the one of `extract_layer`.
    """
    _check_known("head", name, model.outputs)
    model.check_frames_labelled()
    return _extract(model, model.head_layers[model.outputs.index(name)], [name])


def extract_layer(model: AcousticModel, name: str) -> AcousticModel:
    """A layer and the layers below it, without heads: `hidden` returns the outputs of that layer.

    InputError for an unknown name.
    """
    _check_known("layer", name, model.names)
    return _extract(model, name, [])


def _check_known(kind: str, name: str, names: Sequence[str]) -> None:
    if name not in names:
        raise InputError(
            f"the network has no {kind} {name}{nearest(name, names)}; known: {', '.join(names)}"
        )


def _extract(model: AcousticModel, last: str, heads: Sequence[str]) -> AcousticModel:
    """A layer, the heads on it, and the layers below; it is the last one of the part.

    The first stream stays, read or not: it says how many frames there are.
    """
    architecture = model.architecture
    needed = {last, next(iter(architecture["streams"]))}
    # Layers read only layers before them: from the last to the first, one pass finds all.
    for node in reversed(model.nodes):
        needed |= {*node.reads} if node.name in needed else set()
    numbers = [number for number, name in enumerate(model.names) if name in needed]
    # Weights are not allocated on the meta device; the modules of the model take their place.
    with torch.device("meta"):
        part = AcousticModel(
            {name: size for name, size in architecture["streams"].items() if name in needed},
            [architecture["layers"][number] for number in numbers],
            {name: architecture["heads"][name] for name in heads},
            of_utterances=[name for name in heads if name in model.of_utterances],
            output_stride=model.output_stride if heads else 1,
            of_numbers=[name for name in heads if name in model.of_numbers],
        )
    part.layers = nn.ModuleList(model.layers[number] for number in numbers)
    part.heads = nn.ModuleList(model.heads[model.outputs.index(name)] for name in heads)
    return part

"""Layers of a network from the entries of `model.stack`."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bayes_asr.base.errors import InputError, nearest
from bayes_asr.config.catalogue import UNIT_OPTIONS
from bayes_asr.config.model_keys import ModelConfig
from bayes_asr.config.stack import StackLayer

MAPS = ("conv2d", "sinc")
"""Kinds of layers whose outputs are maps of each frame."""


def describe_stack(config: ModelConfig, streams: Sequence[str]) -> list[dict[str, Any]]:
    """The layers of a stack, as `AcousticModel` takes them.

    InputError for one that has the name of a stream, or reads what is not there before it.
    """
    layers: list[dict[str, Any]] = []
    stack = config.read_stack()
    for layer in stack:
        if layer.name in streams:
            raise InputError(
                f"model.stack has a layer {layer.name}, but a stream has that name; give the layer"
                " another one"
            )
        preceding = [described["name"] for described in layers]
        # By default a layer reads the one before it, and the first one reads all streams.
        reads = list(layer.place.reads) or preceding[-1:] or list(streams)
        _check_reads(layer, reads, [*streams, *preceding], [later.name for later in stack])
        single = next((candidate for candidate in layers if [candidate["name"]] == reads), None)
        options = _complete(gather_options(layer.kind, layer.options), single)
        place = {
            **({"join": "sum"} if layer.place.join == "sum" else {}),
            **({"residual": True} if layer.place.residual else {}),
        }
        layers.append({"name": layer.name, "kind": layer.kind, "reads": reads, **place, **options})
    return layers


def check_heads(
    config: ModelConfig, layers: Sequence[Mapping[str, Any]], targets: Iterable[str]
) -> None:
    """InputError for a head without target, a layer with the name of a head, and a layer whose
    outputs are not read.
    """
    targets = list(targets)
    for target in config.heads:
        if target not in targets:
            raise InputError(
                f"model.heads has {target}, which this network does not learn; it learns"
                f" {', '.join(targets)}{nearest(target, targets)}"
            )
    for layer in layers:
        if layer["name"] in targets:
            raise InputError(
                f"model.stack has a layer {layer['name']}, but a head has that name; give the layer"
                " another one"
            )
    # A head reads the last layer, unless `model.heads` names another one.
    last = layers[-1]["name"]
    sources = {name for layer in layers for name in layer["reads"]}
    sources |= {config.heads.get(target, last) for target in targets}
    unread = [layer["name"] for layer in layers if layer["name"] not in sources]
    if unread:
        raise InputError(
            f"model.stack has layer {unread[0]}, whose outputs no layer and no head reads; name it"
            " where it is to be read, or take it out"
        )


def _check_reads(
    layer: StackLayer, reads: Sequence[str], readable: Sequence[str], all_layers: Sequence[str]
) -> None:
    """InputError where a layer reads itself, a later layer, or an unknown name."""
    for name in reads:
        if name == layer.name:
            raise InputError(f"model.stack layer {name} reads itself; it reads what is before it")
        if name in readable:
            continue
        if name in all_layers:
            raise InputError(
                f"model.stack layer {layer.name} reads {name}, which comes later; put {name} before"
                f" {layer.name}"
            )
        raise InputError(
            f"model.stack layer {layer.name} reads {name}, which is no stream and no layer before"
            f" it; it can read {', '.join(readable)}{nearest(name, readable)}"
        )


def gather_options(kind: str, described: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a layer as plain values; those of its unit that are not empty are one."""
    options = {k: list(v) if isinstance(v, tuple) else v for k, v in described.items()}
    if kind == "recurrent":
        of_unit = {name: value for name in UNIT_OPTIONS if (value := options.pop(name))}
        options["options"] = of_unit
    return options


def _complete(options: dict[str, Any], single: Mapping[str, Any] | None) -> dict[str, Any]:
    """Fill in the number of maps and of directions that a layer reads, where it does not say them.

    The default is that of the layer that it reads, if it reads one alone.
    """
    if "input_channels" in options and not options["input_channels"]:
        maps = single is not None and single["kind"] in MAPS
        return {**options, "input_channels": single["channels"] if single and maps else 1}
    if "directions" in options and not options["directions"]:
        return {**options, "directions": _count_directions(single) if single else 1}
    return options


def _count_directions(layer: Mapping[str, Any]) -> int:
    """Number of directions in which a layer reads time."""
    unrolled = layer["kind"] == "recurrent" and layer["unit"] != "mlp"
    return 2 if unrolled and layer["bidirectional"] else 1

"""Schema of checkpoints: their entries, with types, sizes and ranges.

It is checked before anything is made of a file, which may have been changed by hand, or made to do
harm. Options of layers and front ends have the ranges that the configuration gives them.
"""

import typing
from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Any

import torch
from torch import Tensor

from bayes_asr.config.catalogue import LAYERS, find
from bayes_asr.config.inputs import StreamConfig
from bayes_asr.config.model_keys import DecoderConfig, KindsConfig, ModelConfig
from bayes_asr.config.values import Within, convert, describe, hints
from bayes_asr.kaldi_io.binary import split_words
from bayes_asr.nn.layer import LAYER_KEYS

LARGEST = 2**53  # whole numbers up to it are floats as well
Total = Annotated[int, Within(0, LARGEST)]
Amount = Annotated[float, Within(-1e300, 1e300)]
Labels = Mapping[str, Annotated[int, Within(1, LARGEST)]]
Sound = Mapping[str, str | bool | int | Amount] | None
SKIPPED = {"batch": Total, "why": str, "utterances": tuple[str, ...]}
TOTALS = {
    **dict.fromkeys(("frames", "labels", "errors", "batches"), Total),
    **dict.fromkeys(("loss", "gradient_norm", "seconds"), Amount),
    "skipped": tuple[Mapping[str, Any], ...],
}
TRAINING = {
    "rate": Amount,
    "returns": Total,
    "totals": Mapping[str, Any],
    "entry": Mapping[str, Any] | None,
    "batches": Total,
    "lattices": str,
    "optimizer": Mapping[str, Any],
    "config": str,
    "versions": Mapping[str, Any],
    "inputs": Mapping[str, str],
    "begun_from": Mapping[str, str],
}
"""Plain values that a training goes on from."""
SINCE_0_2 = ("returns", "totals", "batches", "lattices", "random", "versions", "begun_from")
"""Entries that runs begun in version 0.1 may lack."""
FLOATS = (torch.float32, torch.float64)


def check_network(content: Mapping[str, Any]) -> None:
    """ValueError, which names the entry, unless `content` is that of a trained network."""
    _check(content, {"architecture": Mapping[str, Any], "front_ends": Mapping[str, Any]})
    model = _lay_out(content["architecture"])
    _check_tensors("model", content.get("model"), model.state_dict())
    _check_front_ends(content["front_ends"], content["architecture"]["streams"])
    priors = {
        name: torch.empty(head.out_features, device="meta")
        for name, head in zip(model.outputs, model.heads, strict=True)
    }
    _check_tensor("log_priors", content.get("log_priors"), priors[model.outputs[0]])
    # Runs of version 0.1 and of lattice-free MMI have no priors of other heads.
    others = _take_mapping(content, "other_log_priors")
    _check_tensors("other_log_priors", others, {k: priors[k] for k in others if k in priors})
    for speaker, values in _take_mapping(content, "speakers").items():
        _check_tensors(f"speakers: {speaker}", values, model.activation_parameters)
    _check({"classes": content.get("classes", [])}, {"classes": tuple[str, ...]})
    _check_classes(content.get("classes", []), len(content["log_priors"]), content["architecture"])


def check_training(content: Mapping[str, Any]) -> None:
    """ValueError, which names the entry, unless a training can go on from `content`."""
    _check(content, TRAINING, SINCE_0_2)
    totals = content.get("totals", {})
    _check(totals, TOTALS, TOTALS, "totals: ")
    for batch in totals.get("skipped", ()):
        _check(batch, SKIPPED, prefix="totals: skipped: ")
    dev_errors, random = content.get("dev_errors"), torch.get_rng_state()
    epochs = dev_errors.numel() if isinstance(dev_errors, Tensor) else 0
    _check_tensor("dev_errors", dev_errors, torch.empty(epochs, device="meta"))
    if epochs and content["entry"] is None:
        raise ValueError(f"entry is missing, of epoch {epochs}")
    _check_tensor("random", content.get("random", random), random)


def _check_classes(classes: Sequence[str], outputs: int, architecture: Mapping[str, Any]) -> None:
    """ValueError unless these are words, one for each output, or none that a decoder wants."""
    for name in classes:
        if split_words(name) != [name] or any("\ud800" <= c <= "\udfff" for c in name):
            raise ValueError(f"classes: {_show(name)} is no word")
    if len(classes) != outputs and (classes or "decoder" in architecture):
        raise ValueError(f"classes: {len(classes)} for {outputs} outputs")


def _lay_out(architecture: Mapping[str, Any]) -> Any:
    """The network of an architecture without memory for its weights."""
    _check(architecture, {"streams": Labels, "heads": Labels}, prefix="architecture: ")
    for layer in architecture.get("layers", ()):
        _check_layer(layer)
    if "decoder" in architecture:
        decoder = {"decoder": architecture["decoder"]}
        _check(decoder, {"decoder": Mapping[str, Any]}, prefix="architecture: ")
        _check(architecture["decoder"], hints(DecoderConfig), prefix="architecture: decoder: ")
    try:
        with torch.device("meta"):
            return find("nn.network:build_network")(architecture)
    except Exception as error:  # what is left of any kind: options that do not go together
        raise ValueError(f"architecture: {' '.join(str(error).split())[:200]}") from None


def _check_layer(layer: Any) -> None:
    """ValueError for a layer of another kind, or an option of another type or range."""
    _check({"layer": layer}, {"layer": Mapping[str, Any]}, prefix="architecture: ")
    places = {"name": str, "kind": str, "reads": tuple[str, ...], "join": str, "residual": bool}
    _check(layer, places, ("join", "residual"), "architecture: layer: ")
    prefix, kind = f"architecture: {layer['name'][:40]}: ", layer["kind"]
    if kind not in LAYERS:
        raise ValueError(f"{prefix}kind is {_show(kind)}, not one of {', '.join(LAYERS)}")
    configured = hints(ModelConfig) if kind == "recurrent" else hints(hints(KindsConfig)[kind])
    options = {**typing.get_type_hints(find(LAYERS[kind]).__init__), **configured}
    # A recurrent layer has the options of its unit apart.
    of_unit = layer.get("options", {})
    _check({"options": of_unit}, {"options": Mapping[str, Any]}, prefix=prefix)
    for name, value in {**layer, **of_unit}.items():
        if name not in LAYER_KEYS:
            if name not in options:
                raise ValueError(f"{prefix}{name[:40]} is no option of {kind}")
            _check({name: value}, {name: options[name]}, prefix=prefix)


def _check_front_ends(front_ends: Mapping[str, Any], streams: Mapping[str, int]) -> None:
    """ValueError unless each stream has a front end, of a size that its context divides."""
    if front_ends.keys() != streams.keys():
        raise ValueError(f"front_ends: of {', '.join(front_ends)}, not of {', '.join(streams)}")
    table = {**hints(StreamConfig), "sound": Sound}
    for stream, size in streams.items():
        prefix, values = f"front_ends: {stream}: ", front_ends[stream]
        _check({stream: values}, {stream: Mapping[str, Any]}, prefix="front_ends: ")
        _check(values, table, ("subsampling",), prefix)
        if values.get("subsampling") in (0, -1) or values.keys() - {*table, "mean", "deviation"}:
            raise ValueError(f"{prefix}it has {', '.join(values)}, not what makes a front end")
        expected = torch.empty(size, device="meta")
        for name in ("mean", "deviation"):
            _check_tensor(f"{prefix}{name}", values.get(name), expected)
        if not (values["deviation"] > 0).all():
            raise ValueError(f"{prefix}deviation: {values['deviation'].min():g}, not above 0")
        repeated = (values["deltas"] + 1) * (values["left_context"] + 1 + values["right_context"])
        if size % repeated:
            raise ValueError(f"{prefix}{size} values are not {repeated} times those of a frame")


def _check(
    content: Mapping[str, Any],
    table: Mapping[str, Any],
    optional: Collection[str] = (),
    prefix: str = "",
) -> None:
    """ValueError unless the entries of `table` are there and of its types."""
    for name, hint in table.items():
        if name not in content:
            if name in optional:
                continue
            raise ValueError(f"{prefix}{name} is missing")
        try:
            convert(hint, _as_lists(content[name]))
        except (ValueError, TypeError):
            shown = _show(content[name])
            raise ValueError(f"{prefix}{name} is {shown}, not {describe(hint)}") from None


def _as_lists(value: Any) -> Any:
    """Tuples as lists, as a configuration has them."""
    return list(value) if isinstance(value, tuple) else value


def _take_mapping(content: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """An entry that may be missing; ValueError where it is no mapping of names."""
    value: Mapping[str, Any] = content.get(name, {})
    _check({name: value}, {name: Mapping[str, Any]})
    return value


def _check_tensors(entry: str, tensors: Any, expected: Mapping[str, Tensor]) -> None:
    """ValueError unless these are tensors of the names, types and shapes that are expected."""
    if not isinstance(tensors, Mapping):
        raise ValueError(f"{entry} is {_show(tensors)}, not a mapping of tensors")
    for name in (*expected, *tensors):
        if name not in expected or name not in tensors:
            where = "is missing" if name in expected else "is of no part of the network"
            raise ValueError(f"{entry}: {_show(name)} {where}")
        _check_tensor(f"{entry}: {name}", tensors[name], expected[name])


def _check_tensor(entry: str, tensor: Any, expected: Tensor) -> None:
    """ValueError unless it is a tensor of this type and shape, and its numbers are finite."""
    types = FLOATS if expected.is_floating_point() else (expected.dtype,)
    if not isinstance(tensor, Tensor):
        raise ValueError(f"{entry} is {_show(tensor)}, not a tensor")
    if tensor.dtype not in types or tensor.shape != expected.shape:
        shapes = f"{tensor.dtype} {list(tensor.shape)}, not {types[0]} {list(expected.shape)}"
        raise ValueError(f"{entry} is {shapes}")
    if not tensor.isfinite().all():
        raise ValueError(f"{entry} has numbers that are not finite")


def _show(value: Any) -> str:
    """A value in a few characters."""
    plain = isinstance(value, str | int | float) or value is None
    return repr(value)[:40] if plain else f"a {type(value).__name__}"

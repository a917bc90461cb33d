"""Checkpoints: tensors and plain values only, so that loading one never runs code.

One is read as its schema says, or not at all: a file may have been changed by hand, or made to do
harm, so that its entries, with types, sizes and ranges, are checked before anything is made of it.
Options of layers and front ends have the ranges that the configuration gives them.

A run keeps `last.pt`, of its last complete epoch; `last.prev.pt`, the one before; and, while an
epoch is trained, `unfinished.pt`. At every moment one of them is complete.
"""

import errno
import io
import math
import os
import pickle
import typing
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import torch
from torch import Tensor

from bayes_asr.base.errors import ExternalError, InputError, is_lack_of_memory
from bayes_asr.base.files import is_there, open_to_read, replacing
from bayes_asr.base.installed import advise_new_run
from bayes_asr.base.log import LOGGER
from bayes_asr.base.saved_tensors import read_saved
from bayes_asr.config.catalogue import LAYERS, find
from bayes_asr.config.inputs import StreamConfig
from bayes_asr.config.model_keys import DecoderConfig, KindsConfig, ModelConfig
from bayes_asr.config.values import Within, convert, describe, hints
from bayes_asr.kaldi_io.binary import split_words
from bayes_asr.kaldi_io.side_files import BEST, LAST
from bayes_asr.nn.layer import LAYER_KEYS

FORMAT = 2
READABLE = (1, FORMAT)  # 1 is that of version 0.1
UPGRADE, ABSENCE = "train.runs.version_0_1:upgrade", "train.runs.combination:explain_absence"
PREVIOUS, UNFINISHED = "last.prev.pt", "unfinished.pt"
RESUMED = (UNFINISHED, LAST, PREVIOUS)  # what a run can go on from
FIRST = "first.pt"  # what last.pt is called while the run that was there is discarded

LARGEST = 2**53  # whole numbers up to it are floats as well
Total = Annotated[int, Within(0, LARGEST)]
Amount = Annotated[float, Within(-1e300, 1e300)]
Labels = Mapping[str, Annotated[int, Within(1, LARGEST)]]
Sound = Mapping[str, str | bool | int | Amount] | None
SKIPPED = {"batch": Total, "why": str, "utterances": tuple[str, ...]}
TOTALS = {
    **dict.fromkeys(("frames", "labels", "batches"), Total),
    "errors": Total | None,
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
_warn_once = cache(LOGGER.warning)
FLOATS = (torch.float32, torch.float64)


class DamagedError(InputError):
    """A file that is there, but is no checkpoint or has lost some of it."""


def has_begun(run: Path) -> bool:
    """Whether a run has left something to go on from."""
    return any(is_there(run / name) for name in RESUMED)


def save(path: Path, content: dict[str, Any], *, keep: Path | None = None) -> None:
    """Write a checkpoint, complete or not at all.

    keep: the name that a checkpoint already at `path` gets, which is there until the new one is.
    """
    buffer = io.BytesIO()  # torch's own writing turns a full disk into a RuntimeError
    torch.save({"format": FORMAT, **content}, buffer)
    with replacing(path) as temporary:
        temporary.write_bytes(buffer.getbuffer())
        if keep and path.exists():
            _link(path, keep)


def _link(path: Path, name: Path) -> None:
    """Give a file a second name, in place of what has that name; else move it there."""
    try:
        with replacing(name) as temporary:
            os.link(path, temporary)
    except OSError:  # a file system without links
        path.replace(name)


def read(path: Path) -> dict[str, Any]:
    """Read a checkpoint; InputError where there is none, it is damaged or of another format.

    OSError or MemoryError where the file may be whole, but cannot be read here and now.
    """
    try:
        with open_to_read(str(path)) as file:
            content = read_saved(file, os.fstat(file.fileno()).st_size)
    except FileNotFoundError:
        raise InputError(f"{path}: {find(ABSENCE)(path.parent)}") from None
    except Exception as error:  # many kinds for a damaged file
        _raise_if_undamaged(path, error)
        raise DamagedError(f"{path}: cannot be read as a checkpoint: {_explain(error)}") from None
    if not isinstance(content, dict) or content.get("format") not in READABLE:
        raise InputError(
            f"{path}: not a checkpoint of format {FORMAT}; train again with this version"
        )
    try:
        if "history" in content or "front_ends" not in content:
            content = find(UPGRADE)(content, path.parent)
        check_network(content)
        for file in find("nn.units.external:find_changed")(content):
            _warn_once("%s: trained with another %s; restore it or train again", path.parent, file)
        if path.name != BEST:
            check_training(content)
    except ExternalError as error:  # the checkpoint may be whole
        raise InputError(f"{path}: {error}") from None
    except InputError:  # of config.yaml
        raise
    except (LookupError, ValueError, TypeError, AttributeError) as error:
        message = " ".join(str(error).split())
        raise DamagedError(
            f"{path}: does not hold the network that it describes: {message}; train it again"
        ) from None
    return content


def _raise_if_undamaged(path: Path, error: Exception) -> None:
    """Raise errors that say nothing of the content: of the disk, permissions, memory."""
    damage_codes = (None, errno.EINVAL)  # EINVAL: of an index with a position before the beginning
    if isinstance(error, OSError) and error.errno not in damage_codes:
        raise OSError(error.errno, error.strerror, str(path)) from None
    if is_lack_of_memory(error):
        raise MemoryError(
            f"{path}: {path.stat().st_size} bytes cannot be loaded; close other programs, or raise"
            " the limit on memory (ulimit -v), and give the same command again"
        ) from None


def _explain(error: Exception) -> str:
    """Reason that torch gives, without its advice, which is to run the code in the file."""
    if isinstance(error, pickle.UnpicklingError):
        return "it holds other things than tensors and plain values, which might be code"
    return " ".join(str(error).split())[:200] or type(error).__name__


def read_newest(run: Path, names: tuple[str, ...] = RESUMED) -> dict[str, Any]:
    """Read the checkpoint of a run that is furthest on; empty where there is none.

    A damaged one is set aside with a warning; InputError where that leaves none.
    """
    readable, damaged = [], []
    for path in (run / name for name in names):
        try:
            readable += [read(path)] if is_there(path) else []
        except DamagedError as error:
            damaged.append(path)
            new_path = path.replace(path.with_name(f"{path.name}.damaged"))
            LOGGER.warning(
                "%s; it is set aside as %s, and the one before it is used", error, new_path
            )
    if damaged and not readable:
        raise InputError(
            f"{damaged[0]}: damaged, and there is no other checkpoint to go on from;"
            f" {advise_new_run()}"
        )
    return max(readable, key=_position, default={})


def check_best(run: Path, resumed: Mapping[str, Any]) -> None:
    """InputError where a run that goes on from this checkpoint has lost the network of its best
    epoch, which none of those to come need be better than.
    """
    # Epochs whose measure is no number were never the best.
    if not any(map(math.isfinite, resumed.get("dev_errors", ()))):
        return
    try:
        if is_there(run / BEST):
            read(run / BEST)
            return
        why = f"{run / BEST}: missing"
    except DamagedError as error:
        why = str(error)
    raise InputError(
        f"{why}; restore it, copy {LAST} there, the network of the last epoch, or"
        f" {advise_new_run()}"
    )


def _position(content: dict[str, Any]) -> tuple[int, int, int]:
    """Progress for comparison: epochs, returns to the last of them, batches since then."""
    totals = content.get("totals")
    position = totals["batches"] + len(totals["skipped"]) if totals else 0
    return len(content["dev_errors"]), content.get("returns", 0), position


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
    _check(content, {"unit_files": Mapping[str, str]}, ["unit_files"])
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
    except ExternalError:
        raise
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
        value = content[name]
        try:  # tuples as lists, which a configuration has
            convert(hint, list(value) if isinstance(value, tuple) else value)
        except (ValueError, TypeError):
            raise ValueError(f"{prefix}{name} is {_show(value)}, not {describe(hint)}") from None


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

"""Transfer of weights from other runs: the layers that are taken, and reasons for the others."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import nn

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import read_bytes
from bayes_asr.base.log import LOGGER
from bayes_asr.config.catalogue import check_unit
from bayes_asr.config.training_keys import Transfer
from bayes_asr.data.corpus.labelled import LabelledSet
from bayes_asr.data.features.front_end import FrontEnd
from bayes_asr.kaldi_io.side_files import BEST
from bayes_asr.nn.network import AcousticModel
from bayes_asr.train.components import check_parts, find_mismatch
from bayes_asr.train.runs.trained_network import TrainedNetwork, read_network
from bayes_asr.train.trainer import Initialization

KEY = "train.init_from"
FREE_OPTIONS = (
    *("name", "reads", "units", "dropout", "input_dropout", "dropout_scaling", "fused"),
    *("input_init", "activation_trains"),
)
"""Options that may differ between layers that fit.

The size shows in the shapes of the weights; the others do not change the equations of the layer.
"""


def initialize_from(
    transfers: Sequence[Transfer], model: AcousticModel, data: LabelledSet
) -> Initialization:
    """Copy weights and running statistics of the best networks of runs into a model.

    data: what it will be trained on. InputError for a run that cannot be read, names that are not
    there, sizes that disagree where a layer is asked for by name, and where nothing fits.
    """
    initialization = Initialization()
    for transfer in transfers:
        path = Path(transfer.run) / BEST
        old = read_network(Path(transfer.run))
        initialization.hashes[str(path)] = hashlib.sha256(read_bytes(path)).hexdigest()
        if transfer.layers:
            sources = _copy_named(transfer, old.model, model, initialization)
        else:
            sources = _copy_matching(transfer, old.model, model, initialization)
        initialization.parts |= dict.fromkeys(sources, transfer.run)
        for name, old_name in sources.items():
            _warn_of_dropout(transfer.run, _describe(old.model, old_name), _describe(model, name))
        # Only the first head of a run has priors in all versions. Here it may be another head.
        decoded = old.model.outputs[0]
        initialization.log_priors |= {n: old.log_priors for n, o in sources.items() if o == decoded}
        names = (
            f"{name} ({old_name})" * (name != old_name) or name
            for name, old_name in sources.items()
        )
        LOGGER.info("%s: taken: %s", path, ", ".join(names))
        if transfer.normalisation == "run":
            initialization.front_ends |= _keep_front_ends(transfer, old, model, data)
    random = [name for name in model.parts if transfers and name not in initialization.parts]
    if random:
        LOGGER.info("%s: begun at random: %s", KEY, ", ".join(random))
    return initialization


def _copy_named(
    transfer: Transfer, old: AcousticModel, model: AcousticModel, initialization: Initialization
) -> Mapping[str, str]:
    """Take the layers that a transfer names; returns the old one of each."""
    check_parts(KEY, transfer.layers, model.architecture)
    check_parts(f"{KEY}: {transfer.run}", transfer.layers.values(), old.architecture)
    for name, old_name in transfer.layers.items():
        if name in initialization.parts:
            raise InputError(
                f"{KEY} takes {name} from {initialization.parts[name]} and from {transfer.run};"
                " leave one"
            )
        difference = _compare_shapes(old.parts[old_name], model.parts[name])
        if difference:
            raise InputError(
                f"{KEY}: {old_name} of {transfer.run} does not fit {name}: {difference}; leave it"
                " out, or make them of one size"
            )
        # A layer that was asked for by name is taken even where its equation is another one.
        difference = _compare_kinds(old, old_name, model, name)
        if difference:
            LOGGER.warning("%s: %s as %s: %s", transfer.run, old_name, name, difference)
        _copy(old.parts[old_name], model.parts[name])
    return transfer.layers


def _copy_matching(
    transfer: Transfer, old: AcousticModel, model: AcousticModel, initialization: Initialization
) -> Mapping[str, str]:
    """Take all that has the name, kind and size of an old one, unless another run gave it."""
    copied, rejected = [], []
    for name, part in model.parts.items():
        if name in initialization.parts:
            continue
        if name not in old.parts:
            rejected.append(f"{name}: not there")
            continue
        difference = _compare_shapes(old.parts[name], part) or _compare_kinds(
            old, name, model, name
        )
        if difference:
            rejected.append(f"{name}: {difference}")
            continue
        _copy(old.parts[name], part)
        copied.append(name)
    if not copied:
        rejected += [f"{name}: taken from {run}" for name, run in initialization.parts.items()]
        raise InputError(f"{KEY}: nothing of {transfer.run} fits: {'; '.join(rejected)}")
    if rejected:
        LOGGER.warning("%s: not taken: %s", transfer.run, "; ".join(rejected))
    return {name: name for name in copied}


def _copy(old: nn.Module, new: nn.Module) -> None:
    new.load_state_dict(old.state_dict())


def _compare_shapes(old: nn.Module, new: nn.Module) -> str:
    """First difference between the weights and statistics of two modules in words; "": none."""
    mismatch = find_mismatch(old.state_dict(), new.state_dict())
    if not mismatch:
        return ""
    name, *sizes = mismatch
    old_text, new_text = (
        f"has no {name}" if size is None else f"has {name} of size {size}" for size in sizes
    )
    return f"it {old_text}, this one {new_text}"


def _compare_kinds(old: AcousticModel, old_name: str, new: AcousticModel, name: str) -> str:
    """First difference between the equations of two layers in words; "": none.

    Heads are all of one kind.
    """
    old_options, new_options = (_find_options(*layer) for layer in ((old, old_name), (new, name)))
    for key in old_options | new_options:
        # What a run of an older version does not say is off.
        if (old_options.get(key) or None) != (new_options.get(key) or None):
            return f"{key} is {old_options.get(key)} there and {new_options.get(key)} here"
    return ""


def _find_options(model: AcousticModel, name: str) -> dict[str, Any]:
    """Options of a layer that must agree, those of a unit with its defaults; none for a head."""
    described = _describe(model, name)
    if "options" in described:
        choices = check_unit(described["unit"], {}).options
        defaults = {"cells_per_block": 1} | {key: values[0] for key, values in choices.items()}
        described = described | defaults | described["options"]
    return {key: v for key, v in described.items() if key not in (*FREE_OPTIONS, "options")}


def _describe(model: AcousticModel, name: str) -> dict[str, Any]:
    """A layer as its checkpoint describes it; empty for a head."""
    described = {layer["name"]: layer for layer in model.architecture["layers"]}
    return described.get(name, {})


def _warn_of_dropout(run: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """Say it where a layer computes something else in evaluation because of its dropout."""
    kept = [
        1 - layer.get("dropout", 0.0) if layer.get("dropout_scaling") == "pytorch-kaldi" else 1.0
        for layer in (old, new)
    ]
    if kept[0] != kept[1]:
        LOGGER.warning(
            "%s: %s as %s: in evaluation its values were multiplied by %g, which is %g here: by"
            " model.dropout, with model.dropout_scaling pytorch-kaldi",
            *(run, old["name"], new["name"], *kept),
        )


def _keep_front_ends(
    transfer: Transfer, old: TrainedNetwork, model: AcousticModel, data: LabelledSet
) -> dict[str, FrontEnd]:
    """Front ends of a run for all streams of a set, which must be prepared as those of the run."""
    front_ends = {}
    for stream, size in model.architecture["streams"].items():
        front_end = old.front_ends.get(stream)
        if front_end is None or front_end.size != size:
            obstacle = "there is none" if front_end is None else f"that has {front_end.size} values"
            raise InputError(
                f"{KEY}: normalisation is that of {transfer.run} for the stream {stream} of"
                f" {size} values, but {obstacle}; use normalisation: data"
            )
        prepared = data.streams[stream].front_end.preparation
        if front_end.preparation != prepared:
            raise InputError(
                f"{KEY}: normalisation is that of {transfer.run} for the stream {stream} with"
                f" {front_end.preparation}, but here it has {prepared}; use normalisation: data"
            )
        front_ends[stream] = front_end
    return front_ends

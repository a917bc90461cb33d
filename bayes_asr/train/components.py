"""Construction of the network and its optimizer from the configuration."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from bayes_asr.base.errors import InputError, nearest
from bayes_asr.base.log import LOGGER
from bayes_asr.base.processes import group
from bayes_asr.config.catalogue import OPTIMIZERS, find
from bayes_asr.config.epochs import DROPOUTS, at_epoch
from bayes_asr.config.model_keys import ModelConfig
from bayes_asr.config.schema import Config
from bayes_asr.config.training_keys import TrainConfig
from bayes_asr.data.corpus.labelled import LabelledSet
from bayes_asr.nn.first_weights import draw_mlp
from bayes_asr.nn.frames import describe_stride
from bayes_asr.nn.kernels.cpu import library
from bayes_asr.nn.layer import describe_layers
from bayes_asr.nn.network import AcousticModel, build_network
from bayes_asr.tasks.task import task_of
from bayes_asr.train.optimizers import FACTOR, Optimizers
from bayes_asr.train.stack_layers import check_heads, describe_stack, gather_options

NOT_OF_A_LAYER = ("layers", "units", "head_init", "stack", "heads", "decoder", "kinds")
"""Keys of `model` that no layer of the short form has."""


def plan_network(config: Config, data: LabelledSet, epoch: int = 1) -> dict[str, Any]:
    """The arguments of `build_network` that a configuration makes for a training set.

    epoch: whose dropout its layers have.
    """
    # Any utterance has the dimensions of all; the smallest name is the same on every machine.
    features = data.prepare(min(data.lengths))
    streams = {name: matrix.shape[1] for name, matrix in features.items()}
    task, heads = task_of(config), {}
    for name in task.weights:
        if name not in data.targets:
            targets = ", ".join(data.targets)
            raise InputError(
                f"train.target_weights.{name} is of no target; there are {targets}"
                f"{nearest(name, data.targets)}"
            )
        heads[name] = data.targets[name].size
    plan = architecture(config.model, streams, heads, epoch) | task.head_options
    if numbers := [name for name in heads if data.targets[name].is_real]:
        plan["of_numbers"] = numbers
    check_parts("train.layers", config.train.layers, plan)
    return plan


def draw_network(config: ModelConfig, plan: Mapping[str, Any]) -> AcousticModel:
    """The network of `plan_network` with its first weights, drawn by torch's generator."""
    model = build_network(plan)
    if config.head_init == "pytorch-kaldi" and not model.writes_sequences:
        for head in model.heads:
            draw_mlp(cast(nn.Linear, head))
    return model


def architecture(
    config: ModelConfig, streams: Mapping[str, int], heads: Mapping[str, int], epoch: int = 1
) -> dict[str, Any]:
    """The arguments of `build_network` but those of its task, as plain values for the checkpoint.

    streams: size of what the network reads, by stream; heads: outputs by target; epoch: whose
    dropout its layers have.
    """
    if config.stack:
        layers = describe_stack(config, list(streams))
    else:
        layers = _describe_uniform_layers(config, list(streams))
    check_heads(config, layers, heads)
    # The checkpoint holds plain numbers: options by epoch are resolved for this epoch.
    for layer in layers:
        layer.update({name: at_epoch(layer[name], epoch) for name in DROPOUTS if name in layer})
    # Keys without effect are left out, as in checkpoints of versions without them.
    return {
        "streams": dict(streams),
        "layers": layers,
        "heads": dict(heads),
        **({"head_reads": dict(config.heads)} if config.heads else {}),
    }


def plan_dropout(config: ModelConfig, model: AcousticModel, epoch: int) -> list[dict[str, float]]:
    """Dropout probabilities of each layer in an epoch, by the names of their options."""
    arguments = model.architecture
    layers = architecture(config, arguments["streams"], arguments["heads"], epoch)["layers"]
    return [{name: layer[name] for name in DROPOUTS if name in layer} for layer in layers]


def _describe_uniform_layers(config: ModelConfig, streams: Sequence[str]) -> list[dict[str, Any]]:
    """The layers of the short form: all of one unit, each on the one before."""
    units = [config.units] * config.layers if isinstance(config.units, int) else config.units
    if len(units) != config.layers:
        raise InputError(
            f"model.units has {len(units)} numbers, but model.layers is {config.layers}; give one"
            " number for each layer, or one for all"
        )
    # All other keys of `model` are arguments of every layer, by the same names.
    shared = {k: v for k, v in vars(config).items() if k not in NOT_OF_A_LAYER}
    return describe_layers(list(units), streams, **gather_options("recurrent", shared))


def check_parts(origin: str, names: Iterable[str], plan: Mapping[str, Any]) -> None:
    """InputError for names that no layer and no head of a network has.

    plan: the arguments of its AcousticModel; origin: of the names, for the message.
    """
    parts = [*(layer["name"] for layer in plan["layers"]), *plan["heads"]]
    for name in names:
        if name not in parts:
            raise InputError(
                f"{origin} names {name}; layers and heads: {', '.join(parts)}{nearest(name, parts)}"
            )


def find_mismatch(
    old: Mapping[str, Tensor], new: Mapping[str, Tensor]
) -> tuple[str, list[int] | None, list[int] | None] | None:
    """The first weights that differ in size, and their sizes, None where one state lacks them; None
    where all agree.
    """
    # Names of both: one that either of them lacks is a difference, too.
    for name in {**old, **new}:
        old_size, size = (list(x[name].shape) if name in x else None for x in (old, new))
        if old_size != size:
            return name, old_size, size
    return None


def build_optimizer(config: TrainConfig, model: AcousticModel) -> Optimizers:
    """Return the optimizers of a model: one, or one of each kind that `train.layers` names."""
    groups: dict[str, list[Any]] = {}
    if config.layers:
        # Groups of parameters are those of layers: they may have learning rates of their own.
        for name, part in model.parts.items():
            layer_config = config.layers.get(name)
            kind = (layer_config and layer_config.optimizer) or config.optimizer
            factor = layer_config.learning_rate_factor if layer_config else 1.0
            if parameters := list(part.parameters()):
                groups.setdefault(kind, []).append({"params": parameters, FACTOR: factor})
    else:
        groups[config.optimizer] = list(model.parameters())
    return Optimizers([find(OPTIMIZERS[k].function)(of, config) for k, of in groups.items()])


def choose_device(name: str) -> torch.device:
    """Device of a training by its name: `cpu`, `cuda`, or `auto`, a GPU where there is one."""
    available = torch.cuda.is_available()
    if name == "cuda" and not available:
        raise InputError(
            "train.device is cuda, but torch finds no GPU here (bayes-asr doctor shows what it"
            " finds); set it to auto or cpu"
        )
    torch.backends.cudnn.allow_tf32 = False  # torch rounds the factors of convolutions otherwise
    # Threads that load batches have no current GPU: the device has its number.
    return group.find_card() if available and name != "cpu" else torch.device("cpu")


def choose_precision(precision: str, device: torch.device) -> str:
    """The type of the factors of products: bfloat16 only where the device has instructions for it.

    Elsewhere it would be emulated, which takes 2.5 times as long as float32.
    """
    if device.type == "cuda":
        supported = torch.cuda.is_bf16_supported(including_emulation=False)
    else:
        # torch has `get_capabilities` since 2.10; before, only our own kernels tell.
        capabilities: Mapping[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()
        names = (*library.paths(), *filter(capabilities.get, capabilities))
        supported = any("bf16" in name for name in names)
    return precision if supported else "float32"


def explain_precision(precision: str) -> str:
    """Reason for a training in another precision than that of its configuration."""
    return (
        f"there are no instructions for {precision} here; products are in float32, which is faster"
    )


def log_summary(config: ModelConfig, model: AcousticModel) -> None:
    """Log the layers and the number of parameters of a network."""
    if config.stack:
        for summary in summarize_layers(model):
            LOGGER.info("layer %s", summary)
        shape = f"a stack of {len(model.layers)} layers"
    else:
        tied = "tied" if config.tied_directions else "untied"
        shape = (
            f"{config.unit}, {config.layers} layers of {config.units} units, {tied} directions,"
            f" {config.initial_state} initial state"
        )
    total = count_parameters(model)
    LOGGER.info(
        "%s: %d parameters (%d without the heads)", shape, total, count_parameters(model.layers)
    )
    for layer in model.architecture["layers"]:
        if layer.get("bidirectional") and layer.get("options", {}).get("smooth"):
            why = "a smoother reads both directions by itself; set bidirectional to false"
            LOGGER.warning("%s: %s", layer["name"], why)
    # A recurrence that torch runs step by step is many times slower, which a user should know.
    layers = zip(model.names, model.layers, strict=True)
    uncompiled = [name for name, layer in layers if layer.unrolled and not layer.compiled]
    if uncompiled and not next(model.parameters()).is_cuda:  # `gpu_paths` has its own message
        LOGGER.info(
            "no compiled code here for the recurrence of %s: torch runs it", ", ".join(uncompiled)
        )
    activation_total = sum(parameter.numel() for parameter in model.activation_parameters.values())
    if activation_total:
        # In percent of the network that has the same activations without parameters.
        share = 100 * activation_total / (total - activation_total)
        LOGGER.info(
            "activations have %d of them, %.3f %% more than without", activation_total, share
        )


def count_parameters(part: nn.Module) -> int:
    """Number of trained values."""
    return sum(p.numel() for p in part.parameters())


def summarize_layers(model: AcousticModel) -> list[str]:
    """Summary of each layer, such as "front: conv1d, features (40) -> 256"."""
    summaries = []
    for described, layer in zip(model.architecture["layers"], model.layers, strict=True):
        name = described["name"]
        kind = " ".join([described["kind"], *([described["unit"]] if "unit" in described else [])])
        join = " + " if described.get("join") == "sum" else ", "
        reads = join.join(f"{source} ({model.sizes[source]})" for source in described["reads"])
        heads = [
            h for h, source in zip(model.outputs, model.head_layers, strict=True) if source == name
        ]
        stride = model.strides[name]
        summaries.append(
            f"{name}: {kind}, {reads} -> {model.sizes[name]}"
            f"{', residual' if described.get('residual') else ''}"
            f"{f', {describe_stride(stride)}' if stride > 1 else ''}"
            f", {count_parameters(layer)} parameters"
            f"{', read by ' + ', '.join(heads) if heads else ''}"
        )
    return summaries

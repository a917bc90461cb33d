"""Networks of pytorch-kaldi: sections [architecture] as typed values."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, TypeVar

from bayes_asr.base.errors import nearest
from bayes_asr.pytorch_kaldi.sections import (
    Option,
    Section,
    parse_flag,
    parse_number,
    parse_whole,
)

Value = TypeVar("Value")
PREFIXES = {  # of the options of each class that has layers
    "liGRU": "ligru",
    "GRU": "gru",
    "LSTM": "lstm",
    "RNN": "rnn",
    "minimalGRU": "minimalgru",
    "MLP": "dnn",
    "CNN": "cnn",
    "SincNet": "sinc",
}
OPTIMIZERS = ("sgd", "rmsprop", "adam")
RECURRENT = ("liGRU", "GRU", "LSTM", "RNN", "minimalGRU")
CUDNN = ("LSTM_cudnn", "GRU_cudnn", "RNN_cudnn")
CLASSES = (  # all of the original, also those that are not understood here
    *PREFIXES,
    *CUDNN,
    "SRU",
    "QLSTM",
    "fusionRNN_jit",
    "logMelFb",
    "channel_averaging",
    "liGRU_layer",
    "PASE",
)
Schedule = tuple[tuple[float, int], ...]
"""Values, and for how many epochs each; 0 epochs: for all."""


@dataclass(frozen=True)
class LayerOptions:
    """A layer of a network.

    units: outputs, or filters; or as many as the label of a name has. kernel, pooling: of a
    convolution, values that a filter reads and of which the largest is kept.
    """

    units: int | str
    dropout: Schedule
    batch_norm: bool
    layer_norm: bool
    activation: str
    kernel: int = 0
    pooling: int = 0


@dataclass(frozen=True)
class Architecture:
    """A network: its class, its layers (empty for classes that are not understood) and training.

    section: what else there is of it.
    """

    name: str
    kind: str
    layers: tuple[LayerOptions, ...]
    batch_norm_input: bool
    layer_norm_input: bool
    bidirectional: bool
    frozen: bool
    learning_rate: Schedule
    halving_factor: float
    improvement_threshold: float
    optimizer: str
    section: Section


def drop_first_norm(networks: Sequence[Architecture]) -> list[Architecture]:
    """The networks as theirs changes them where one reads sequences: [architecture1] without the
    layer norm of its first layer.
    """
    if not any(network.section.flag("arch_seq_model") for network in networks):
        return list(networks)
    return [
        replace(network, layers=(replace(first, layer_norm=False), *network.layers[1:]))
        if network.section.name == "architecture1" and (first := next(iter(network.layers), None))
        else network
        for network in networks
    ]


def read_architecture(section: Section, epochs: int) -> Architecture:
    name, kind = section.take("arch_name").text, section.take("arch_class").text
    if kind not in CLASSES:
        raise section.take("arch_class").error(
            f"{kind} is no class of pytorch-kaldi{nearest(kind, CLASSES)}; known:"
            f" {', '.join(CLASSES)}"
        )
    prefix = PREFIXES.get(kind, "")

    return Architecture(
        name,
        kind,
        _read_layers(section, prefix, epochs) if prefix else _read_cudnn_layers(section, kind),
        bool(prefix) and section.flag(f"{prefix}_use_batchnorm_inp"),
        bool(prefix) and section.flag(f"{prefix}_use_laynorm_inp"),
        _read_directions(section, kind, prefix),
        parse_flag(section.take("arch_freeze")),
        parse_schedule(section.take("arch_lr"), section.take("arch_lr").text, epochs),
        parse_number(section.take("arch_halving_factor")),
        parse_number(section.take("arch_improvement_threshold")),
        _read_optimizer(section.take("arch_opt")),
        section,
    )


def _read_optimizer(option: Option) -> str:
    if option.text not in OPTIMIZERS:
        near = nearest(option.text, OPTIMIZERS)
        raise option.error(f"{option.text} is none of {', '.join(OPTIMIZERS)}{near}")
    return option.text


def _read_directions(section: Section, kind: str, prefix: str) -> bool:
    """Whether a network reads time both ways."""
    if kind in CUDNN:
        return parse_flag(section.take("bidirectional"))
    return kind in RECURRENT and section.flag(f"{prefix}_bidir")


def _read_layers(section: Section, prefix: str, epochs: int) -> tuple[LayerOptions, ...]:
    convolves = prefix in ("cnn", "sinc")
    sizes = section.take(f"{prefix}_n_filt" if convolves else f"{prefix}_lay")

    def each(name: str, parse: Callable[[Option, str], Value]) -> list[Value]:
        option = section.take(f"{prefix}_{name}")
        parts = [part.strip() for part in option.text.split(",")]
        if len(parts) != len(units):
            raise option.error(f"{len(parts)} values for {len(units)} layers; give one for each")
        return [parse(option, part) for part in parts]

    # `each` reads the number of layers from here when it is called, which is below.
    units = [_parse_size(sizes, part.strip()) for part in sizes.text.split(",")]
    # The order of the columns is that of the fields of LayerOptions.
    columns = (
        each("drop", lambda option, text: parse_schedule(option, text, epochs, most=1)),
        each("use_batchnorm", parse_flag),
        each("use_laynorm", parse_flag),
        each("act", lambda _, text: text),
        *((each(name, _parse_count) for name in ("len_filt", "max_pool_len")) if convolves else ()),
    )
    return tuple(LayerOptions(*row) for row in zip(units, *columns, strict=True))


def _read_cudnn_layers(section: Section, kind: str) -> tuple[LayerOptions, ...]:
    """The layers of a class that is cuDNN's; none of one that is not understood."""
    if kind not in CUDNN:
        return ()
    units, layers, dropout = (
        section.take(name) for name in ("hidden_size", "num_layers", "dropout")
    )
    activation = section.get("nonlinearity") if kind == "RNN_cudnn" else None
    layer = LayerOptions(
        _parse_count(units, units.text),
        ((parse_number(dropout, most=1), 0),),
        False,
        False,
        activation.text if activation else "tanh",
    )
    # cuDNN's layers are all alike, and one object stands for each.
    return (layer,) * _parse_count(layers, layers.text)


def _parse_size(option: Option, text: str) -> int | str:
    """The number of units; the name of the label for N_out_LABEL."""
    if text.startswith("N_out_"):
        return text.removeprefix("N_out_")
    return _parse_count(option, text)


def _parse_count(option: Option, text: str) -> int:
    return parse_whole(option, text, least=1)


def parse_schedule(
    option: Option, text: str, epochs: int, *, most: float = math.inf, whole: bool = False
) -> Schedule:
    """Read `0.08*10|0.04*5`: values up to `most`, each with a number of epochs, 1 if none is there.

    whole: values are counts. A value alone is for all. InputError unless the numbers of epochs sum
    up to `epochs`.
    """
    steps = []
    for part in text.split("|"):
        value, times, count = (field.strip() for field in part.partition("*"))
        number = _parse_count(option, value) if whole else parse_number(option, value, most=most)
        if text == part and not times:
            return ((number, 0),)
        steps.append((number, _parse_count(option, count) if times else 1))
    total = sum(count for _, count in steps)
    if total != epochs:
        raise option.error(f"{text[:60]} is of {total} epochs, but N_epochs_tr is {epochs}")
    return tuple(steps)


def by_epoch(schedule: Schedule, convert: type[int] | type[float]) -> Any:
    """One value, or each by the epoch from which it is that."""
    if len(schedule) == 1:
        return convert(schedule[0][0])
    # Running sums of the epochs, from 1, are where each value begins; the last sum is no begin.
    begins = accumulate((count for _, count in schedule), initial=1)
    return {begin: convert(value) for begin, (value, _) in zip(begins, schedule, strict=False)}

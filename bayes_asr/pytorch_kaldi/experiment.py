"""An experiment of pytorch-kaldi as typed values."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, TypeVar

from bayes_asr.base.errors import InputError, nearest
from bayes_asr.pytorch_kaldi.operations import Operation, parse_operations
from bayes_asr.pytorch_kaldi.sections import (
    Option,
    Section,
    parse_flag,
    parse_number,
    parse_whole,
    read_sections,
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
STREAM = ("fea_name", "fea_lst", "fea_opts", "cw_left", "cw_right")
LABELS = ("lab_name", "lab_folder", "lab_opts", "lab_count_file", "lab_data_folder", "lab_graph")
PHONES = "ali-to-phones"
NO_LABELS = "none"  # the name of labels that are not there


@dataclass(frozen=True)
class FeatureEntry:
    """Features of a set: a table (scp), the commands that they go through, and context."""

    name: str
    table: str
    commands: str
    left: int
    right: int
    line: int


@dataclass(frozen=True)
class LabelEntry:
    """Labels of a set: the fields of its block, by name (`LABELS`)."""

    fields: Mapping[str, str]
    line: int

    @property
    def name(self) -> str:
        """The name by which the operations refer to them."""
        return self.fields["lab_name"]

    @property
    def of_phones(self) -> bool:
        """Whether they are phones, not pdfs."""
        return self["lab_opts"].startswith(PHONES)

    def __getitem__(self, name: str) -> str:
        """The text of a field of the block; empty where it is not there."""
        return self.fields.get(name, "")


@dataclass(frozen=True)
class DataSet:
    """A set: streams and labels by name.

    blocks: all of `lab`, also those without labels, which have a graph.
    """

    name: str
    streams: Mapping[str, FeatureEntry]
    labels: Mapping[str, LabelEntry]
    blocks: tuple[LabelEntry, ...]
    section: Section


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


@dataclass(frozen=True)
class Experiment:
    """All of a configuration. train, valid, forward: names of sets; sections: as they stand."""

    path: Path
    sections: Mapping[str, Section]
    sets: Mapping[str, DataSet]
    train: tuple[str, ...]
    valid: tuple[str, ...]
    forward: tuple[str, ...]
    architectures: Mapping[str, Architecture]
    operations: Sequence[Operation]

    @property
    def used(self) -> tuple[str, ...]:
        """The names of all sets that are trained on, validated on or forwarded, once each."""
        return tuple(dict.fromkeys((*self.train, *self.valid, *self.forward)))

    def reads_samples(self, stream: str) -> bool:
        """Whether a SincNet reads a stream, which then is sound."""
        return any(
            operation.kind == "compute"
            and operation.second == stream
            and self.architectures[operation.first].kind == "SincNet"
            for operation in self.operations
        )


def read_experiment(path: Path) -> Experiment:
    """Read a configuration; InputError naming the line of the first thing that is wrong."""
    sections = read_sections(path)
    for name in ("exp", "data_use", "batches", "model", "forward"):
        if name not in sections:
            raise InputError(f"{path}: there is no section [{name}]; is it of pytorch-kaldi?")
    sets = {item.name: item for item in map(_read_set, _list_numbered(sections, "dataset"))}
    networks = {
        item.name: item
        for item in map(_read_architecture, _list_numbered(sections, "architecture"))
    }
    use = sections["data_use"]
    train, valid, forward = (
        _read_names(use.take(f"{kind}_with"), sets) for kind in ("train", "valid", "forward")
    )
    # Operations name streams and labels, which all sets have under the same names.
    trained = sets[train[0]]
    operations = parse_operations(
        sections["model"].take("model"), networks, trained.streams, trained.labels
    )
    return Experiment(path, sections, sets, train, valid, forward, networks, operations)


def _list_numbered(sections: Mapping[str, Section], kind: str) -> list[Section]:
    numbered = [s for name, s in sections.items() if re.fullmatch(rf"{kind}\d+", name)]
    if not numbered:
        path = next(iter(sections.values())).path
        raise InputError(f"{path}: there is no section [{kind}1]")
    return numbered


def _read_names(option: Option, sets: Mapping[str, DataSet]) -> tuple[str, ...]:
    names = tuple(part.strip() for part in option.text.split(","))
    for name in names:
        if name not in sets:
            raise option.error(f"no set is called {name}{nearest(name, sets)}")
    return names


# --- sets


def _read_set(section: Section) -> DataSet:
    streams = [
        FeatureEntry(
            fields["fea_name"],
            fields["fea_lst"],
            fields["fea_opts"],
            parse_whole(option, fields["cw_left"], line),
            parse_whole(option, fields["cw_right"], line),
            line,
        )
        for option, fields, line in _blocks(section.take("fea"), STREAM, STREAM)
    ]
    labels = [
        LabelEntry(fields, line)
        for _, fields, line in _blocks(section.take("lab"), LABELS, ("lab_name",))
    ]
    return DataSet(
        section.take("data_name").text,
        {item.name: item for item in streams},
        {item.name: item for item in labels if item.name != NO_LABELS},
        tuple(labels),
        section,
    )


def _blocks(
    option: Option, names: Sequence[str], needed: Sequence[str]
) -> list[tuple[Option, dict[str, str], int]]:
    """The blocks of `fea` or `lab`, each of which begins with the first of `names`."""
    blocks = list[tuple[Option, dict[str, str], int]]()
    for line, text in option.lines:
        if not text:
            continue
        name, equals, value = (part.strip() for part in text.partition("="))
        if not equals or name not in names:
            raise option.error(f"{name[:40]} is none of {', '.join(names)}", line)
        # The first name opens a block, as blocks have no other mark.
        if name == names[0]:
            blocks.append((option, {}, line))
        if not blocks:
            raise option.error(f"{name} stands before {names[0]}", line)
        if name in blocks[-1][1]:
            raise option.error(f"{name} is there twice in a block", line)
        blocks[-1][1][name] = value
    for _, fields, line in blocks:
        for name in needed:
            if name not in fields:
                raise option.error(f"{fields[names[0]]} has no {name}", line)
    return blocks


# --- networks


def _read_architecture(section: Section) -> Architecture:
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
        _read_layers(section, prefix) if prefix else _read_cudnn_layers(section, kind),
        bool(prefix) and section.flag(f"{prefix}_use_batchnorm_inp"),
        bool(prefix) and section.flag(f"{prefix}_use_laynorm_inp"),
        _read_directions(section, kind, prefix),
        parse_flag(section.take("arch_freeze")),
        parse_schedule(section.take("arch_lr"), section.take("arch_lr").text),
        parse_number(section.take("arch_halving_factor")),
        parse_number(section.take("arch_improvement_threshold")),
        section.take("arch_opt").text,
        section,
    )


def _read_directions(section: Section, kind: str, prefix: str) -> bool:
    """Whether a network reads time both ways."""
    if kind in CUDNN:
        return parse_flag(section.take("bidirectional"))
    return kind in RECURRENT and section.flag(f"{prefix}_bidir")


def _read_layers(section: Section, prefix: str) -> tuple[LayerOptions, ...]:
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
        each("drop", parse_schedule),
        each("use_batchnorm", parse_flag),
        each("use_laynorm", parse_flag),
        each("act", lambda _, text: text),
        *((each(name, parse_whole) for name in ("len_filt", "max_pool_len")) if convolves else ()),
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
        parse_whole(units, units.text),
        parse_schedule(dropout, dropout.text),
        False,
        False,
        activation.text if activation else "tanh",
    )
    # cuDNN's layers are all alike, and one object stands for each.
    return (layer,) * parse_whole(layers, layers.text)


def _parse_size(option: Option, text: str) -> int | str:
    """The number of units; the name of the label for N_out_LABEL."""
    if text.startswith("N_out_"):
        return text.removeprefix("N_out_")
    return parse_whole(option, text)


def parse_schedule(option: Option, text: str) -> Schedule:
    """Read `0.08*10|0.04*5`: values, each with a number of epochs; a value alone is for all."""
    parts = [part.strip() for part in text.split("|")]
    steps = []
    for part in parts:
        value, times, count = (field.strip() for field in part.partition("*"))
        steps.append((parse_number(option, value), parse_whole(option, count) if times else 0))
    if len(steps) > 1 and any(not count for _, count in steps):
        raise option.error(f"{text[:60]} has a value without its number of epochs; write VALUE*N")
    return tuple(steps)


def by_epoch(schedule: Schedule, convert: type[int] | type[float]) -> Any:
    """One value, or each by the epoch from which it is that."""
    if len(schedule) == 1:
        return convert(schedule[0][0])
    # Running sums of the epochs, from 1, are where each value begins; the last sum is no begin.
    begins = accumulate((count for _, count in schedule), initial=1)
    return {begin: convert(value) for begin, (value, _) in zip(begins, schedule, strict=False)}

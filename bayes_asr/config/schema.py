"""The keys of a configuration, their types and ranges.

A key whose type is a mapping holds values by names that the user chooses. Where these values are
sections, conf/base.yaml describes one of them, called NAME, which says what the others leave out.
"""

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

import yaml

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import replacing
from bayes_asr.config.catalogue import UNIT_OPTIONS, check_unit, nearest
from bayes_asr.config.decoding_keys import DecodeConfig, ScoreConfig
from bayes_asr.config.epochs import DROPOUTS, Dropout, check_first_epoch
from bayes_asr.config.inputs import DataConfig, FeatureConfig, StreamConfig
from bayes_asr.config.kinds import DecoderConfig, KindsConfig
from bayes_asr.config.ranges import NAME, Units, Within
from bayes_asr.config.stack import StackLayer, complete, read_stack
from bayes_asr.config.training_keys import TrainConfig
from bayes_asr.config.values import hints

FIRST_STREAM = "features"
STREAM_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,49}")
TAKEN = re.compile(
    rf"features|cmvn|layer\d+|pdfs|monophones|classes|{NAME}"
)  # which mean something else
CONFIG = "config.yaml"  # of a run


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """The network."""

    unit: str
    form: Literal["prob", "log", "geometric", "harmonic", "complement", "own-gate"] | None
    activation: str | None
    activation_trains: tuple[str, ...]
    peepholes: bool
    cells_per_block: Annotated[int, Within(1, 1000)] | None
    transitions: Literal["trained", "from-input", "context"] | None
    input_gate: bool
    smooth: bool
    dropped_candidate: Literal["zero", "half", "mean"] | None
    layers: Annotated[int, Within(1, 100)]
    units: Units | tuple[Units, ...]
    bidirectional: bool
    tied_directions: bool
    norm: Literal["batch", "batch-shared", "batch-opposed", "layer", "layer-pytorch-kaldi", "none"]
    dropout: Dropout
    dropout_scaling: Literal["pytorch-kaldi", "inverted"]
    input_dropout: Dropout
    initial_state: Literal["fixed", "zero", "trained"]
    hand_on: Literal["log", "prob"]
    input_init: Literal["xavier", "uniform", "uniform-units", "pytorch-kaldi"]
    head_init: Literal["uniform", "pytorch-kaldi"]
    stack: tuple[Mapping[str, Any], ...]
    heads: Mapping[str, str]
    decoder: DecoderConfig
    kinds: KindsConfig

    def __post_init__(self) -> None:
        """Refuse a unit that is not there, options that it does not have, and what no stack is."""
        self._check_unit()
        self._check_dropout()
        # Without a stack the layers have no names but their numbers.
        numbered = [f"layer{number + 1}" for number in range(self.layers)]
        names = [layer.name for layer in self.read_stack()] or numbered
        for target, name in self.heads.items():
            if name not in names:
                raise InputError(
                    f"model.heads has {target}: {name}, but there is no layer {name}; layers:"
                    f" {', '.join(names)}{nearest(name, names)}"
                )

    def read_stack(self) -> list[StackLayer]:
        """The layers of `stack` with all their options; InputError for what is none."""
        return read_stack(self.stack, self._complete)

    def _complete(self, kind: str, described_options: Mapping[str, Any]) -> dict[str, Any]:
        """All options of a layer, by those that it gives; those of recurrent layers are of here."""
        if kind != "recurrent":
            described = vars(complete(getattr(self.kinds, kind), described_options))
            check_first_epoch("dropout", described.get("dropout"))
            return described
        excluded = ("layers", "head_init", "stack", "heads", "decoder", "kinds")
        # The model itself gives the defaults, and what is of several layers is replaced.
        options: dict[str, Any] = {"layers": 1, "stack": (), "heads": {}}
        if (
            described_options.get("unit", self.unit) != self.unit
        ):  # whose options are not of that unit
            plain = {"form": None, "activation": None, "activation_trains": ()}
            options |= plain | {"peepholes": False, "cells_per_block": None}
            options |= {"transitions": None, "input_gate": False, "smooth": False}
            options |= {"dropped_candidate": None}
        layer = complete(replace(self, **options), described_options, without=excluded)
        if isinstance(layer.units, tuple):
            raise InputError(f"units is {list(layer.units)}; a layer has one number of units")
        return {key: value for key, value in vars(layer).items() if key not in excluded}

    def _check_dropout(self) -> None:
        for key in DROPOUTS:
            check_first_epoch(f"model.{key}", getattr(self, key))
        for kind, options in vars(self.kinds).items():
            check_first_epoch(f"model.kinds.{kind}.dropout", getattr(options, "dropout", None))

    def _check_unit(self) -> None:
        # Options that are null, false or empty are not asked for.
        options = {key: value for key in UNIT_OPTIONS if (value := getattr(self, key))}
        try:
            unit = check_unit(self.unit, options)
        except InputError as error:
            raise InputError(f"model.{error}") from None  # it begins with the key
        if self.hand_on == "prob" and not unit.probabilistic:
            raise InputError(
                f"model.hand_on is prob, but {self.unit} computes no probabilities; use log"
            )


@dataclass(frozen=True, kw_only=True)
class RecipeConfig:
    """The options of a recipe in run.sh, and the files by which it knows its corpus."""

    offers: tuple[Literal["corpus", "dim", "force"], ...]
    options: tuple[str, ...]
    source: str | None
    known_by: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Config:
    """Everything a run depends on, and what its recipe says, which no run compares or keeps."""

    seed: Annotated[int, Within(0, 2**31 - 1)]
    data: DataConfig
    features: FeatureConfig
    streams: Mapping[str, StreamConfig]  # of each of data.train.streams
    model: ModelConfig
    train: TrainConfig
    decode: DecodeConfig
    score: ScoreConfig
    recipe: RecipeConfig = field(compare=False)

    def __post_init__(self) -> None:
        stream_names = self.data.train.stream_names
        _check_names(self.data, "streams", stream_names)
        _check_names(self.data, "labels", self.data.train.label_names)
        for name in self.streams:
            if name not in stream_names:
                raise InputError(
                    f"streams.{name} is of no stream of data.train.streams"
                    f"{nearest(name, stream_names)}"
                )
        streams = (FIRST_STREAM, *stream_names)
        for name in self.train.spec_augment.frequency_streams:
            if name not in streams:
                raise InputError(
                    f"train.spec_augment.frequency_streams has {name}, which is no stream; there"
                    f" are {', '.join(streams)}{nearest(name, streams)}"
                )
        if self.train.pretrain.epochs and self.model.stack:
            raise InputError(
                f"train.pretrain.epochs is {self.train.pretrain.epochs}, but only model.layers"
                " layers of one unit can be grown one by one; leave model.stack out"
            )

    def save(self, path: Path) -> None:
        """Write it as YAML that `load` reads back; one that says so already stays."""
        text = as_yaml(self)
        # A file that stays keeps its time, by which make and stamps judge it.
        if path.exists() and path.read_bytes() == text.encode():
            return
        with replacing(path) as temporary:
            temporary.write_text(text, encoding="utf-8")


def _check_names(data: DataConfig, kind: str, names: Sequence[str]) -> None:
    """InputError for a name that no stream or label set can have, or that train has not."""
    for key in ("train", "dev", "test"):
        for form in (kind, f"{kind}_all_of"):
            for name in getattr(getattr(data, key), form, ()):
                if not STREAM_NAME.fullmatch(name) or TAKEN.fullmatch(name):
                    raise InputError(
                        f"data.{key}.{form}.{name} has a name that is taken or not of letters,"
                        " digits, - and _; choose another"
                    )
                if name not in names:
                    raise InputError(
                        f"data.{key}.{form}.{name} is not in data.train.{kind}"
                        f"{nearest(name, names)}"
                    )


def as_yaml(config: Config) -> str:
    """Every key that a run depends on, and its value, as YAML."""
    return yaml.safe_dump(_plain(config), sort_keys=False, allow_unicode=True)


def section_of(hint: Any) -> type | None:
    """The dataclass of a section, or of the sections of a mapping; None for a key with a value."""
    kind = get_args(hint)[1] if get_origin(hint) is Mapping else hint
    return kind if dataclasses.is_dataclass(kind) else None  # type: ignore[return-value]


def iter_typed_keys(kind: type = Config, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every key that a configuration has, as `section.key`, and its type.

    Sections of a mapping are those of one called NAME.
    """
    for name, hint in hints(kind).items():
        section = section_of(hint)
        if section is None:
            yield prefix + name, hint
        else:
            inner = f"{prefix}{name}." if section is hint else f"{prefix}{name}.{NAME}."
            yield from iter_typed_keys(section, inner)


def keys() -> Iterator[str]:
    """Every key that a configuration has, as `section.key`."""
    return (key for key, _ in iter_typed_keys())


def find_key(key: str) -> str:
    """The key of conf/base.yaml that says what a key with names of a user's means.

    `streams.fbank.deltas` is `streams.NAME.deltas`, `data.train.streams.fbank` is
    `data.train.streams`; any other is itself.
    """
    for typed_key, hint in iter_typed_keys():
        depth = typed_key.count(".") + 1
        # Below a mapping of plain values stand names of a user's, which the schema has not.
        words = key.split(".")[:depth] if get_origin(hint) is Mapping else key.split(".")
        if are_alike(typed_key, ".".join(words)):
            return typed_key
    return key


def are_alike(schema_key: str, key: str) -> bool:
    """Whether a key or section is one of the schema, where NAME stands for any name."""
    parts, words = schema_key.split("."), key.split(".")
    return len(parts) == len(words) and all(
        part in (word, NAME) for part, word in zip(parts, words, strict=True)
    )


def differences(old: Config, new: Config) -> dict[str, tuple[Any, Any]]:
    """Keys whose values differ, with both values; None where a mapping has no such name."""
    old_values, new_values = (dict(_flat(_plain(config))) for config in (old, new))
    # A key that only one of both has is a name in a mapping.
    pairs = {key: (old_values.get(key), new_values.get(key)) for key in old_values | new_values}
    return {key: (then, now) for key, (then, now) in pairs.items() if then != now}


def _plain(value: Any) -> Any:
    """Dataclasses and tuples as dicts and lists, without what is not compared."""
    if dataclasses.is_dataclass(value):
        compared = [f.name for f in dataclasses.fields(value) if f.compare]
        return {name: _plain(getattr(value, name)) for name in compared}
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    return [_plain(v) for v in value] if isinstance(value, tuple) else value


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value

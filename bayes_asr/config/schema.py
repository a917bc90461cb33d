"""The keys of a configuration, their types and ranges."""

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

import yaml

from bayes_asr.catalogue import CRITERIA, OPTIMIZERS, SCHEDULES, UNIT_OPTIONS, check_unit, nearest
from bayes_asr.config.kinds import KindsConfig
from bayes_asr.config.ranges import Context, Count, Dropout, OneOf, Share, Units, Within
from bayes_asr.config.search_keys import DecodeConfig
from bayes_asr.config.stack import StackLayer, complete, read_stack
from bayes_asr.errors import InputError
from bayes_asr.files import replacing


@dataclass(frozen=True, kw_only=True)
class SetConfig:
    """Where one set is: directories tried in order, relative to `data.dir`."""

    features: tuple[str, ...]
    alignments: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class TrainSetConfig(SetConfig):
    """The training set, which may be of several directories taken together."""

    features_all_of: tuple[str, ...]
    alignments_all_of: tuple[str, ...]

    def __post_init__(self) -> None:
        for key in ("features", "alignments"):
            if getattr(self, key) and getattr(self, f"{key}_all_of"):
                raise InputError(
                    f"data.train.{key}_all_of takes directories together, but data.train.{key}"
                    " names alternatives; keep one of the two"
                )


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """Corpus directories and what is expected of them."""

    dir: str
    moved: tuple[str, ...]
    train: TrainSetConfig
    dev: SetConfig
    test: SetConfig
    graph: tuple[str, ...]
    expected_dims: tuple[Units, ...]
    held_out: Annotated[float, Within(0, 0.5)]
    max_skipped: Share
    index: str
    keep: Literal["none", "float32", "float16"]

    def __post_init__(self) -> None:
        for move in self.moved:
            if "=" not in move.lstrip("="):
                raise InputError(
                    f"data.moved has {move!r}; write OLD=NEW: what names of files begin with, and"
                    " where that is now"
                )

    @property
    def moves(self) -> list[tuple[str, str]]:
        """What names of files begin with, and what that is replaced with."""
        parts = (move.partition("=") for move in self.moved)
        return [(old.rstrip("/"), new.rstrip("/")) for old, _, new in parts]


@dataclass(frozen=True, kw_only=True)
class FeatureConfig:
    """From stored features to the network's input."""

    cmvn: Literal["none", "mean", "mean-variance"]
    deltas: Annotated[int, Within(0, 3)]
    left_context: Context
    right_context: Context


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """The network."""

    unit: str
    form: Literal["prob", "log", "geometric"] | None
    activation: str | None
    activation_trains: tuple[str, ...]
    peepholes: bool
    smooth: bool
    layers: Annotated[int, Within(1, 100)]
    units: Units | tuple[Units, ...]
    bidirectional: bool
    tied_directions: bool
    norm: Literal["batch", "batch-shared", "layer", "layer-pytorch-kaldi", "none"]
    dropout: Dropout
    dropout_scaling: Literal["pytorch-kaldi", "inverted"]
    input_dropout: Dropout
    initial_state: Literal["fixed", "trained"]
    hand_on: Literal["log", "prob"]
    input_init: Literal["xavier", "uniform"]
    stack: tuple[Mapping[str, Any], ...]
    heads: Mapping[str, str]
    kinds: KindsConfig

    def __post_init__(self) -> None:
        """Refuse a unit that is not there, options that it does not have, and what no stack is."""
        self._check_unit()
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

    def _complete(self, kind: str, given: Mapping[str, Any]) -> dict[str, Any]:
        """All options of a layer, by those that it gives; those of recurrent layers are of here."""
        if kind != "recurrent":
            return vars(complete(getattr(self.kinds, kind), given))
        others = ("layers", "stack", "heads", "kinds")
        options: dict[str, Any] = {"layers": 1, "stack": (), "heads": {}}
        if given.get("unit", self.unit) != self.unit:  # whose options are not of that unit
            plain = {"form": None, "activation": None, "activation_trains": ()}
            options |= plain | {"peepholes": False, "smooth": False}
        layer = complete(replace(self, **options), given, without=others)
        if isinstance(layer.units, tuple):
            raise InputError(f"units is {list(layer.units)}; a layer has one number of units")
        return {key: value for key, value in vars(layer).items() if key not in others}

    def _check_unit(self) -> None:
        given = {key: value for key in UNIT_OPTIONS if (value := getattr(self, key))}
        try:
            unit = check_unit(self.unit, given)
        except InputError as error:
            raise InputError(f"model.{error}") from None  # it begins with the key
        if self.hand_on == "prob" and not unit.probabilistic:
            raise InputError(
                f"model.hand_on is prob, but {self.unit} computes no probabilities; use log"
            )


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """How the network is trained."""

    epochs: Count
    batch_sequences: Count
    batch_frames: Count
    device: Literal["auto", "cpu", "cuda"]
    precision: Literal["float32", "bfloat16"]
    criterion: Annotated[str, OneOf(CRITERIA)]
    optimizer: Annotated[str, OneOf(OPTIMIZERS)]
    learning_rate: Annotated[float, Within(1e-8, 10)]
    schedule: Annotated[str, OneOf(SCHEDULES)]
    halving_factor: Annotated[float, Within(0.01, 1)]
    improvement_threshold: Annotated[float, Within(-1, 1)]
    weight_decay: Share
    max_gradient_norm: Annotated[float, Within(1e-6, 1e9)]
    monophone_weight: Annotated[float, Within(0, 100)]
    freeze_activations: Annotated[int, Within(0, 100_000)]
    noise: Annotated[float, Within(0, 10)]
    tempo: Annotated[float, Within(0, 0.5)]
    save_minutes: Annotated[float, Within(0, 10_000)]
    max_bad_batches: Annotated[int, Within(0, 1_000_000)]
    max_returns: Annotated[int, Within(0, 100)]
    tensorboard: bool


@dataclass(frozen=True, kw_only=True)
class ScoreConfig:
    """How errors are counted."""

    metric: Literal["per", "wer"]
    costs: Literal["sclite", "levenshtein"]
    text: str
    conventions: tuple[str, ...]
    phone_map: Literal[48, 39] | None
    glm: str | None

    def __post_init__(self) -> None:
        if self.glm and self.costs != "sclite":
            raise InputError("score.glm scores as NIST's sclite; set score.costs to sclite")
        if self.glm and self.conventions:
            raise InputError("score.conventions are of texts; leave it empty with score.glm")
        names = [name.partition("=")[0] for name in self.conventions]
        if len(set(names)) < len(names):
            raise InputError(f"score.conventions names one twice: {', '.join(names)}")


@dataclass(frozen=True, kw_only=True)
class RecipeConfig:
    """How run.sh prepares the data of a recipe, and by what it knows its corpus."""

    offers: tuple[Literal["corpus", "dim", "force"], ...]
    source: str | None
    known_by: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Config:
    """Everything a run depends on, and what its recipe says, which no run compares or keeps."""

    seed: Annotated[int, Within(0, 2**31 - 1)]
    data: DataConfig
    features: FeatureConfig
    model: ModelConfig
    train: TrainConfig
    decode: DecodeConfig
    score: ScoreConfig
    recipe: RecipeConfig = field(compare=False)

    def save(self, path: Path) -> None:
        """Write it as YAML that `load` reads back; one that says so already stays."""
        text = as_yaml(self)
        if path.exists() and path.read_bytes() == text.encode():
            return
        with replacing(path) as temporary:
            temporary.write_text(text, encoding="utf-8")


def as_yaml(config: Config) -> str:
    """Every key that a run depends on, and its value, as YAML."""
    return yaml.safe_dump(_plain(config), sort_keys=False, allow_unicode=True)


def hints(kind: type) -> dict[str, Any]:
    """The keys of a section and their types, ranges included."""
    return get_type_hints(kind, include_extras=True)


def iter_typed_keys(kind: type = Config, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every key that a configuration has, as `section.key`, and its type."""
    for name, hint in hints(kind).items():
        if dataclasses.is_dataclass(hint):
            yield from iter_typed_keys(hint, f"{prefix}{name}.")  # type: ignore[arg-type]
        else:
            yield prefix + name, hint


def keys() -> Iterator[str]:
    """Every key that a configuration has, as `section.key`."""
    return (key for key, _ in iter_typed_keys())


def differences(old: Config, new: Config) -> dict[str, tuple[Any, Any]]:
    """Keys whose values differ, with both values; None where a mapping has no such name."""
    before, after = (dict(_flat(_plain(config))) for config in (old, new))
    pairs = {key: (before.get(key), after.get(key)) for key in before | after}
    return {key: (then, now) for key, (then, now) in pairs.items() if then != now}


def _plain(value: Any) -> Any:
    """Dataclasses and tuples as dicts and lists, without what is not compared."""
    if dataclasses.is_dataclass(value):
        compared = [f.name for f in dataclasses.fields(value) if f.compare]
        return {name: _plain(getattr(value, name)) for name in compared}
    return [_plain(v) for v in value] if isinstance(value, tuple) else value


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value

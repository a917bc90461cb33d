"""The keys of a configuration, their types and ranges.

A key whose type is a mapping holds values by names that the user chooses. Where these values are
sections, conf/base.yaml describes one of them, called NAME, which says what the others leave out.
"""

import dataclasses
import difflib
import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

import yaml

from bayes_asr.base.errors import InputError, nearest
from bayes_asr.base.files import replacing
from bayes_asr.config.decoding_keys import DecodeConfig, ScoreConfig
from bayes_asr.config.inputs import DataConfig, FeatureConfig, StreamConfig
from bayes_asr.config.model_keys import ModelConfig
from bayes_asr.config.training_keys import TrainConfig
from bayes_asr.config.values import NAME, Within, hints

ALIKE = 0.7  # names that are taken for slips of another
FIRST_STREAM = "features"
STREAM_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,49}")
TAKEN = re.compile(
    rf"features|cmvn|layer\d+|pdfs|monophones|classes|{NAME}"
)  # which mean something else


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

    @functools.cached_property
    def yaml(self) -> str:
        """Every key that a run depends on, and its value, as YAML."""
        return yaml.safe_dump(_plain(self), sort_keys=False, allow_unicode=True)

    def save(self, path: Path) -> None:
        """Write it as YAML that `load` reads back; one that says so already stays."""
        text = self.yaml
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


def are_alike(schema_key: str, key: str) -> bool:
    """Whether a key or section is one of the schema, where NAME stands for any name."""
    parts, words = schema_key.split("."), key.split(".")
    return len(parts) == len(words) and all(
        part in (word, NAME) for part, word in zip(parts, words, strict=True)
    )


def nearest_key(key: str) -> str:
    """Advice for a key that does not exist."""
    section, _, name = key.rpartition(".")
    # Likeness is negated because the best candidate comes first.
    candidates = sorted(
        (
            -alike,
            not are_alike(section_name, section),
            -_likeness(section_name, section),
            section_name.count("."),  # `unit` is model.unit sooner than model.decoder.unit
            f"{section_name}.{leaf}".lstrip("."),
        )
        for section_name, _, leaf in (key_path.rpartition(".") for key_path in keys())
        if (alike := _likeness(name, leaf)) >= ALIKE
    )
    if not candidates:
        return "bayes-asr config --explain lists all keys"
    _, is_elsewhere, *_, closest = candidates[0]
    if not is_elsewhere and section:
        closest = f"{section}.{closest.rpartition('.')[2]}"
    return f"did you mean {closest}?"


def _likeness(a: str, b: str) -> float:
    """From 0 to 1, for equal words; the names alone, as sections make all keys alike."""
    return difflib.SequenceMatcher(None, a, b).ratio()


def differences(old: Config, new: Config) -> dict[str, tuple[Any, Any]]:
    """Keys whose values differ, with both values; None where a mapping has no such name."""
    old_values, new_values = (dict(flatten(_plain(config))) for config in (old, new))
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


def flatten(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every key of nested mappings, as `section.key`, and its value."""
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value

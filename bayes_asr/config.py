"""The configuration: typed data with a closed vocabulary.

`conf/base.yaml` names every key once, with its default, unit and meaning; the classes here give types and ranges. A
configuration is base.yaml, overlaid by the files given, each after the files it includes, overlaid by `--set a.b=c`.
"""

import dataclasses
import difflib
import re
import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import yaml

from bayes_asr.errors import InputError
from bayes_asr.files import replacing

CONF = Path(__file__).resolve().parent.parent / "conf"


@dataclass(frozen=True, kw_only=True)
class SetConfig:
    """Where one set is: directories tried in order, relative to `data.dir`."""

    features: tuple[str, ...]
    alignments: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """Corpus directories and what is expected of them."""

    dir: str
    train: SetConfig
    dev: SetConfig
    test: SetConfig
    graph: tuple[str, ...]
    expected_dims: tuple[int, ...]
    held_out: float
    max_skipped: float

    def __post_init__(self) -> None:
        _within("data.held_out", self.held_out, 0, 0.5)
        _within("data.max_skipped", self.max_skipped, 0, 1)


@dataclass(frozen=True, kw_only=True)
class FeatureConfig:
    """From stored features to the network's input."""

    cmvn: Literal["none", "mean", "mean-variance"]
    deltas: int
    left_context: int
    right_context: int

    def __post_init__(self) -> None:
        _within("features.deltas", self.deltas, 0, 3)
        _within("features.left_context", self.left_context, 0, 50)
        _within("features.right_context", self.right_context, 0, 50)


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """The network."""

    unit: str
    layers: int
    units: int
    bidirectional: bool
    tied_directions: bool
    norm: Literal["batch", "none"]
    dropout: float
    input_dropout: float

    def __post_init__(self) -> None:
        _within("model.layers", self.layers, 1, 100)
        _within("model.units", self.units, 1, 100_000)
        _within("model.dropout", self.dropout, 0, 0.95)
        _within("model.input_dropout", self.input_dropout, 0, 0.95)


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """How the network is trained."""

    epochs: int
    batch_sequences: int
    batch_frames: int
    optimizer: Literal["adam", "rmsprop"]
    learning_rate: float
    schedule: Literal["newbob", "cosine"]
    halving_factor: float
    improvement_threshold: float
    weight_decay: float
    max_gradient_norm: float
    monophone_weight: float
    noise: float
    average: float

    def __post_init__(self) -> None:
        _within("train.epochs", self.epochs, 1, 100_000)
        _within("train.batch_sequences", self.batch_sequences, 1, 100_000)
        _within("train.batch_frames", self.batch_frames, 1, 10_000_000)
        _within("train.learning_rate", self.learning_rate, 1e-8, 10)
        _within("train.halving_factor", self.halving_factor, 0.01, 1)
        _within("train.weight_decay", self.weight_decay, 0, 1)
        _within("train.max_gradient_norm", self.max_gradient_norm, 1e-6, 1e9)
        _within("train.monophone_weight", self.monophone_weight, 0, 100)
        _within("train.noise", self.noise, 0, 10)
        _within("train.average", self.average, 0, 0.99999)


@dataclass(frozen=True, kw_only=True)
class DecodeConfig:
    """Search options, with the names and meanings of Kaldi's latgen-faster-mapped."""

    acoustic_scale: float
    beam: float
    lattice_beam: float
    max_active: int
    min_active: int
    lm_weights: tuple[float, ...]
    insertion_penalties: tuple[float, ...]

    def __post_init__(self) -> None:
        _within("decode.acoustic_scale", self.acoustic_scale, 1e-6, 1e3)
        _within("decode.beam", self.beam, 1e-3, 1e6)
        _within("decode.lattice_beam", self.lattice_beam, 1e-3, 1e6)
        _within("decode.max_active", self.max_active, 1, 2**31 - 1)
        _within("decode.min_active", self.min_active, 0, self.max_active)
        for weight in self.lm_weights:
            _within("decode.lm_weights", weight, 1e-3, 1e3)


@dataclass(frozen=True, kw_only=True)
class ScoreConfig:
    """How errors are counted."""

    metric: Literal["per", "wer"]
    costs: Literal["sclite", "levenshtein"]
    phone_map: int | None

    def __post_init__(self) -> None:
        if self.phone_map not in (None, 48, 39):
            raise InputError(f"score.phone_map is {self.phone_map}; it can be 48, 39 or null")


@dataclass(frozen=True, kw_only=True)
class Config:
    """Everything a run depends on."""

    seed: int
    data: DataConfig
    features: FeatureConfig
    model: ModelConfig
    train: TrainConfig
    decode: DecodeConfig
    score: ScoreConfig

    def __post_init__(self) -> None:
        _within("seed", self.seed, 0, 2**31 - 1)

    def save(self, path: Path) -> None:
        """Write it as YAML that `load` reads back to an equal configuration."""
        plain = yaml.safe_dump(_plain(self), sort_keys=False, allow_unicode=True)
        with replacing(path) as temporary:
            temporary.write_text(plain, encoding="utf-8")


def load(files: Sequence[Path], settings: Sequence[str] = ()) -> Config:
    """Merge base.yaml, `files` in order and `settings` (`a.b=c`, c is YAML) into a checked configuration.

    Raises InputError with the file and line for a key that does not exist, a wrong type or a value out of range.
    """
    values: dict[str, Any] = {}
    for path in (CONF / "base.yaml", *files):
        for source, layer in _layers(Path(path), ()):
            _overlay(values, layer, source)
    for setting in settings:
        _overlay(values, _parsed(setting), f"--set {setting}")
    return _built(Config, values, "")  # type: ignore[no-any-return]


def keys(kind: type = Config, prefix: str = "") -> Iterator[str]:
    """Every key that a configuration has, as `section.key`."""
    for name, hint in get_type_hints(kind).items():
        if dataclasses.is_dataclass(hint):
            yield from keys(hint, f"{prefix}{name}.")  # type: ignore[arg-type]
        else:
            yield prefix + name


def differences(old: Config, new: Config) -> dict[str, tuple[Any, Any]]:
    """Keys whose values differ, with both values."""
    flat_old, flat_new = (dict(_flat(_plain(c))) for c in (old, new))
    return {k: (flat_old[k], flat_new[k]) for k in flat_old if flat_old[k] != flat_new[k]}


@dataclass(frozen=True)
class _Located:
    """A value and where it was written."""

    value: Any
    where: str


class _Loader(yaml.SafeLoader):
    """YAML as plain data, in which repeated keys are errors and 1e-3 is a number."""


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+$"),
    list("-+0123456789."),
)


def _layers(path: Path, including: tuple[Path, ...]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The files that `path` includes, then itself, each as nested located values."""
    path = path.resolve()
    if path in including:
        raise InputError(f"{path}: includes itself through {' -> '.join(map(str, including))}")
    root = _compose(path)
    layer = _located(root, path) if root is not None else {}
    if not isinstance(layer, dict):
        raise InputError(f"{path}: a configuration is a mapping of keys to values")
    include = layer.pop("include", _Located([], str(path)))
    names = include.value if isinstance(include, _Located) else include
    for name in [names] if isinstance(names, str) else names:
        yield from _layers(_included(name, path), (*including, path))
    yield str(path), layer


def _compose(path: Path) -> yaml.Node | None:
    try:
        return yaml.compose(path.read_text(encoding="utf-8"), Loader=_Loader)
    except yaml.YAMLError as error:
        raise InputError(f"{path}: not YAML: {' '.join(str(error).split())}") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 at byte {error.start}; save it as UTF-8") from None


def _included(name: str, path: Path) -> Path:
    for candidate in (path.parent / name, CONF / name):
        if candidate.exists():
            return candidate
    raise InputError(f"{path}: includes {name}, which is neither beside it nor in {CONF}")


def _located(node: yaml.Node, path: Path) -> Any:
    """Nested dicts whose leaves remember their line."""
    where = f"{path}, line {node.start_mark.line + 1}"
    if not isinstance(node, yaml.MappingNode):
        loader = _Loader("")
        try:
            return _Located(loader.construct_object(node, deep=True), where)
        except yaml.YAMLError as error:
            raise InputError(f"{where}: {' '.join(str(error).split())}") from None
    values: dict[str, Any] = {}
    for key, value in node.value:
        if key.value in values:
            raise InputError(
                f"{path}, line {key.start_mark.line + 1}: {key.value} is there a second time"
            )
        values[key.value] = _located(value, path)
    return values


def _parsed(setting: str) -> dict[str, Any]:
    """`a.b=c` as nested located values."""
    key, equals, text = setting.partition("=")
    if not equals or not key:
        raise InputError(f"--set {setting}: write it as key=value, for instance train.epochs=24")
    try:
        value = yaml.load(text, Loader=_Loader)  # noqa: S506 - _Loader is a SafeLoader
    except yaml.YAMLError:
        raise InputError(f"--set {setting}: the value is not YAML") from None
    nested: Any = _Located(value, f"--set {setting}")
    for part in reversed(key.split(".")):
        nested = {part: nested}
    return nested  # type: ignore[no-any-return]


def _overlay(values: dict[str, Any], layer: Mapping[str, Any], source: str) -> None:
    for key, value in layer.items():
        if isinstance(value, Mapping) and isinstance(values.get(key), dict):
            _overlay(values[key], value, source)
        else:
            values[key] = dict(value) if isinstance(value, Mapping) else value


def _built(kind: type, values: Any, prefix: str) -> Any:
    """Make the dataclass `kind` of nested located values, checking keys and types."""
    if isinstance(values, _Located):
        raise InputError(
            f"{values.where}: {prefix.rstrip('.')} is a section of keys, not {values.value!r}"
        )
    hints = get_type_hints(kind)
    for key, value in values.items():
        if key not in hints:
            raise InputError(
                f"{_where(value)}: there is no key {prefix}{key}; {_nearest(prefix + key)}"
            )
    missing = [key for key in hints if key not in values]
    if missing:
        raise InputError(f"the key {prefix}{missing[0]} has no value; base.yaml should give it one")
    fields = {}
    for key, hint in hints.items():
        if dataclasses.is_dataclass(hint):
            fields[key] = _built(hint, values[key], f"{prefix}{key}.")  # type: ignore[arg-type]
        else:
            fields[key] = _typed(hint, values[key], prefix + key)
    try:
        return kind(**fields)
    except InputError as error:
        key = str(error).split()[0].removeprefix(prefix)
        where = _where(values[key]) if key in values else ""
        raise InputError(f"{where}: {error}") from None


def _typed(hint: Any, located: Any, key: str) -> Any:
    if isinstance(located, dict):
        raise InputError(f"{_where(located)}: {key} is one value, not a section of keys")
    value = _converted(hint, located.value)
    if value is _WRONG:
        raise InputError(
            f"{located.where}: {key} is {located.value!r}; it must be {_described(hint)}"
        )
    return value


_WRONG = object()


def _converted(hint: Any, value: Any) -> Any:
    """`value` as the type `hint`, or _WRONG; integers serve as floats, one value as a list of one."""
    origin = get_origin(hint)
    if origin is Literal:
        return value if value in get_args(hint) else _WRONG
    if origin in (Union, types.UnionType):
        converted = (_converted(option, value) for option in get_args(hint))
        return next((v for v in converted if v is not _WRONG), _WRONG)
    if origin is tuple:
        items = tuple(
            _converted(get_args(hint)[0], v)
            for v in (value if isinstance(value, list) else [value])
        )
        return _WRONG if any(v is _WRONG for v in items) else items
    if hint is types.NoneType:
        return None if value is None else _WRONG
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    return value if type(value) is hint else _WRONG


def _described(hint: Any) -> str:
    if get_origin(hint) is Literal:
        return "one of " + ", ".join(map(str, get_args(hint)))
    if get_origin(hint) is tuple:
        return f"a list of {_described(get_args(hint)[0])}"
    if get_origin(hint) in (Union, types.UnionType):
        return " or ".join(_described(option) for option in get_args(hint))
    names = {
        int: "a whole number",
        float: "a number",
        str: "text",
        bool: "true or false",
        types.NoneType: "null",
    }
    return names[hint]


def _nearest(key: str) -> str:
    known = list(keys())
    near = difflib.get_close_matches(key, known, 1, 0.5) or [
        k for k in known if k.rpartition(".")[2] == key.rpartition(".")[2]
    ]
    return f"did you mean {near[0]}?" if near else "conf/base.yaml lists all keys"


def _where(value: Any) -> str:
    while isinstance(value, dict):
        value = next(iter(value.values()), _Located(None, "an empty section"))
    return str(value.where)


def _within(key: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise InputError(f"{key} is {value}; it must lie between {low:g} and {high:g}")


def _plain(value: Any) -> Any:
    """Dataclasses and tuples as dicts and lists."""
    if dataclasses.is_dataclass(value):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    return [_plain(v) for v in value] if isinstance(value, tuple) else value


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value

"""Merging YAML files and settings into a checked configuration."""

import dataclasses
import functools
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, get_args

import yaml

from bayes_asr.base.errors import InputError, nearest
from bayes_asr.base.files import real_path
from bayes_asr.base.installed import CONF, find_configuration, split_system
from bayes_asr.config.catalogue import UNIT_OPTIONS
from bayes_asr.config.inputs import StreamConfig
from bayes_asr.config.located import (
    Located,
    compose,
    describe_problem,
    locate_plain,
    locate_values,
    parse,
)
from bayes_asr.config.schema import Config, flatten, nearest_key, section_of
from bayes_asr.config.systems import HYPOTHESES, SYSTEMS, choose_system
from bayes_asr.config.values import (
    NAME,
    convert,
    convert_name,
    describe,
    hints,
    list_choices,
    mapping_in,
    records_of,
)

SYNONYMS = {f"{kind}_first_of": kind for kind in ("features", "alignments")}
# What a later file or setting says of one replaces what an earlier one said of the other.
REPLACES = {kind: f"{kind}_all_of" for kind in SYNONYMS.values()}
REPLACES |= {together: kind for kind, together in REPLACES.items()}
MOST_LAYERS, MOST_NESTED = 500, 50  # files of a configuration, and one included by another
MOST_SHOWN = 60  # characters of a value in a message


ConfigLayer = Path | tuple[str, ...]
"""What stands over base.yaml: a file, or settings that stand between files."""


def load(files: Sequence[ConfigLayer], settings: Sequence[str] = ()) -> Config:
    """Merge base.yaml, `files` in order and `settings` (`a.b=c`, c is YAML) into a configuration.

    Files are those of `find_configuration`, or `FILE#SYSTEM` of a list of systems. A file's
    `include` (a name or a list) comes before the file. Raises InputError with the file and line for
    a key that does not exist, a wrong type or a value out of range.
    """
    values = merge(files, settings)
    config: Config = _built(Config, values, "")
    # The section NAME describes streams that no configuration mentions.
    plain = _built(StreamConfig, values["streams"][NAME], f"streams.{NAME}.")
    all_streams = {**dict.fromkeys(config.data.train.stream_names, plain), **config.streams}
    return dataclasses.replace(config, streams=all_streams)


def load_section(name: str, files: Sequence[Path], settings: Sequence[str] = ()) -> Any:
    """One section of what `load` gives; the others need not be complete without further files."""
    return _built(hints(Config)[name], merge(files, settings)[name], f"{name}.")


def list_files(path: Path) -> list[Path]:
    """The files that make up a configuration: those that it includes, then itself."""
    return [file for file, _ in _list_layers(find_configuration(path))]


def merge(files: Sequence[ConfigLayer], settings: Sequence[str] = ()) -> dict[str, Any]:
    """Nested located values of base.yaml, the files and the settings; the later win."""
    values: dict[str, Any] = {}
    # The defaults are laid over nothing, which copies them: the cache stays as it is.
    _overlay(values, _defaults())
    for source in (*files, tuple(settings)):
        if isinstance(source, tuple):
            _lay_over(values, list(map(_parse_setting, source)))
        else:
            for _, layer in _list_layers(find_configuration(Path(source))):
                _lay_over(values, [layer])
    return values


def _lay_over(values: dict[str, Any], layers: Sequence[Mapping[str, Any]]) -> None:
    """Lay a file, or all settings, over others. Where another unit is named than a file before
    named, the options that were said of that one are those of base.yaml again.
    """
    previous = _find_unit(values)
    for layer in layers:
        _overlay(values, layer, _defaults())
    unit, defaults = _find_unit(values), _defaults()["model"]
    if unit and previous not in (None, defaults["unit"]) and unit.value != previous.value:
        named = {key for layer in layers for key, _ in flatten(layer)}
        for option in UNIT_OPTIONS:
            if f"model.{option}" not in named:
                plain = defaults[option].value
                values["model"][option] = Located(plain, unit.where, unit.file)


def _find_unit(values: Mapping[str, Any]) -> Located | None:
    """The unit as it stands; None where something else stands there, which is refused later."""
    unit = values["model"].get("unit") if isinstance(values["model"], dict) else None
    return unit if isinstance(unit, Located) else None


@functools.cache
def _defaults() -> dict[str, Any]:
    """Nested located values of base.yaml, which is read once: that takes longest of all."""
    ((_, layer),) = _layers(find_configuration(CONF / "base.yaml"), ())
    return layer


def _list_layers(path: Path) -> list[tuple[Path, dict[str, Any]]]:
    """All of `_layers`; InputError for more than MOST_LAYERS, which files that fan out reach."""
    layers = list(islice(_layers(path, ()), MOST_LAYERS + 1))
    if len(layers) > MOST_LAYERS:
        raise InputError(f"{path}: includes more than {MOST_LAYERS} files, each time counted")
    return layers


def _layers(path: Path, including: tuple[Path, ...]) -> Iterator[tuple[Path, dict[str, Any]]]:
    """The files that `path` includes, then itself, each with its nested located values."""
    path = real_path(path)
    if path in including or len(including) == MOST_NESTED:
        fault = "includes itself" if path in including else f"the file {MOST_NESTED + 1}"
        raise InputError(f"{path}: {fault} through {' -> '.join(map(str, including))}")
    including = (*including, path)
    # The cycle is looked for by FILE#SYSTEM, as one system may include another of its list.
    path, system = split_system(path)
    root = compose(path)
    layer = locate_values(root, path) if root is not None else {}
    if not isinstance(layer, dict):
        raise InputError(f"{path}: a configuration is a mapping of keys to values")
    systems = layer.pop(SYSTEMS, None)
    layer.pop(HYPOTHESES, None)
    # The common part of a list lies below the system, whose own includes come between.
    if system or systems is not None:
        yield from _expand(layer, path, including)
        layer = choose_system(systems, system, path)
    yield from _expand(layer, path, including)


def _expand(
    layer: dict[str, Any], path: Path, including: tuple[Path, ...]
) -> Iterator[tuple[Path, dict[str, Any]]]:
    """The files that a mapping includes, then the mapping without that key."""
    include = layer.pop("include", Located([], str(path)))
    names = include.value if isinstance(include, Located) else None
    names = [names] if isinstance(names, str) else names
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise InputError(f"{path}: include is a file name or a list of them")
    for name in names:
        yield from _layers(_find_include(name, path), including)
    yield path, layer


def _find_include(name: str, path: Path) -> Path:
    for candidate in (path.parent / name, CONF / name):
        if split_system(candidate)[0].exists():
            return candidate
    raise InputError(f"{path}: includes {name}, which is neither beside it nor in {CONF}")


def _parse_setting(setting: str) -> dict[str, Any]:
    """`a.b=c` as nested located values."""
    key, equals, text = setting.partition("=")
    if not equals or not key:
        raise InputError(f"--set {setting}: write it as key=value, for instance train.epochs=24")
    try:
        value = parse(text)
    except (yaml.YAMLError, ValueError) as error:
        problem = f"the value is not YAML: {describe_problem(error)}"
        raise InputError(f"--set {setting[:MOST_SHOWN]}: {problem}") from None
    shown = setting if len(setting) <= MOST_SHOWN else f"{setting[:MOST_SHOWN]}..."
    return {key: locate_plain(value, f"--set {shown}")}


def _overlay(
    values: dict[str, Any], layer: Mapping[str, Any], defaults: Mapping[str, Any] | None = None
) -> None:
    """Lay nested located values over others; `a.b: c` is `a: {b: c}`. defaults: of base.yaml."""
    for name, value in layer.items():
        head, dot, tail = name.partition(".")
        key = SYNONYMS.get(name, head)
        if dot or isinstance(value, dict):
            default = (defaults or {}).get(key)
            if not isinstance(values.get(key), dict) or (not dot and _is_whole(value, default)):
                values[key] = {}
            below = {tail: value} if dot else value
            _overlay(values[key], below, default if isinstance(default, dict) else None)
            continue
        # A synonym and its key in one layer contradict each other.
        if key != name and key in layer and isinstance(value, Located):
            raise InputError(f"{value.where}: {name} is another name of {key}; keep one of them")
        values[key] = value
        replaced = REPLACES.get(key)
        # What a lower layer said of the counterpart is emptied, and of this layer both may stand.
        if replaced in values and replaced not in layer and isinstance(value, Located):
            values[replaced] = Located([], value.where)


def _is_whole(mapping: Mapping[str, Any], default: Any) -> bool:
    """Whether a mapping takes the place of an earlier one: a schedule, which begins with epoch 1,
    and {} where base.yaml has no section.
    """
    if not mapping:
        return default == {} or isinstance(default, Located)
    return "1" in mapping and all(map(str.isdecimal, mapping))


def _built(kind: type, values: Any, prefix: str) -> Any:
    """Make the dataclass `kind` of nested located values, checking keys, types and ranges."""
    if isinstance(values, Located):
        raise InputError(
            f"{values.where}: {prefix.rstrip('.')} is a section of keys, not {_shown(values.value)}"
        )
    typed, optional = hints(kind), _list_optional(kind)
    for key, value in values.items():
        if key not in typed:
            full, leaf = _first_leaf(prefix + key, value)
            in_list = f"known: {', '.join(typed)}{nearest(key, typed)}"
            advice = in_list if optional else nearest_key(full)
            raise InputError(f"{leaf.where}: there is no key {full}; {advice}")
    fields: dict[str, Any] = {}
    for key, hint in typed.items():
        if key in optional and key not in values:
            continue
        if key not in values:
            where = _first_leaf("", values)[1].where if optional else CONF / "base.yaml"
            raise InputError(f"{where}: {prefix}{key} has no value; give it one")
        mapping = mapping_in(hint)
        if mapping is hint or (mapping and isinstance(values[key], dict)):
            fields[key] = _built_mapping(mapping, values[key], f"{prefix}{key}.")
        elif dataclasses.is_dataclass(hint):
            fields[key] = _built(hint, values[key], f"{prefix}{key}.")  # type: ignore[arg-type]
        elif records_of(hint):
            fields[key] = _built_records(records_of(hint), values[key], prefix + key)
        else:
            fields[key] = _convert_leaf(hint, values[key], prefix + key)
    try:
        return kind(**fields)
    except InputError as error:  # a rule of the section, whose message begins with a key
        message = str(error) if str(error).startswith(prefix) else f"{prefix}{error}"
        raise InputError(
            f"{_find_where(values, message.removeprefix(prefix))}: {message}"
        ) from None


def _list_optional(kind: type) -> set[str]:
    """The keys of an item of a list that need not be given; base.yaml gives all others."""
    missing = dataclasses.MISSING
    return {
        field.name
        for field in dataclasses.fields(kind)
        if field.default is not missing or field.default_factory is not missing
    }


def _built_mapping(hint: Any, values: Any, prefix: str) -> dict[Any, Any]:
    """Make the values of a mapping, in the order of their names; null takes one out.

    What a section leaves out is that of the section NAME.
    """
    if isinstance(values, Located):
        what = f"{prefix.rstrip('.')} is {_shown(values.value)}"
        raise InputError(f"{values.where}: {what}; it must be a mapping of names to values")
    kind = section_of(hint)
    if kind is None:
        sections = {
            name: _convert_leaf(get_args(hint)[1], leaf, prefix + name)
            for name, leaf in flatten(values)
            if leaf.value is not None
        }
    else:
        sections = {
            # NAME holds the defaults of each section, and is no section of its own.
            name: _built(kind, _complete(values[NAME], section), f"{prefix}{name}.")
            for name, section in _join_names(values, hints(kind))
            if name != NAME and getattr(section, "value", section) is not None
        }
    return dict(
        sorted(
            (_convert_name(hint, name, values, prefix), built) for name, built in sections.items()
        )
    )


def _join_names(
    values: Mapping[str, Any], section_keys: Mapping[str, Any], prefix: str = ""
) -> Iterator[tuple[str, Any]]:
    """Names, which may have dots, and their sections, whose keys are `section_keys`."""
    for name, section in values.items():
        inner = section.values() if isinstance(section, dict) else ()
        # A dict of dicts without a known key is a part of a name that has dots.
        if (
            inner
            and not section.keys() & section_keys.keys()
            and all(isinstance(x, dict) for x in inner)
        ):
            yield from _join_names(section, section_keys, f"{prefix}{name}.")
        else:
            yield prefix + name, section


def _convert_name(hint: Any, name: str, values: Mapping[str, Any], prefix: str) -> Any:
    name_type = get_args(hint)[0]
    try:
        return convert_name(name_type, name)
    except ValueError:
        where = _find_where(values, name)
        shown = name[:MOST_SHOWN]
        raise InputError(
            f"{where}: {prefix.rstrip('.')} names {shown}; it must be {describe(name_type)},"
            " an epoch"
        ) from None


def _built_records(kind: type, located: Any, key: str) -> tuple[Any, ...]:
    """Make a list of the dataclass `kind`, whose defaults are what an item leaves out."""
    items = getattr(located, "value", None)
    if not isinstance(items, list):
        leaf = _first_leaf(key, located)[1]
        raise InputError(f"{leaf.where}: {key} is a list of sections with {', '.join(hints(kind))}")
    return tuple(
        _built(kind, locate_plain(item, located.where), f"{key}.{number}.")
        for number, item in enumerate(items, start=1)
    )


def _complete(default: Mapping[str, Any], section: Any) -> Any:
    """A section of a mapping, with what it leaves out."""
    if isinstance(section, Located):
        return section
    values: dict[str, Any] = {}
    _overlay(values, default)
    _overlay(values, section)
    return values


def _find_where(values: Any, message: str) -> str:
    """The place of the key with which a message begins, as far as it is one."""
    for part in message.split()[0].split("."):
        values = values.get(part, values) if isinstance(values, dict) else values
    return _first_leaf("", values)[1].where


def _convert_leaf(hint: Any, located: Any, key: str) -> Any:
    if isinstance(located, dict):
        _, leaf = _first_leaf(key, located)
        raise InputError(f"{leaf.where}: {key} is one value, not a section of keys")
    try:
        return convert(hint, located.value)
    except ValueError:
        raise InputError(
            f"{located.where}: {key} is {_shown(located.value)}; it must be {describe(hint)}"
            f"{nearest(located.value, list_choices(hint))}"
        ) from None


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}..."


def _first_leaf(key: str, value: Any) -> tuple[str, Located]:
    """The first value below `key` and its own full key."""
    while isinstance(value, dict):
        name, value = next(iter(value.items()), ("", Located(None, "an empty section")))
        key = f"{key}.{name}"
    return key, value

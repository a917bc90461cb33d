"""Merging YAML files and settings into a checked configuration."""

import dataclasses
import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_origin

import yaml

from bayes_asr.catalogue import nearest as suggest
from bayes_asr.config.schema import Config, hints, keys
from bayes_asr.config.values import convert, describe, list_choices
from bayes_asr.errors import InputError
from bayes_asr.files import read_text
from bayes_asr.installed import CONF, find_configuration

SYNONYMS = {f"{kind}_first_of": kind for kind in ("features", "alignments")}
# What a later file or setting says of one replaces what an earlier one said of the other.
REPLACES = {kind: f"{kind}_all_of" for kind in SYNONYMS.values()}
REPLACES |= {other: kind for kind, other in REPLACES.items()}
LONGEST_FILE = 1 << 16  # bytes
DEEPEST = 20
ALIKE = 0.7  # names that are taken for slips of another
MOST_SHOWN = 60  # characters of a value in a message


@dataclass(frozen=True)
class Located:
    """A value, where it was written, and in which file; None: not in a file."""

    value: Any
    where: str
    file: Path | None = None


def load(files: Sequence[Path], settings: Sequence[str] = ()) -> Config:
    """Merge base.yaml, `files` in order and `settings` (`a.b=c`, c is YAML) into a configuration.

    Files are those of `find_configuration`. A file's `include` (a name or a list) comes before the
    file. Raises InputError with the file and line for a key that does not exist, a wrong type or a
    value out of range.
    """
    config: Config = _built(Config, merge(files, settings), "")
    return config


def load_section(name: str, files: Sequence[Path]) -> Any:
    """One section of what `load` gives; the others need not be complete without further files."""
    return _built(hints(Config)[name], merge(files)[name], f"{name}.")


def list_files(path: Path) -> list[Path]:
    """The files that make up a configuration: those that it includes, then itself."""
    return [file for file, _ in _layers(path, ())]


def merge(files: Sequence[Path], settings: Sequence[str] = ()) -> dict[str, Any]:
    """Nested located values of base.yaml, the files and the settings; the later win."""
    values: dict[str, Any] = {}
    for path in (CONF / "base.yaml", *files):
        for _, layer in _layers(find_configuration(Path(path)), ()):
            _overlay(values, layer)
    for setting in settings:
        _overlay(values, _parse_setting(setting))
    return values


def compose(path: Path) -> yaml.Node | None:
    """The YAML nodes of a file, with their lines; None if it is empty."""
    try:
        return yaml.compose(read_text(path, LONGEST_FILE), Loader=_Loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{path}, line {mark.line + 1}" if mark else str(path)
        raise InputError(f"{where}: not YAML: {_problem(error)}") from None


def nearest(key: str) -> str:
    """Advice for a key that does not exist."""
    section, _, name = key.rpartition(".")
    near = sorted(
        (-alike, -_likeness(section, other.rpartition(".")[0]), other)
        for other in keys()
        if (alike := _likeness(name, other.rpartition(".")[2])) >= ALIKE
    )
    return f"did you mean {near[0][2]}?" if near else "bayes-asr config --explain lists all keys"


def _likeness(one: str, other: str) -> float:
    """From 0 to 1, for equal words; the names alone, as sections make all keys alike."""
    return difflib.SequenceMatcher(None, one, other).ratio()


class _Loader(yaml.SafeLoader):
    """YAML as plain data, in which 1e-3 is a number.

    Without aliases, which can double a value forty times in forty lines, and without tags.
    """

    _depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event = self.peek_event()
        unwanted = ""
        if isinstance(event, yaml.AliasEvent):
            unwanted = f"the alias *{event.anchor}; write the value itself"
        elif getattr(event, "tag", None) is not None:
            unwanted = f"the tag {event.tag}; values are plain here"
        elif self._depth == DEEPEST:
            unwanted = f"more than {DEEPEST} levels"
        if unwanted:
            raise yaml.composer.ComposerError(None, None, unwanted, event.start_mark)
        self._depth += 1
        node: yaml.Node | None = super().compose_node(parent, index)
        self._depth -= 1
        return node


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+$"),
    list("-+0123456789."),
)


def _problem(error: Exception) -> str:
    """What is wrong, without the excerpt that PyYAML draws."""
    said = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)
    return " ".join(str(said).split())


def _layers(path: Path, including: tuple[Path, ...]) -> Iterator[tuple[Path, dict[str, Any]]]:
    """The files that `path` includes, then itself, each with its nested located values."""
    path = path.resolve()
    if path in including:
        raise InputError(f"{path}: includes itself through {' -> '.join(map(str, including))}")
    root = compose(path)
    layer = _locate_values(root, path) if root is not None else {}
    if not isinstance(layer, dict):
        raise InputError(f"{path}: a configuration is a mapping of keys to values")
    include = layer.pop("include", Located([], str(path)))
    names = include.value if isinstance(include, Located) else None
    names = [names] if isinstance(names, str) else names
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise InputError(f"{path}: include is a file name or a list of them")
    for name in names:
        yield from _layers(_find_include(name, path), (*including, path))
    yield path, layer


def _find_include(name: str, path: Path) -> Path:
    for candidate in (path.parent / name, CONF / name):
        if candidate.exists():
            return candidate
    raise InputError(f"{path}: includes {name}, which is neither beside it nor in {CONF}")


def _locate_values(node: yaml.Node, path: Path) -> Any:
    """Nested dicts whose leaves remember their line; a repeated key is an error."""
    where = f"{path}, line {node.start_mark.line + 1}"
    if not isinstance(node, yaml.MappingNode):
        try:
            return Located(_Loader("").construct_object(node, deep=True), where, path)
        except (yaml.YAMLError, ValueError) as error:  # such as a date that does not exist
            raise InputError(f"{where}: not a value: {_problem(error)}") from None
    values: dict[str, Any] = {}
    for key, value in node.value:
        line = f"{path}, line {key.start_mark.line + 1}"
        if not isinstance(key, yaml.ScalarNode):
            raise InputError(f"{line}: a key is a word")
        if key.value in values:
            raise InputError(f"{line}: {key.value} is there a second time")
        values[key.value] = _locate_values(value, path)
    return values


def _parse_setting(setting: str) -> dict[str, Any]:
    """`a.b=c` as nested located values."""
    key, equals, text = setting.partition("=")
    if not equals or not key:
        raise InputError(f"--set {setting}: write it as key=value, for instance train.epochs=24")
    try:
        value = yaml.load(text, Loader=_Loader)  # noqa: S506 - _Loader is a SafeLoader
    except (yaml.YAMLError, ValueError) as error:
        said = f"the value is not YAML: {_problem(error)}"
        raise InputError(f"--set {setting[:MOST_SHOWN]}: {said}") from None
    first, *below = key.split(".")
    shown = setting if len(setting) <= MOST_SHOWN else f"{setting[:MOST_SHOWN]}..."
    nested: Any = Located(value, f"--set {shown}")
    for part in reversed(below):
        nested = {part: nested}
    return {first: nested}


def _overlay(values: dict[str, Any], layer: Mapping[str, Any]) -> None:
    for name, value in layer.items():
        key = SYNONYMS.get(name, name)
        if isinstance(value, dict) and isinstance(values.get(key), dict):
            _overlay(values[key], value)
            continue
        if key != name and key in layer and isinstance(value, Located):
            raise InputError(f"{value.where}: {name} is another name of {key}; keep one of them")
        values[key] = value
        replaced = REPLACES.get(key)
        if replaced in values and replaced not in layer and isinstance(value, Located):
            values[replaced] = Located([], value.where)


def _built(kind: type, values: Any, prefix: str) -> Any:
    """Make the dataclass `kind` of nested located values, checking keys, types and ranges."""
    if isinstance(values, Located):
        raise InputError(
            f"{values.where}: {prefix.rstrip('.')} is a section of keys, not {_shown(values.value)}"
        )
    known = hints(kind)
    for key, value in values.items():
        if key not in known:
            full, leaf = _first_leaf(prefix + key, value)
            raise InputError(f"{leaf.where}: there is no key {full}; {nearest(full)}")
    fields = {}
    for key, hint in known.items():
        if key not in values:
            raise InputError(f"{CONF / 'base.yaml'}: {prefix}{key} has no value; give it one")
        if dataclasses.is_dataclass(hint):
            fields[key] = _built(hint, values[key], f"{prefix}{key}.")  # type: ignore[arg-type]
        else:
            fields[key] = _convert_leaf(hint, values[key], prefix + key)
    try:
        return kind(**fields)
    except InputError as error:  # a rule of the section, whose message begins with a key
        said = str(error) if str(error).startswith(prefix) else f"{prefix}{error}"
        key = said.split()[0].removeprefix(prefix)
        raise InputError(f"{values[key].where}: {said}") from None


def _convert_leaf(hint: Any, located: Any, key: str) -> Any:
    if isinstance(located, dict) and get_origin(hint) is Mapping:
        first = next(iter(located.values()), None)
        where = _first_leaf(key, first)[1].where if first else str(CONF / "base.yaml")
        located = Located(_strip_places(located), where)
    if isinstance(located, dict):
        _, leaf = _first_leaf(key, located)
        raise InputError(f"{leaf.where}: {key} is one value, not a section of keys")
    try:
        return convert(hint, located.value)
    except ValueError:
        raise InputError(
            f"{located.where}: {key} is {_shown(located.value)}; it must be {describe(hint)}"
            f"{suggest(located.value, list_choices(hint))}"
        ) from None


def _strip_places(located: Any) -> Any:
    """Nested values without where they were written."""
    if isinstance(located, dict):
        return {name: _strip_places(value) for name, value in located.items()}
    return located.value


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}..."


def _first_leaf(key: str, value: Any) -> tuple[str, Located]:
    """The first value below `key` and its own full key."""
    while isinstance(value, dict):
        name, value = next(iter(value.items()), ("", Located(None, "an empty section")))
        key = f"{key}.{name}"
    return key, value

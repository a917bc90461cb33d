"""YAML as plain values that remember where they were written."""

import functools
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import read_text

LONGEST_FILE = 1 << 16  # bytes
DEEPEST = 20


@dataclass(frozen=True)
class Located:
    """A value, where it was written, and in which file; None: not in a file."""

    value: Any
    where: str
    file: Path | None = None


def compose(path: Path) -> yaml.Node | None:
    """The YAML nodes of a file, with their lines; None if it is empty."""
    try:
        return _compose(read_text(path, LONGEST_FILE))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{path}, line {mark.line + 1}" if mark else str(path)
        raise InputError(f"{where}: not YAML: {describe_problem(error)}") from None


@functools.lru_cache(maxsize=100)
def _compose(text: str) -> yaml.Node | None:
    """The nodes of a text, which nobody changes: a verb reads the file of its run several times."""
    node: yaml.Node | None = yaml.compose(text, Loader=_Loader)
    return node


def parse(text: str) -> Any:
    """The plain value of a text of YAML; yaml.YAMLError, ValueError where it is none."""
    return yaml.load(text, Loader=_Loader)  # noqa: S506 - _Loader is a SafeLoader


def locate_values(node: yaml.Node, path: Path) -> Any:
    """Nested dicts whose leaves remember their line; a repeated key is an error."""
    # The loader has no text: it makes the values of nodes that were read before.
    return _locate(node, path, _Loader(""))


def _locate(node: yaml.Node, path: Path, loader: "_Loader") -> Any:
    where = f"{path}, line {node.start_mark.line + 1}"
    if not isinstance(node, yaml.MappingNode):
        try:
            return Located(loader.construct_object(node, deep=True), where, path)
        except (yaml.YAMLError, ValueError) as error:  # such as a date that does not exist
            raise InputError(f"{where}: not a value: {describe_problem(error)}") from None
    values: dict[str, Any] = {}
    for key, value in node.value:
        line = f"{path}, line {key.start_mark.line + 1}"
        if not isinstance(key, yaml.ScalarNode):
            raise InputError(f"{line}: a key is a word")
        if key.value in values:
            raise InputError(f"{line}: {key.value} is there a second time")
        values[key.value] = _locate(value, path, loader)
    return values


def locate_plain(value: Any, where: str) -> Any:
    """A mapping as nested dicts, all of whose leaves are written at one place."""
    if not isinstance(value, dict):
        return Located(value, where)
    return {str(key): locate_plain(below, where) for key, below in value.items()}


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

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        names = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        # PyYAML would take the last one.
        if repeated := [name for name in names if names.count(name) > 1]:
            problem = f"{repeated[0]} is there a second time"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)
        return super().construct_mapping(node, deep)


# YAML 1.1 takes 1e-3, without a point, for a text, 017 for 15 and 1:30 for 90.
_Loader.yaml_implicit_resolvers = {
    first: [pair for pair in pairs if not pair[0].endswith((":int", ":float"))]
    for first, pairs in _Loader.yaml_implicit_resolvers.items()
}
WHOLE = r"[-+]?(0|[1-9][\d_]*|0x[\da-fA-F_]+)$"
REAL = r"[-+]?((\d+\.\d*|\.\d+)([eE][-+]?\d+)?|\d+[eE][-+]?\d+|\.inf)$|\.nan$"
for kind, form in (("int", WHOLE), ("float", REAL)):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{kind}", re.compile(form), [*"-+.0123456789"])


def describe_problem(error: Exception) -> str:
    """The problem in words, without the excerpt that PyYAML draws."""
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)
    return " ".join(str(problem).split())

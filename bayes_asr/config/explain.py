"""The meaning of a key: its comment in conf/base.yaml, its type and range, its default."""

from collections.abc import Iterator

import yaml

from bayes_asr.base.errors import InputError
from bayes_asr.base.installed import CONF
from bayes_asr.config.located import compose
from bayes_asr.config.merge import SYNONYMS, nearest
from bayes_asr.config.schema import find_key, iter_typed_keys
from bayes_asr.config.values import describe


def explain(query: str) -> str:
    """Explain the key or every key of the section `query`, of "" all; InputError for none."""
    *section, name = query.split(".")
    query = find_key(".".join((*section, SYNONYMS.get(name, name))))
    path = CONF / "base.yaml"
    lines = path.read_text(encoding="utf-8").splitlines()
    values = dict(_values(compose(path)))
    below = f"{query}." if query else ""
    # The dot behind both keeps `train.epoch` from matching `train.epochs`.
    matches = [(k, hint) for k, hint in iter_typed_keys() if f"{k}.".startswith(below)]
    if not matches:
        raise InputError(f"there is no key {query}; {nearest(query)}")
    paragraphs = []
    for key, hint in matches:
        value, meaning = _value_and_comment(lines, values[key])
        paragraphs.append(f"{key}: {meaning}\n    {describe(hint)}; default {value}")
    return "\n".join(paragraphs)


def _values(node: yaml.Node | None, prefix: str = "") -> Iterator[tuple[str, yaml.Node]]:
    """The node of every value, by its key; an empty mapping is one."""
    if isinstance(node, yaml.MappingNode) and node.value:
        for key, value in node.value:
            yield from _values(value, f"{prefix}{key.value}.")
    elif node is not None:
        yield prefix.rstrip("."), node


def _value_and_comment(lines: list[str], node: yaml.Node) -> tuple[str, str]:
    """A value as it is written, and what stands behind it on its line."""
    # The comment behind a value in base.yaml is its documentation.
    line, start, end = lines[node.end_mark.line], node.start_mark.column, node.end_mark.column
    return line[start:end], line[end:].strip().lstrip("# ")

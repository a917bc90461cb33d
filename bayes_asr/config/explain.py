"""The meaning of a key: its comment in conf/base.yaml, its type and range, its default."""

from collections.abc import Iterator, Mapping
from typing import get_origin

import yaml

from bayes_asr.base.errors import InputError
from bayes_asr.base.installed import CONF
from bayes_asr.config.located import compose
from bayes_asr.config.merge import SYNONYMS
from bayes_asr.config.schema import are_alike, iter_typed_keys, keys, nearest_key
from bayes_asr.config.values import describe


def explain(query: str) -> str:
    """Explain the key or every key of the section `query`, of "" all; InputError for none."""
    *section, name = query.split(".")
    query = _find_key(".".join((*section, SYNONYMS.get(name, name))))
    path = CONF / "base.yaml"
    lines = path.read_text(encoding="utf-8").splitlines()
    values = dict(_values(compose(path)))
    below = f"{query}." if query else ""
    # The dot behind both keeps `train.epoch` from matching `train.epochs`.
    matches = [(k, hint) for k, hint in iter_typed_keys() if f"{k}.".startswith(below)]
    if not matches:
        raise InputError(f"there is no key {query}; {nearest_key(query)}")
    paragraphs = []
    for key, hint in matches:
        value, meaning = _value_and_comment(lines, values[key])
        paragraphs.append(f"{key}: {meaning}\n    {describe(hint)}; default {value}")
    return "\n".join(paragraphs)


def _find_key(key: str) -> str:
    """The key of conf/base.yaml that says what a key with names of a user's means.

    `streams.fbank.deltas` is `streams.NAME.deltas`, `data.train.streams.fbank` is
    `data.train.streams`, and the section `streams.fbank` is `streams.NAME`; any other is itself.
    """
    for typed_key, hint in iter_typed_keys():
        depth = typed_key.count(".") + 1
        # Below a mapping of plain values stand names of a user's, which the schema has not.
        words = key.split(".")[:depth] if get_origin(hint) is Mapping else key.split(".")
        if are_alike(typed_key, ".".join(words)):
            return typed_key
    section, _, name = key.rpartition(".")
    if any(are_alike(typed_key, f"{section}.NAME.{name}") for typed_key in keys()):
        return key  # the name was forgotten
    sections = (".".join(typed_key.split(".")[: key.count(".") + 1]) for typed_key in keys())
    return next((section for section in sections if are_alike(section, key)), key)


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

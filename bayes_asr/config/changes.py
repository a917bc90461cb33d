"""What a configuration changes that its recipe has decided."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bayes_asr.config.merge import Located, list_files, merge
from bayes_asr.installed import CONF


def find_recipe_folders(config: Path) -> list[Path]:
    """The folder of a recipe's configuration, then those of the recipes that it builds on.

    A recipe builds on another by including its configuration, which has the same name.
    """
    files = [file for file in list_files(config) if file.name == config.name]
    return [file.parent for file in reversed(files)]


def describe_changes(files: Sequence[Path]) -> list[str]:
    """A line for each file that changes what the recipe, the first of `files`, sets.

    Whatever else lies in a folder of the recipe belongs to it. A value that stands in base.yaml
    alone was nobody's decision, so that it may be changed in silence.
    """
    folders = find_recipe_folders(files[0])
    recipe = [file for file in files if file.resolve().parent in folders]
    decided, final = (dict(_flatten(merge(some))) for some in (recipe, files))
    changes: dict[Path | None, list[str]] = {}
    for key, before in decided.items():
        now = final.get(key, before)  # a name that is taken out of a mapping has none
        if before.file != (CONF / "base.yaml").resolve() and now.value != before.value:
            changes.setdefault(now.file, []).append(f"{key} {before.value} -> {now.value}")
    return [
        f"{file} changes what the recipe {folders[0].name} sets: {', '.join(keys)}"
        for file, keys in changes.items()
    ]


def _flatten(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Located]]:
    """Every key and its located value."""
    for key, value in values.items():
        if isinstance(value, Located):
            yield prefix + key, value
        else:
            yield from _flatten(value, f"{prefix}{key}.")

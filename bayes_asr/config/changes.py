"""Values of its recipe that a configuration changes."""

from collections.abc import Sequence
from pathlib import Path

from bayes_asr.base.files import real_path
from bayes_asr.base.installed import CONF, find_configuration
from bayes_asr.config.merge import list_files, merge
from bayes_asr.config.schema import flatten

PRESETS = ("pytorch-kaldi.yaml",)
"""Files of `conf` that bring the semantics of another program."""


def find_recipe_folders(config: Path) -> list[Path]:
    """The folder of a recipe's configuration, then those of the recipes that it builds on.

    A recipe builds on another by including its configuration, which has the same name.
    """
    files = [file for file in list_files(config) if file.name == config.name]
    # Included files come first, so the reversed order begins with the recipe itself.
    return [file.parent for file in reversed(files)]


def describe_presets(files: Sequence[Path]) -> list[str]:
    """A line for each file that makes a training compute as another program does."""
    read = {real_path(file) for path in files for file in list_files(path)}
    lines = []
    # Presets are resolved, since a file may be reached by several spellings.
    for preset in sorted(read & {real_path(CONF / name) for name in PRESETS}):
        entries = flatten(merge([preset]))
        keys = (f"{key} {located.value}" for key, located in entries if located.file == preset)
        lines.append(f"{preset} is on: {', '.join(keys)}")
    return lines


def describe_changes(files: Sequence[Path]) -> list[str]:
    """A line for each file that changes what the recipe, the first of `files`, sets.

    Whatever else lies in a folder of the recipe belongs to it. A value that stands in base.yaml
    alone was nobody's decision, so that it may be changed in silence.
    """
    files = [find_configuration(file) for file in files]
    folders = find_recipe_folders(files[0])
    recipe = [file for file in files if real_path(file).parent in folders]
    # What the recipe decides is compared with what is valid in the end.
    decided, final = (dict(flatten(merge(sources))) for sources in (recipe, files))
    changes: dict[Path | None, list[str]] = {}
    for key, old in decided.items():
        now = final.get(key, old)  # a name that is taken out of a mapping has none
        if old.file != real_path(CONF / "base.yaml") and now.value != old.value:
            changes.setdefault(now.file, []).append(f"{key} {old.value} -> {now.value}")
    return [
        f"{file} changes what the recipe {folders[0].name} sets: {', '.join(keys)}"
        for file, keys in changes.items()
    ]

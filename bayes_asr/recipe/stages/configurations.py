"""The configurations of a recipe's systems, checked before any stage has begun."""

from collections.abc import Iterator
from pathlib import Path

from bayes_asr.config.changes import describe_changes
from bayes_asr.config.merge import load
from bayes_asr.recipe.stages.options import RecipeOptions
from bayes_asr.recipe.stages.recipe import CONFIG, Recipe
from bayes_asr.recipe.stages.systems import Systems
from bayes_asr.tasks.task import task_of

WITHOUT_GMMS = "without_kaldi.yaml"


def check_configurations(
    options: RecipeOptions, recipe: Recipe, systems: Systems, root: Path
) -> Iterator[str]:
    """Say what a configuration of any system changes that the recipe's files set, each once.

    Raises InputError for what is wrong in a configuration or a setting.
    """
    notices: dict[str, None] = {}
    for files in system_configurations(options, recipe, systems, root):
        load(files, options.set)
        notices |= dict.fromkeys(describe_changes(files))
    yield from notices


def recognisers(
    options: RecipeOptions, recipe: Recipe, systems: Systems, root: Path
) -> Iterator[str]:
    """The verb by which each system recognises, by what its network learns."""
    for files in system_configurations(options, recipe, systems, root):
        yield task_of(load(files, options.set)).recogniser


def system_configurations(
    options: RecipeOptions, recipe: Recipe, systems: Systems, root: Path
) -> Iterator[list[Path]]:
    """The files of each system in order of precedence: recipe, system, command line."""
    beneath = [recipe.file(CONFIG)]
    if options.features == "mfcc" and recipe.has(WITHOUT_GMMS):
        beneath.append(recipe.file(WITHOUT_GMMS))
    if options.features == "fbank":
        beneath.append(f"{root}/conf/fbank.yaml")
    for file in systems.files or ("",):
        yield [Path(name) for name in (*beneath, *filter(None, [file]), *options.config)]

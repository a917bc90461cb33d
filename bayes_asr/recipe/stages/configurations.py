"""The configurations of a recipe's systems, checked before any stage has begun."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import real_path
from bayes_asr.base.installed import CONF
from bayes_asr.config.changes import describe_changes, find_recipe_folders
from bayes_asr.config.merge import load, merge
from bayes_asr.config.schema import differences, flatten
from bayes_asr.recipe.stages.options import RecipeOptions
from bayes_asr.recipe.stages.recipe import CONFIG, Recipe
from bayes_asr.recipe.stages.systems import Systems
from bayes_asr.tasks.task import task_of
from bayes_asr.train.runs.configuration import read_configuration

WITHOUT_GMMS = "without_kaldi.yaml"
OF_DECODING = ("decode.", "score.")
CHOSEN = {"seed": "--seeds", "data.dir": "--kaldi-dir, or else --out", "data.index": "--out"}
"""Keys that run.sh sets over all configurations, and by which of its options."""


def check_configurations(
    options: RecipeOptions, recipe: Recipe, systems: Systems, root: Path
) -> Iterator[str]:
    """Say what a configuration of any system changes that the recipe's files set, and what it sets
    in vain, each once.

    Raises InputError for what is wrong in a configuration or a setting.
    """
    notices: dict[str, None] = {}
    for files in system_configurations(options, recipe, systems, root):
        load(files, options.set)
        notices |= dict.fromkeys((*describe_changes(files), *_describe_vain(files)))
    yield from notices


def _describe_vain(files: Sequence[Path]) -> Iterator[str]:
    """A line for each key that run.sh sets anew though a configuration on top does."""
    values = dict(flatten(merge(files)))
    others = {*find_recipe_folders(files[0]), real_path(CONF)}
    for key, option in CHOSEN.items():
        if (file := values[key].file) and real_path(file).parent not in others:
            yield f"{file}: {key} {values[key].value} has no effect: it is chosen by {option}"


def describe_ignored(
    run: Path, options: RecipeOptions, recipe: Recipe, systems: Systems, root: Path
) -> Iterator[str]:
    """A line for each value by which a run decodes or scores and which its files give no more.

    Stage 3 records values in a run, so that later ones alone go by those of before.
    """
    try:
        recorded = read_configuration(run)
    except InputError:
        return  # a stage says so
    configurations = system_configurations(options, recipe, systems, root)
    files = dict(zip(systems.names, configurations, strict=True))[run.parent.name]
    located = dict(flatten(merge(files)))
    for key, (old, now) in differences(recorded, load(files)).items():
        if key.startswith(OF_DECODING):
            yield (
                f"{located[key].where}: {key} is {now}, but {run} goes on with {old}: a run takes"
                " its configuration from stage 3, so start there (complete stages are quick)"
            )


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

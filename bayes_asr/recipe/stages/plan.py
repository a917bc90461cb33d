"""What run.sh does, decided before any stage has begun."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

from bayes_asr.config.changes import describe_changes
from bayes_asr.config.merge import load
from bayes_asr.recipe.stages.checks import check_options
from bayes_asr.recipe.stages.choices import RecipeOptions
from bayes_asr.recipe.stages.preparation import Preparation, plan_preparation, trains_gmms
from bayes_asr.recipe.stages.recipe import CONFIG
from bayes_asr.recipe.stages.recipes import find_recipe, recognise_corpus
from bayes_asr.recipe.stages.stamps import has_changed
from bayes_asr.recipe.stages.systems import Systems, choose_systems
from bayes_asr.tasks.task import task_of

WITHOUT_KALDI = "without_kaldi.yaml"


@dataclass(frozen=True)
class Plan:
    """The variables of run.sh: these, and what the last three are made of.

    recipe_dir: the recipe's folder; builds_on: those of the recipes that have what it lacks;
    data_dir: what is trained on; recognisers: the verb by which each system says what it hears,
    `decode`, `classify` or `generate`; notices: what to know before it begins; changed: says that
    stage 0 is no longer complete, if so.
    """

    recipe_dir: str
    builds_on: tuple[str, ...]
    data_dir: str
    recognisers: tuple[str, ...]
    notices: tuple[str, ...]
    changed: str
    options: RecipeOptions
    preparation: Preparation
    systems: Systems


def make_plan(options: RecipeOptions, root: Path) -> Plan:
    """Check the options and decide what is run, in a checkout at `root`.

    Raises OptionError for a mistake on the command line, InputError for one in a configuration.
    """
    recipe = find_recipe(options.recipe, root)
    options = replace(
        options,
        out=absolute(options.out or f"{root}/exp/{recipe.name}"),
        kaldi_dir=options.kaldi_dir and absolute(options.kaldi_dir),
    )
    systems = choose_systems(options, recipe, root)
    check_options(options, recipe, by_gmms=trains_gmms(options, recipe))
    preparation = plan_preparation(options, recipe, root)
    # GMMs are compared too, and come first, as their rate is what networks are to beat.
    if options.experiment and preparation.gmm:
        systems = replace(systems, compared=(f"{options.out}/gmm", *systems.compared))
    own = [recipe.file(CONFIG)]
    if preparation.without_kaldi and recipe.has(WITHOUT_KALDI):
        own.append(recipe.file(WITHOUT_KALDI))
    if preparation.filter_banks:
        own.append(preparation.filter_banks)
    notices = [*check_settings(options, own, systems)]
    if options.corpus:
        notices += recognise_corpus(Path(options.corpus), recipe, root)
    return Plan(
        recipe_dir=recipe.folder,
        builds_on=recipe.builds_on,
        data_dir=options.kaldi_dir or options.out,
        recognisers=tuple(_choose_recognisers(options, own, systems)),
        notices=tuple(dict.fromkeys(notices)),
        changed=_say_change(options, preparation),
        options=options,
        preparation=preparation,
        systems=systems,
    )


def absolute(folder: str) -> str:
    """The same folder from the root; the rest is as it was spelled."""
    named = os.environ.get("PWD", "")  # a shell's, which knows by which link it has come here
    here = named if os.path.isdir(named) and os.path.samefile(named, ".") else os.getcwd()
    return os.path.join(here, folder)


def check_settings(
    options: RecipeOptions, recipe: Sequence[str], systems: Systems
) -> Iterator[str]:
    """Say what a configuration of any system changes that the recipe's files set.

    Raises InputError for what is wrong in a configuration or a setting.
    """
    for system in systems.system_files or ("",):
        # The order is that of precedence: recipe, system, and what the command line names.
        files = [Path(file) for file in (*recipe, *filter(None, [system]), *options.config)]
        task_of(load(files, options.set))
        yield from describe_changes(files)


def _choose_recognisers(
    options: RecipeOptions, recipe: Sequence[str], systems: Systems
) -> Iterator[str]:
    """The verb of each system, by what its network learns."""
    for system in systems.system_files or ("",):
        files = [Path(file) for file in (*recipe, *filter(None, [system]), *options.config)]
        yield task_of(load(files, options.set)).recogniser


def _say_change(options: RecipeOptions, preparation: Preparation) -> str:
    """Say that the corpus has changed since stage 0 was complete; empty: it has not."""
    stamp = Path(options.out, "log", "prepare.done")
    watched = options.corpus and preparation.prepared and options.stage == 0
    if watched and has_changed(Path(options.corpus), stamp, Path(options.out)):
        return f"{options.corpus} has changed since it was prepared"
    return ""


def variables(part: Any) -> Iterator[str]:
    """The words that tell a shell: the name of each variable, the number of its values, these.

    An array without values is left out, since 0 values would mean all to the shell.
    """
    for field in fields(part):
        value = getattr(part, field.name)
        if is_dataclass(value):
            yield from variables(value)
        elif value != ():
            values = value if isinstance(value, tuple) else (value,)
            yield from (field.name, str(len(values)), *map(_word, values))


def _word(value: str | int | None) -> str:
    """A value as scripts write it: what is not given is empty, a switch is `true`."""
    if value is None or value is False:
        return ""
    return "true" if value is True else str(value)

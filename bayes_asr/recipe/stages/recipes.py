"""Recipes by their config.yaml: what one offers and builds on, and which one a corpus is of."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import real_path
from bayes_asr.config.changes import find_recipe_folders
from bayes_asr.config.merge import load_section
from bayes_asr.recipe.stages.recipe import CONFIG, Recipe, locate_recipe


def find_recipe(name: str, root: Path) -> Recipe:
    """The recipe that `locate_recipe` finds, and what its config.yaml says of it.

    Raises InputError for a damaged config.yaml.
    """
    recipe = locate_recipe(name, root)
    config = Path(recipe.file(CONFIG))
    section = load_section("recipe", [config])
    # The first folder is the recipe's own.
    built_on = tuple(map(str, find_recipe_folders(config)[1:]))
    source = section.source or ""
    return replace(recipe, offers=section.offers, builds_on=built_on, source=source)


def recognise_corpus(corpus: Path, recipe: Recipe, root: Path) -> Iterator[str]:
    """Say which other recipe, one that builds on this one, is known by such a corpus."""
    for config in sorted(root.glob(f"recipes/*/{CONFIG}")):
        try:
            directory, *built_on = find_recipe_folders(config)
            patterns = load_section("recipe", [config]).known_by
        except InputError:  # of no concern to this recipe
            continue
        # A corpus is known by several files together: any one of them may be in others too.
        if (
            real_path(Path(recipe.folder)) in built_on
            and patterns
            and all(any(corpus.glob(pattern)) for pattern in patterns)
        ):
            yield (
                f"{corpus} has {' and '.join(patterns)}: it looks like the corpus of the recipe"
                f" {directory.name}, to whose size {recipe.name} is not set; consider --recipe"
                f" {directory.name}"
            )

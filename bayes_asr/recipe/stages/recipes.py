"""Which recipe is meant: what it offers, what it builds on, and which one suits a corpus better."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from bayes_asr.base.errors import InputError
from bayes_asr.config.changes import find_recipe_folders
from bayes_asr.config.merge import load_section
from bayes_asr.recipe.stages.recipe import CONFIG, Recipe, locate_recipe


def find_recipe(named: str, root: Path) -> Recipe:
    """The recipe that `locate_recipe` finds, and what its config.yaml says of it.

    Raises InputError for a damaged config.yaml.
    """
    recipe = locate_recipe(named, root)
    config = Path(recipe.file(CONFIG))
    section = load_section("recipe", [config])
    # The first folder is the recipe's own.
    built_on = tuple(map(str, find_recipe_folders(config)[1:]))
    source = section.source or ""
    return replace(
        recipe, offers=section.offers, options=section.options, builds_on=built_on, source=source
    )


def recognise_corpus(corpus: Path, chosen: Recipe, root: Path) -> Iterator[str]:
    """Say which other recipe, one that builds on the chosen one, is known by such a corpus."""
    for config in sorted(root.glob(f"recipes/*/{CONFIG}")):
        try:
            folder, *built_on = find_recipe_folders(config)
            patterns = load_section("recipe", [config]).known_by
        except InputError:  # of no concern to the recipe that was chosen
            continue
        # A corpus is known by several files together: any one of them may be in others too.
        if (
            Path(chosen.folder).resolve() in built_on
            and patterns
            and all(any(corpus.glob(pattern)) for pattern in patterns)
        ):
            yield (
                f"{corpus} has {' and '.join(patterns)}: it looks like the corpus of the recipe"
                f" {folder.name}, to whose size {chosen.name} is not set; consider --recipe"
                f" {folder.name}"
            )

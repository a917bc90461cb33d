"""Stages 0 to 2 of a recipe: the options of its prepare.py, and how much its sets may lose."""

from collections.abc import Iterator
from pathlib import Path

from bayes_asr.config.merge import load_section
from bayes_asr.recipe.stages.options import RecipeOptions
from bayes_asr.recipe.stages.recipe import CONFIG, GMM_SETTINGS, Recipe


def trains_gmms(options: RecipeOptions, recipe: Recipe) -> bool:
    """Say whether stages 1 and 2 train GMMs, Kaldi's or ours, for fMLLR features."""
    return recipe.has(GMM_SETTINGS) and options.features != "mfcc"


def prepare_options(options: RecipeOptions, recipe: Recipe) -> Iterator[str]:
    """The options of prepare.py beside --out: what the recipe always gives, and what it offers."""
    yield from recipe.options
    if options.corpus:
        yield from ("--corpus", options.corpus)
    if options.force and "force" in recipe.offers:
        yield "--force"
    # Without GMMs, which choose the dimension themselves, prepare.py makes the features.
    if options.dim is not None and not recipe.has(GMM_SETTINGS):
        yield from ("--dim", str(options.dim))


def max_skipped(options: RecipeOptions, recipe: Recipe) -> str:
    """data.max_skipped, the share of utterances of a set that may lack features.

    For verbs that read no configuration; empty where it is that of base.yaml.
    """
    files = [Path(file) for file in (recipe.file(CONFIG), *options.config)]
    limit = load_section("data", files, options.set).max_skipped
    return "" if limit == load_section("data", []).max_skipped else f"{limit:g}"

"""Stages 0 to 2 of a recipe: options of prepare.py, limits of sets, changes of the corpus."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from bayes_asr.config.merge import load_section
from bayes_asr.recipe.stages.options import RecipeOptions
from bayes_asr.recipe.stages.recipe import CONFIG, GMM_SETTINGS, Recipe


def trains_gmms(options: RecipeOptions, recipe: Recipe) -> bool:
    """Say whether stages 1 and 2 train GMMs, Kaldi's or ours, for fMLLR features."""
    return recipe.has(GMM_SETTINGS) and options.features != "mfcc"


def prepare_options(options: RecipeOptions, recipe: Recipe) -> Iterator[str]:
    """The options of prepare.py beside --out: what the recipe always gives, and what it offers."""
    files = [Path(file) for file in (recipe.file(CONFIG), *options.config)]
    yield from load_section("recipe", files, options.set).options
    if options.corpus:
        # A name that begins with a dash would be taken for an option.
        yield from ("--corpus", "./" * options.corpus.startswith("-") + options.corpus)
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


def has_changed(corpus: Path, stamp: Path, out: Path) -> bool:
    """Say whether anything in a folder came or changed since the stamp was written.

    Links are followed, also to files that are older than the stamp. What lies in `out` does not
    count; without a stamp nothing has changed.
    """
    if not stamp.is_file():
        return False
    prepared = stamp.stat().st_mtime_ns
    return any(changed > prepared for changed in _changes(corpus, out))


def _changes(corpus: Path, out: Path) -> Iterator[int]:
    """Times of the last change of each folder and file, in nanoseconds; each folder once."""
    # A loop of links, and `out` inside of the corpus, end here.
    visited = {_identity(out)}
    for directory, subdirectories, files in os.walk(corpus, followlinks=True):
        if _identity(directory) in visited:
            subdirectories.clear()
            continue
        visited.add(_identity(directory))
        for path in (directory, *(os.path.join(directory, name) for name in files)):
            with suppress(OSError):  # such as a link that leads nowhere
                # The time of change, unlike that of modification, is not set back by cp -p.
                yield os.stat(path).st_ctime_ns


def _identity(directory: str | Path) -> tuple[int, int]:
    status = os.stat(directory)
    return status.st_dev, status.st_ino

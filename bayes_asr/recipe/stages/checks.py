"""Checks of the options: those that a recipe has no use for are refused, never ignored."""

from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from bayes_asr.base.installed import find_configuration, split_system
from bayes_asr.base.places import find_obstacle
from bayes_asr.recipe.stages.options import OptionError, RecipeOptions
from bayes_asr.recipe.stages.recipe import CONFIG, GMM_SETTINGS, WITHOUT_GMMS, Recipe

LAST = 7  # stage
FEATURES = ("fmllr", "mfcc", "fbank")


def check_alone(options: RecipeOptions) -> None:
    """Raise OptionError for the first mistake that shows without reading the recipe."""
    _refuse(_wrong_numbers(options), _wrong_folders(options), _wrong_settings(options))


def check_options(options: RecipeOptions, recipe: Recipe, *, by_gmms: bool) -> None:
    """Raise OptionError for the first mistake; by_gmms: stages 1 and 2 train GMMs."""
    check_alone(options)
    _refuse(
        _wrong_corpus(options, recipe),
        _wrong_dimension(options, recipe, by_gmms),
        _wrong_features(options, recipe),
        _nothing_to_start_from(options, recipe),
    )


def _refuse(*kinds: Iterator[str]) -> None:
    # The kinds yield their mistakes lazily, so a check runs only if all before it passed.
    for mistake in chain(*kinds):
        raise OptionError(mistake)


def _wrong_numbers(options: RecipeOptions) -> Iterator[str]:
    for name in ("seeds", "nj", "nproc"):
        if getattr(options, name) == 0:
            yield f"--{name} 0: at least one is needed"
    if options.stage > min(options.stop_stage, LAST):
        yield (
            f"--stage {options.stage} --stop-stage {options.stop_stage}: no stage of 0 to {LAST} is"
            " between them"
        )


def _wrong_folders(options: RecipeOptions) -> Iterator[str]:
    if options.kaldi_dir and options.corpus:
        yield "--corpus and --kaldi-dir exclude each other"
    for name in ("dim", "features"):
        if options.kaldi_dir and getattr(options, name) not in (None, ""):
            yield f"--{name} and --kaldi-dir exclude each other"
    for name in ("kaldi_dir", "corpus", "out"):
        if len(getattr(options, name).splitlines()) > 1:
            yield f"--{name.replace('_', '-')}: a path with the end of a line; rename that folder"
    for name in ("kaldi_dir", "corpus"):
        path = getattr(options, name)
        if path and not Path(path).is_dir():
            yield f"--{name.replace('_', '-')} {path}: there is no such folder"
    if options.out and (obstacle := find_obstacle(Path(options.out))):
        yield f"--out {options.out}: {obstacle}; name another place"


def _wrong_corpus(options: RecipeOptions, recipe: Recipe) -> Iterator[str]:
    if options.corpus and "corpus" not in recipe.offers:
        yield (
            f"--corpus {options.corpus}: preparing a corpus for the recipe {recipe.name} is not"
            f" available: recipe.offers in {recipe.file(CONFIG)} does not name it"
        )


def _wrong_dimension(options: RecipeOptions, recipe: Recipe, by_gmms: bool) -> Iterator[str]:
    if options.dim is not None and not by_gmms and "dim" not in recipe.offers:
        yield (
            f"--dim {options.dim}: choosing the feature dimension is not available for the recipe"
            f" {recipe.name} without GMMs: recipe.offers in {recipe.file(CONFIG)} does not name it"
        )


def _wrong_features(options: RecipeOptions, recipe: Recipe) -> Iterator[str]:
    # MFCC without GMMs also need the script that aligns without them.
    needed = (GMM_SETTINGS, WITHOUT_GMMS) if options.features == "mfcc" else (GMM_SETTINGS,)
    for name in needed if options.features else ():
        if not recipe.has(name):
            yield (
                f"--features {options.features}: is not available for the recipe {recipe.name},"
                f" which has no {name}"
            )


def _nothing_to_start_from(options: RecipeOptions, recipe: Recipe) -> Iterator[str]:
    if options.kaldi_dir:
        return
    if not recipe.has("prepare.py"):
        yield (
            f"the recipe {recipe.name} starts from the data and exp folders of a Kaldi experiment:"
            " name it by --kaldi-dir"
        )
    if "corpus" in recipe.offers and not options.corpus and options.stage == 0:
        yield (
            f"the recipe {recipe.name} needs its corpus, or a Kaldi experiment: name it by --corpus"
            f" or --kaldi-dir{recipe.source and f' ({recipe.source})'}"
        )


def _wrong_settings(options: RecipeOptions) -> Iterator[str]:
    if any(setting.startswith("seed=") for setting in options.set):
        yield "--set seed: the seeds are chosen by --seeds N"
    if options.features and options.features not in FEATURES:
        yield f"--features {options.features}: must be one of {', '.join(FEATURES)}"
    if options.set and options.stage > 3:
        yield (
            f"--set {options.set[0]}: a run takes its configuration from stage 3, so start there"
            " (complete stages are quick)"
        )
    for file in options.config:
        if not split_system(find_configuration(Path(file)))[0].is_file():
            yield f"--config {file}: there is no such file"

"""Stages 0 to 2: by the recipe alone, or by GMMs, which are Kaldi's where there is Kaldi."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from bayes_asr.config.merge import load_section
from bayes_asr.recipe.stages.choices import RecipeOptions
from bayes_asr.recipe.stages.recipe import CONFIG, GMM_SETTINGS, WITHOUT_GMMS, Recipe


@dataclass(frozen=True)
class Preparation:
    """What stages 0 to 2 run; what is empty, they do not.

    prepares: the stages that `prepare`, the recipe's own command, does; prepared: the files that it
    reads and writes, none where it decides itself what is complete. One of these does stages 1 and
    2: kaldi or gmm, commands that train GMMs, or without_kaldi, the recipe's shell script.
    filter_banks: the configuration that has the network read these, and not what GMMs adapted.
    max_skipped: the share of utterances that may lack features, where a configuration sets it.
    """

    prepares: str = "0"
    prepare: tuple[str, ...] = ()
    prepared: tuple[str, ...] = ()
    kaldi: tuple[str, ...] = ()
    gmm: tuple[str, ...] = ()
    without_kaldi: str = ""
    filter_banks: str = ""
    max_skipped: str = ""


def trains_gmms(options: RecipeOptions, recipe: Recipe) -> bool:
    """Say whether stages 1 and 2 train GMMs, Kaldi's or ours, for fMLLR features."""
    return recipe.has(GMM_SETTINGS) and options.features != "mfcc"


def plan_preparation(options: RecipeOptions, recipe: Recipe, root: Path) -> Preparation:
    """Decide what stages 0 to 2 run: nothing with --kaldi-dir."""
    if options.kaldi_dir:
        return Preparation()
    command = ["python", recipe.file("prepare.py"), "--out", options.out, *recipe.options]
    command += ["--corpus", options.corpus] if options.corpus else []
    command += ["--force"] if options.force and "force" in recipe.offers else []
    # A recipe without settings of GMMs prepares all of stages 0 to 2 itself.
    if not recipe.has(GMM_SETTINGS):
        return Preparation("0-2", (*command, *_dimension(options)))
    prepared = Preparation("0", tuple(command), tuple(_files(recipe, options.out)))
    prepared = replace(prepared, max_skipped=_limit_skipped(options, recipe))
    if options.features == "fbank":
        prepared = replace(prepared, filter_banks=f"{root}/conf/fbank.yaml")
    if not trains_gmms(options, recipe):
        return replace(prepared, without_kaldi=recipe.file(WITHOUT_GMMS))
    if _has_kaldi(options.out, root):
        return replace(prepared, kaldi=tuple(_train_gmms("kaldi_gmm.sh", options, recipe, root)))
    own = [*_train_gmms("gmm.sh", options, recipe, root), "--config", recipe.file(CONFIG)]
    own += ["--max-skipped", prepared.max_skipped] if prepared.max_skipped else []
    return replace(prepared, gmm=tuple(own))


def _has_kaldi(out: str, root: Path) -> bool:
    """Say whether there is Kaldi: it is named, or has been in `out` before."""
    places = (Path(folder, "path.sh") for folder in (".", root, out))
    return bool(os.environ.get("KALDI_ROOT")) or any(path.is_file() for path in places)


def _files(recipe: Recipe, out: str) -> Iterator[str]:
    """What stage 0 reads and writes; a recipe names its test set test or eval."""
    # A changed script makes stage 0 incomplete, as changed data does.
    scripts = {file.name for folder in recipe.folders for file in Path(folder).glob("[!.]*.py")}
    yield from map(recipe.file, sorted(scripts))
    yield from (f"{out}/data/{name}/text" for name in ("train", "dev", "test", "eval"))
    yield f"{out}/data/local/lm.arpa"


def _train_gmms(script: str, options: RecipeOptions, recipe: Recipe, root: Path) -> Iterator[str]:
    """The command by which a script does stages 1 and 2."""
    yield f"{root}/local/{script}"
    folder = str(Path(recipe.file(GMM_SETTINGS)).parent)
    yield from ("--recipe", folder, "--out", options.out, "--nj", str(options.nj))
    yield from _dimension(options)
    if options.force:
        yield "--force"


def _limit_skipped(options: RecipeOptions, recipe: Recipe) -> str:
    """data.max_skipped for verbs that read no configuration, where it is not that of base.yaml."""
    files = [Path(file) for file in (recipe.file(CONFIG), *options.config)]
    limit = load_section("data", files, options.set).max_skipped
    return "" if limit == load_section("data", []).max_skipped else f"{limit:g}"


def _dimension(options: RecipeOptions) -> tuple[str, ...]:
    return () if options.dim is None else ("--dim", str(options.dim))

"""Stages 0 to 2: by the recipe alone, or by Kaldi's GMMs where there is Kaldi."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from bayes_asr.stages.choices import Options
from bayes_asr.stages.recipe import Recipe


@dataclass(frozen=True)
class Preparation:
    """What stages 0 to 2 run; what is empty, they do not.

    prepares: the stages that `prepare`, the recipe's own command, does; prepared: the files that it
    reads and writes, none where it decides itself what is complete; kaldi: the command of stages 1
    and 2; without_kaldi: the shell script of these stages; lacking: why they cannot go on.
    """

    prepares: str = "0"
    prepare: tuple[str, ...] = ()
    prepared: tuple[str, ...] = ()
    kaldi: tuple[str, ...] = ()
    without_kaldi: str = ""
    lacking: str = ""


def has_kaldi(recipe: Recipe, out: str, root: Path) -> bool:
    """Say whether stages 1 and 2 are Kaldi's: it is named, or has been here before."""
    return recipe.has("kaldi.sh") and (
        bool(os.environ.get("KALDI_ROOT"))
        or any(Path(folder, "path.sh").is_file() for folder in (".", root))
        or Path(out, "data-fmllr-tri3").is_dir()
    )


def plan_preparation(
    options: Options, recipe: Recipe, root: Path, *, by_kaldi: bool
) -> Preparation:
    """Decide what stages 0 to 2 run: nothing with --kaldi-dir."""
    if options.kaldi_dir:
        return Preparation()
    command = ["python", recipe.file("prepare.py"), "--out", options.out]
    command += ["--corpus", options.corpus] if options.corpus else []
    command += ["--force"] if options.force and "force" in recipe.offers else []
    if not recipe.has("kaldi.sh"):
        return Preparation("0-2", (*command, *_dimension(options)))
    prepared = Preparation("0", tuple(command), tuple(_files(recipe, options.out)))
    if by_kaldi:
        return replace(prepared, kaldi=tuple(_train_gmms(options, recipe, root)))
    if recipe.has("without_kaldi.sh"):
        return replace(prepared, without_kaldi=recipe.file("without_kaldi.sh"))
    if options.stage <= 2 and options.stop_stage >= 1:
        return replace(prepared, lacking=_kaldi_is_needed(recipe))
    return prepared


def _files(recipe: Recipe, out: str) -> Iterator[str]:
    """What stage 0 reads and writes; a recipe names its test set test or eval."""
    scripts = {file.name for folder in recipe.folders for file in Path(folder).glob("[!.]*.py")}
    yield from map(recipe.file, sorted(scripts))
    yield from (f"{out}/data/{name}/text" for name in ("train", "dev", "test", "eval"))
    yield f"{out}/data/local/lm.arpa"


def _train_gmms(options: Options, recipe: Recipe, root: Path) -> Iterator[str]:
    """The command by which Kaldi does stages 1 and 2."""
    yield f"{root}/local/kaldi_gmm.sh"
    folder = str(Path(recipe.file("kaldi.sh")).parent)
    yield from ("--recipe", folder, "--out", options.out, "--nj", str(options.nj))
    yield from _dimension(options)
    if options.force:
        yield "--force"


def _dimension(options: Options) -> tuple[str, ...]:
    return () if options.dim is None else ("--dim", str(options.dim))


def _kaldi_is_needed(recipe: Recipe) -> str:
    return (
        f"Stages 1 and 2 of the recipe {recipe.name} need Kaldi: set KALDI_ROOT to its folder, copy"
        " your path.sh beside run.sh, or start from an experiment by --kaldi-dir."
    )

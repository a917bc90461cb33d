"""Stages 0 to 2 of a recipe: options of prepare.py, limits of sets, changes of the corpus."""

import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from os.path import isdir
from pathlib import Path
from typing import Any

from bayes_asr.base.files import read_text, real_path, replacing
from bayes_asr.base.walk import walk_once
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


def read_folders(options: RecipeOptions, recipe: Recipe) -> list[Path]:
    """The folders that prepare.py is given: the corpus first, then others, such as --g2p=MODEL."""
    words = dict.fromkeys(re.sub("^--[^=]*=", "", w) for w in prepare_options(options, recipe))
    return [Path(options.corpus), *(Path(w) for w in words if w != options.corpus and isdir(w))]


def forget_changed(folders: Sequence[Path], out: Path) -> str:
    """A remark where `out` was prepared from other folders, else empty; the corpus is the first.

    The stamp of the preparation is removed then. A record beside it, which a copy of `out` has too,
    says which folder the corpus is and since when changes count. Folders of before have none, and
    are taken for prepared from this corpus, when their stamp was written.
    """
    corpus, log = folders[0], out / "log"
    stamp, record = log / "prepare.done", log / "prepare.corpus"
    log.mkdir(parents=True, exist_ok=True)  # it may lie in the corpus, which changes so
    with replacing(record) as new:
        new.touch()
        # Numbers of devices change when they are mounted; a folder of the same name on another
        # disk has not changed in the same nanosecond.
        changed = 0 if corpus.samefile(out) else corpus.stat().st_ctime_ns
        present = {"folder": str(real_path(corpus)), "changed": changed}
        begun, difference = new.stat().st_mtime_ns, ""
        if stamp.is_file():
            known: dict[str, Any] = {**present, "prepared": stamp.stat().st_mtime_ns}
            with suppress(FileNotFoundError, ValueError):  # it is empty where a disk was full
                known |= json.loads(read_text(record))
            changes = [folder for folder in folders if has_changed(folder, known["prepared"], out)]
            if changes:
                difference = f"{changes[0]} has changed since data were prepared"
            elif not present.items() <= known.items():
                difference = f"{corpus} is another folder than the one that was prepared"
            else:
                begun = known["prepared"]
        if difference:
            stamp.unlink()
        new.write_text(json.dumps({**present, "prepared": begun}) + "\n")
    return difference


def has_changed(corpus: Path, prepared: int, out: Path) -> bool:
    """Say whether anything in a folder came or changed since a time, in nanoseconds.

    Links are followed, also to files that are older. What lies in `out` does not count.
    """
    return any(changed > prepared for changed in _changes(corpus, out))


def _changes(corpus: Path, out: Path) -> Iterator[int]:
    """Times of the last change of each folder and file, in nanoseconds; each folder once."""
    for directory, subdirectories, files in walk_once(corpus):
        if os.path.samefile(directory, out):
            subdirectories.clear()
            continue
        for path in (directory, *(os.path.join(directory, name) for name in files)):
            with suppress(OSError):  # such as a link that leads nowhere
                # The time of change, unlike that of modification, is not set back by cp -p.
                yield os.stat(path).st_ctime_ns

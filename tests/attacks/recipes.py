"""Recipes on a corpus with files that are other ones: run.sh and bayes-asr run go on or refuse."""

import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.attacks import corpora
from tests.attacks.every_verb import build
from tests.attacks.laboratory import CONFIG
from tests.attacks.mutations import mutate
from tests.attacks.verbs import CONTROLS, RefusedError
from tests.support.places import RECIPES, ROOT
from tests.support.timit_tree import write_flat


@dataclass(frozen=True)
class Given:
    """What a recipe is given: how that is written, and the options of run.sh."""

    write: Callable[[Path], object]
    options: tuple[str, ...]


def write_experiment(place: Path) -> None:
    """Write a Kaldi experiment, and a recipe that trains on it."""
    shutil.copytree(build("run"), place / "corpus", symlinks=True)
    (place / "recipe").mkdir()
    (place / "recipe/config.yaml").write_text(CONFIG.replace("data: {dir: .}\n", ""))


GIVEN = {
    "folder": Given(
        lambda place: corpora.write_corpus(place / "corpus"),
        (str(RECIPES / "folder"), "--corpus", "corpus", "--features", "mfcc", "--stop-stage", "1"),
    ),
    "timit": Given(
        lambda place: write_flat(place / "corpus"),
        (str(RECIPES / "timit"), "--corpus", "corpus", "--features", "mfcc", "--stop-stage", "1"),
    ),
    "experiment": Given(
        write_experiment,
        ("./recipe", "--kaldi-dir", "corpus", "--stage", "3", "--stop-stage", "3"),
    ),
}


def attack_recipes(rng: random.Random, folder: Path) -> None:
    """A recipe on a corpus of which one or two files are changed."""
    given = GIVEN[rng.choice([*GIVEN])]
    given.write(folder)
    files = sorted(path for path in (folder / "corpus").rglob("*") if path.is_file())
    for path in rng.sample(files, rng.choice((1, 1, 2))):
        mutate(path, rng, files)
    verb = [sys.executable, "-m", "bayes_asr", "run"]
    run(rng.choice((verb, ["bash", str(ROOT / "run.sh"), "--recipe"])), given.options, folder)


def run(program: Sequence[str], options: Sequence[str], place: Path) -> str:
    """What the recipe printed; RefusedError where it says no, AssertionError in another way."""
    done = subprocess.run(
        [*program, *options, "--out", "out", "--nj", "1"],
        cwd=place,
        env=os.environ | {"BAYES_ASR_PYTHON": sys.executable},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    said = done.stdout.decode(errors="replace")
    assert "Traceback" not in said, said
    assert not CONTROLS.search(said), said
    errors = [line for line in said.splitlines() if "error: " in line or "run.sh: " in line]
    if done.returncode:
        assert errors, said
        assert done.returncode in (1, 2), said
        raise RefusedError(errors[0])
    return said

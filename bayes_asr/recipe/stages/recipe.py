"""A recipe: a folder that holds a config.yaml, which says what it offers and builds on."""

import os
from dataclasses import dataclass
from pathlib import Path

from bayes_asr.recipe.stages.options import OptionError

CONFIG = "config.yaml"
GMM_SETTINGS = "kaldi.sh"  # without it, prepare.py makes features and alignments too
WITHOUT_GMMS = "without_kaldi.sh"


@dataclass(frozen=True)
class Recipe:
    """A recipe's folder, as it was spelled, and the options of run.sh that its prepare.py takes.

    builds_on: the folders of the recipes that have what it
    lacks, the nearest first; source: where its corpus is and under which terms, where that is to be
    said.
    """

    folder: str
    offers: tuple[str, ...] = ()
    builds_on: tuple[str, ...] = ()
    source: str = ""

    @property
    def name(self) -> str:
        """The name of the folder, and of the results by default."""
        return Path(os.path.abspath(self.folder)).name  # ./ has one too

    @property
    def folders(self) -> tuple[str, ...]:
        """The folders in which its files are looked for, in this order."""
        return self.folder, *self.builds_on

    def file(self, name: str) -> str:
        """The path of a file, its own or of a recipe that it builds on, there or not."""
        # The first folder that has the file wins, so a recipe overrides what it builds on.
        paths = (f"{home}/{name}" for home in self.folders if Path(home, name).is_file())
        return next(paths, f"{self.folder}/{name}")

    def has(self, name: str) -> bool:
        """Say whether there is such a file."""
        return Path(self.file(name)).is_file()


def locate_recipe(name: str, root: Path) -> Recipe:
    """The recipe of this name in `root`/recipes, or in a folder, whose path has a slash.

    Raises OptionError where there is none.
    """
    recipe = Recipe(name if "/" in name else f"{root}/recipes/{name}")
    if not recipe.has(CONFIG):
        recipes = sorted(path.name for path in (root / "recipes").glob("*") if path.is_dir())
        raise OptionError(
            f"--recipe {name}: there is no {recipe.file(CONFIG)}"
            f" (known recipes: {' '.join(recipes)})"
        )
    return recipe

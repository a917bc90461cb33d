"""A recipe: a folder that holds a config.yaml, which says what it offers."""

from dataclasses import dataclass
from pathlib import Path

from bayes_asr.config.merge import load_section
from bayes_asr.stages.choices import OptionError

CONFIG = "config.yaml"


@dataclass(frozen=True)
class Recipe:
    """A recipe's folder, as it was spelled, and the options that its prepare.py takes."""

    folder: str
    offers: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name of the folder, and of the results by default."""
        return Path(self.folder).name

    def file(self, name: str) -> str:
        """The path of a file, there or not."""
        return f"{self.folder}/{name}"

    def has(self, name: str) -> bool:
        """Say whether there is such a file."""
        return Path(self.folder, name).is_file()


def find_recipe(named: str, root: Path) -> Recipe:
    """The recipe of this name in `root`/recipes, or in a folder, whose path has a slash.

    Raises OptionError where there is none, and InputError for a damaged config.yaml.
    """
    recipe = Recipe(named if "/" in named else f"{root}/recipes/{named}")
    if not recipe.has(CONFIG):
        raise OptionError(
            f"--recipe {named}: there is no {recipe.file(CONFIG)}"
            f" (known recipes: {folders_in(root / 'recipes')})"
        )
    section = load_section("recipe", [Path(recipe.file(CONFIG))])
    return Recipe(recipe.folder, section.offers)


def folders_in(folder: Path) -> str:
    """The names of the folders in a folder, in one line."""
    inside = folder.iterdir() if folder.is_dir() else ()
    return " ".join(sorted(one.name for one in inside if one.is_dir()))

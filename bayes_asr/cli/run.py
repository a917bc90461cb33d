"""bayes-asr run: the stages of a recipe, in any folder, by the run.sh inside the package."""

import argparse
import sys
from pathlib import Path

from bayes_asr.base.installed import HOME
from bayes_asr.base.programs import become
from bayes_asr.cli import read_arguments

SCRIPT = HOME / "run.sh"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the recipe; the options are those that the header of run.sh declares."""
    known = ", ".join(sorted(file.parent.name for file in HOME.glob("recipes/*/config.yaml")))
    parser.usage = "bayes-asr run RECIPE [options]"
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _describe_options()
    parser.add_argument("recipe", metavar="RECIPE", help=f"a folder with a config.yaml, or {known}")
    options = parser.add_argument("options", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    options.required = False  # or argparse says that they are


def run(args: argparse.Namespace) -> None:
    """Go on as run.sh, below the working directory and with the Python of this command."""
    if {"--help", "-h"}.intersection(args.options):
        read_arguments(["run", "--help"], "run")
    options = [f"--recipe={args.recipe}", *args.options]
    if not any(word == "--out" or word.startswith("--out=") for word in options):
        options.append(f"--out=exp/{Path(args.recipe).absolute().name}")
    become(["bash", str(SCRIPT), *options], {"BAYES_ASR_PYTHON": sys.executable})


def _describe_options() -> str:
    """The options and stages in the header of run.sh; --recipe is the argument here."""
    header = SCRIPT.read_text(encoding="utf-8").split("#   --recipe", 1)[1].split("\nset -", 1)[0]
    lines = [line.removeprefix("#").removeprefix(" ") for line in header.splitlines()[1:]]
    text = "\n".join(line for line in lines if "run.sh" not in line)
    return f"options:\n{text}"

"""What the shell asks, as `python -m bayes_asr.recipe.stages SCRIPT QUESTION ...`."""

import bayes_asr.recipe.stages.interruption  # noqa: F401 - first: Ctrl-C may come while the others load

# isort: split
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from bayes_asr.base.errors import InputError, complaint
from bayes_asr.recipe.stages import stamps


def main(script: str, question: str, *words: str) -> int:
    """Answer on standard output; returns 2 for a mistake in options, 1 for other bad input."""
    try:
        QUESTIONS[question](words)
    except (InputError, OSError) as error:
        # The import waits, since most questions end without an error.
        from bayes_asr.recipe.stages.choices import OptionError

        print(f"{script}: {complaint(error)}", file=sys.stderr)
        return 2 if isinstance(error, OptionError) else 1
    return 0


def refuse(words: Sequence[str]) -> None:
    """ROOT OPTION...: nothing; the standard library alone finds these mistakes."""
    from bayes_asr.recipe.stages.checks import check_alone
    from bayes_asr.recipe.stages.choices import parse
    from bayes_asr.recipe.stages.recipe import locate_recipe
    from bayes_asr.recipe.stages.systems import find_experiment

    root, *given = words
    options = parse(given)
    check_alone(options)
    find_experiment(options, locate_recipe(options.recipe, Path(root)), Path(root))


def plan(words: Sequence[str]) -> None:
    """ROOT OPTION...: the variables of run.sh, their words ended by NUL."""
    from bayes_asr.recipe.stages.choices import (
        parse,  # these take longer to load than a stage to check
    )
    from bayes_asr.recipe.stages.plan import make_plan, variables

    root, *options = words
    # NUL ends each word because a path may hold anything else, line ends too.
    answer = "".join(f"{word}\0" for word in variables(make_plan(parse(options), Path(root))))
    sys.stdout.buffer.write(os.fsencode(answer))


def is_complete(words: Sequence[str]) -> None:
    """STAMP FILE... -- COMMAND...: `complete` or `due`."""
    print("complete" if stamps.is_complete(*_stage(words)) else "due")


def mark_complete(words: Sequence[str]) -> None:
    """STAMP FILE... -- COMMAND...: note that the command has succeeded."""
    stamps.write_stamp(*_stage(words))


def _stage(words: Sequence[str]) -> tuple[Path, Sequence[str], Sequence[str]]:
    """The stamp, the files and the command of a stage."""
    end = words.index("--")
    return Path(words[0]), words[1:end], words[end + 1 :]


QUESTIONS = {"refuse": refuse, "plan": plan, "is-complete": is_complete, "completed": mark_complete}

if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

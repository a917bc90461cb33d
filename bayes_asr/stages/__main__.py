"""What the shell asks, as `python -m bayes_asr.stages SCRIPT QUESTION ...`."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from bayes_asr.errors import InputError, complaint
from bayes_asr.stages import stamps
from bayes_asr.stages.choices import OptionError, parse


def main(script: str, question: str, *words: str) -> int:
    """Answer on standard output; returns 2 for a mistake in options, 1 for other bad input."""
    try:
        QUESTIONS[question](words)
    except (InputError, OSError) as error:
        print(f"{script}: {complaint(error)}", file=sys.stderr)
        return 2 if isinstance(error, OptionError) else 1
    except KeyboardInterrupt:
        return 130
    return 0


def plan(words: Sequence[str]) -> None:
    """ROOT OPTION...: the variables of run.sh, their words ended by NUL."""
    from bayes_asr.stages.plan import make_plan, variables  # needs longer to start

    root, *options = words
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


QUESTIONS = {"plan": plan, "is-complete": is_complete, "completed": mark_complete}

if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

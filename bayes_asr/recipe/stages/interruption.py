"""Ctrl-C, whenever it comes to a recipe's script, is said in one line: what it imports first.

It imports nothing that is not loaded already: Ctrl-C may come while it does.
"""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType


def say_what_ended(
    kind: type[BaseException], error: BaseException, where: "TracebackType | None"
) -> None:
    """Say that a script was interrupted, and of other errors what Python says."""
    if issubclass(kind, KeyboardInterrupt):
        name = sys.argv[0].rpartition("/")[2]
        # python -m bayes_asr.recipe.stages SCRIPT speaks for the script
        asking = sys.argv[1] if name == "__main__.py" else name
        print(f"{asking}: interrupted", file=sys.stderr)
    else:
        sys.__excepthook__(kind, error, where)


sys.excepthook = say_what_ended  # Python still ends as SIGINT has it

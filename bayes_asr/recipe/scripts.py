"""How scripts of recipes end."""

import sys
from collections.abc import Callable, Sequence

from bayes_asr.base.errors import InputError, complaint


def exit_status(program: str, run: Callable[[], object]) -> int:
    """The status of a script: 0 after `run`, or 1 after a line for each thing that is wrong."""
    try:
        run()
    except (InputError, OSError) as error:
        errors: Sequence[Exception] = [error]
    except ExceptionGroup as group:
        errors = group.exceptions
    else:
        return 0
    for fault in errors:
        print(f"{program}: error: {complaint(fault)}", file=sys.stderr)
    return 1

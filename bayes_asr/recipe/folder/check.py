"""A check that goes on after what it finds, so that all of it is said at once."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from bayes_asr.base.errors import InputError

P = ParamSpec("P")
T = TypeVar("T")


class Inspection:
    """The errors of steps that were attempted, each once."""

    def __init__(self) -> None:
        self.errors: dict[str, Exception] = {}

    def attempt(self, step: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
        """The result of a step, or None where it raises what a user can mend."""
        try:
            return step(*args, **kwargs)
        except (InputError, OSError) as error:
            self.errors.setdefault(str(error), error)
            return None

    def settle(self) -> None:
        """Raise an ExceptionGroup of the errors, where there are any."""
        if self.errors:
            raise ExceptionGroup("the corpus is not as it should be", [*self.errors.values()])

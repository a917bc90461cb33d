"""Values of INI files that name other options of their section, as Python's configparser does."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bayes_asr.base.errors import InputError

REFERENCE = re.compile(r"%(?:(?P<percent>%)|\((?P<name>[^()]+)\)s)?")
DEEPEST = 10  # references within references, as there
LONGEST = 100_000  # characters of a value: a few lines that repeat each other could be gigabytes

Lines = tuple[tuple[int, str], ...]
"""A value: each line with its number in the file."""


@dataclass(frozen=True)
class Interpolation:
    """The options of a section, where `%(NAME)s` stands for the value of an option, `%%` for `%`.

    where: the file and the section, for errors.
    """

    where: str
    options: Mapping[str, Sequence[tuple[int, str]]]
    resolved: dict[str, Lines] = field(default_factory=dict)

    def resolve(self, name: str, users: tuple[str, ...] = ()) -> Lines:
        """The value of an option; users: the options that lead to it.

        InputError for any other `%`, a name that is no option, a circle, and more than `LONGEST`
        characters.
        """
        # Each option is resolved once, or references to references would take exponential time.
        if name not in self.resolved:
            lines = list[tuple[int, str]]()
            for number, text in self.options[name]:
                error = f"{self.where} {name}, line {number}"
                parts = self._replace(error, text, (*users, name)).split("\n")
                lines += ((number, part) for part in parts)
                if sum(len(part) for _, part in lines) > LONGEST:
                    raise InputError(f"{error}: has more than {LONGEST} characters; write it out")
            self.resolved[name] = tuple(lines)
        return self.resolved[name]

    def _replace(self, error: str, text: str, users: tuple[str, ...]) -> str:
        """A line with the values of the options that it names."""

        def value(reference: re.Match[str]) -> str:
            if reference["percent"]:
                return "%"
            name = (reference["name"] or "").lower()
            if name not in self.options:
                raise InputError(
                    f"{error}: {text[reference.start() :][:40]}: after % the name of an option of"
                    " the section is due, as in %(NAME)s; write %% for the sign itself"
                )
            if name in users or len(users) > DEEPEST:
                raise InputError(f"{error}: {reference[0]} leads in a circle, or is too deep")
            return "\n".join(part for _, part in self.resolve(name, users)).rstrip()

        return REFERENCE.sub(value, text)

"""The INI files of pytorch-kaldi, line by line, so that messages can name the line."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import read_bytes
from bayes_asr.pytorch_kaldi.interpolation import Interpolation, Lines

HEADER = re.compile(r"\[(?P<name>[^]]+)\]")
OPTION = re.compile(r"(?P<name>[^=:\s][^=:]*?)\s*[=:]\s*(?P<value>.*)")
COMMENTS = ("#", ";")
DEFAULTS = "DEFAULT"  # the section whose options all others have too
LINE_END = re.compile(r"\r\n|\r|\n")  # str.splitlines would end lines at form feeds too
COMMAND, END = "fea_opts=", "|"  # a command that an editor broke over two lines ends in the second


@dataclass(frozen=True)
class Option:
    """One option: its name in small letters and the lines of its value, each with its number.

    mended: the numbers of broken lines that were joined to those before.
    """

    path: Path
    section: str
    name: str
    lines: Lines
    mended: tuple[int, ...] = ()

    @property
    def text(self) -> str:
        """The value, without empty lines and without blanks at the ends of lines."""
        return "\n".join(text for _, text in self.lines if text)

    @property
    def line(self) -> int:
        """The number of its first line."""
        return self.lines[0][0]

    def error(self, problem: str, line: int | None = None) -> InputError:
        """The error that something is wrong with it, at one of its lines."""
        where = f"{self.path}, line {line or self.line}"
        return InputError(f"{where}: [{self.section}] {self.name}: {problem}")


@dataclass(frozen=True)
class Section:
    """A section: its options by name.

    consumed: the names that were asked for, so that what is left can be said.
    """

    path: Path
    name: str
    line: int
    options: Mapping[str, Option]
    consumed: set[str] = field(default_factory=set, compare=False)

    def take(self, name: str) -> Option:
        """An option; InputError where it is missing."""
        option = self.get(name)
        if option is None:
            raise InputError(f"{self.path}, line {self.line}: [{self.name}] has no {name}; add it")
        return option

    def get(self, name: str) -> Option | None:
        """An option; None where it is missing."""
        self.consumed.add(name)
        return self.options.get(name)

    def flag(self, name: str) -> bool:
        """Whether an option is there and true; InputError where it is neither true nor false."""
        option = self.get(name)
        return option is not None and parse_flag(option)


def read_sections(path: Path) -> dict[str, Section]:
    """Read a file as Python's configparser does: names in small letters, values of several lines.

    `%(NAME)s` is the value of another option, and [DEFAULT] has options of all sections. A command
    that is broken over two lines is joined, which configparser refuses. InputError for any other
    line that is neither, and for a section or an option that is repeated.
    """
    try:
        lines = LINE_END.split(read_bytes(path).decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not a text in UTF-8 ({error.reason})") from None
    entries: dict[str, tuple[int, dict[str, list[tuple[int, str]]]]] = {}
    section, value, mended = "", list[tuple[int, str]](), set[int]()
    margin = 0  # in front of the name of the option whose value is read
    for number, line in enumerate(lines, start=1):
        text = line.strip()
        if text.startswith(COMMENTS) or not (text or value):
            continue
        # The second half of a broken command: restore the blanks that the editor took for a margin.
        if value and _is_cut(value[-1][1]) and text.endswith(END):
            broken = lines[number - 2] + line[: line.index(text)]
            blank = broken[len(broken.rstrip()) :]
            value[-1] = (value[-1][0], value[-1][1] + blank + text)
            mended.add(number)
        # An empty line, or one further in than the option, is part of its value, even name=value.
        elif not text or (value and line.index(text) > margin):
            value.append((number, text))
        elif header := HEADER.match(text):
            section, value = header["name"], []
            if section in entries:
                earlier = entries[section][0]
                raise InputError(
                    f"{path}, line {number}: [{section}] is there in line {earlier} too; join them"
                )
            entries[section] = (number, {})
        elif section and (option := OPTION.fullmatch(text)):
            name, value = option["name"].lower(), [(number, option["value"])]
            margin = line.index(text)
            if name in entries[section][1]:
                raise InputError(f"{path}, line {number}: {name} is there twice; keep one line")
            entries[section][1][name] = value
        else:
            raise InputError(
                f"{path}, line {number}: neither [section] nor name=value: {text[:40]}"
            )
    _, defaults = entries.pop(DEFAULTS, (0, {}))
    return {
        name: Section(path, name, line, _build(path, name, {**defaults, **options}, mended))
        for name, (line, options) in entries.items()
    }


def _build(
    path: Path, section: str, options: Mapping[str, list[tuple[int, str]]], mended: set[int]
) -> dict[str, Option]:
    interpolation = Interpolation(f"{path}: [{section}]", options)
    built: dict[str, Option] = {}
    for name in options:
        lines = interpolation.resolve(name)
        # A second half that was joined to line n was line n + 1.
        joined = tuple(n + 1 for n, _ in lines if n + 1 in mended)
        built[name] = Option(path, section, name, lines, joined)
    return built


def _is_cut(text: str) -> bool:
    """Whether a line is the first of a broken command, of which four of the shipped files have."""
    return text.startswith(COMMAND) and not text.endswith(END)


# --- values


def parse_whole(option: Option, text: str, line: int | None = None, *, least: int = 0) -> int:
    """Read a whole number of an option; InputError for anything else, and for one below `least`."""
    # Python's int would also take blanks, underscores and digits of other scripts.
    if not re.fullmatch(r"-?\d{1,9}", text, re.ASCII):
        raise option.error(f"{text[:40]!r} is not a whole number", line)
    if int(text) < least:
        raise option.error(f"{text} is below {least}", line)
    return int(text)


def parse_number(
    option: Option, text: str | None = None, *, least: float = 0, most: float = math.inf
) -> float:
    """Read a finite number from `least` to `most`, likewise."""
    written = option.text if text is None else text
    if not re.fullmatch(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d{1,3})?", written, re.ASCII):
        raise option.error(f"{written[:40]!r} is not a number")
    number = float(written)
    if not (least <= number <= most and math.isfinite(number)):
        raise option.error(f"{written[:40]} is no finite number from {least:g} to {most:g}")
    return number


def parse_flag(option: Option, text: str | None = None) -> bool:
    """Read True or False, likewise."""
    written = option.text if text is None else text
    values = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
    if written.lower() not in values:
        raise option.error(f"{written[:40]!r} is neither True nor False")
    return values[written.lower()]

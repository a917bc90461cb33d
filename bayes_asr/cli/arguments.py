"""Kinds of arguments that several verbs take, and the parser that refuses others in one line."""

import argparse
import difflib
import re
from collections.abc import Container, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NoReturn, get_args

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import real_path
from bayes_asr.config.schema import iter_typed_keys
from bayes_asr.config.values import Within

SETTING = re.compile(r"[a-z_]+(\.[a-z_0-9]+)*=", re.ASCII)
WRITTEN = ("out", "ctm", "rttm", "loglikes", "onnx", "torch", "torchscript", "archive")  # files
READ = ("run", "runs", "graph", "lang", "model")  # folders, in which these may be written anew:
RESULTS = (".onnx", ".pt2", ".zip", ".ctm", ".rttm", ".ark", ".svg", ".png", ".pdf")
ALIKE = 0.7  # difflib's ratio, from which one word is taken for a slip of another


@dataclass(frozen=True)
class Number:
    """The `type` of a numeric option: what reads it, and its range, which --help shows."""

    kind: type[int] | type[float]
    range: Within

    def __call__(self, text: str) -> int | float:
        """Read the number; ArgumentTypeError outside of the range."""
        try:
            number = self.kind(text)
        except ValueError:  # also of more digits than Python reads
            number = None
        if number is None or not self.range.admits(number):
            raise argparse.ArgumentTypeError(f"{text[:40]!r} is not {self.describe()}")
        return number

    def describe(self) -> str:
        """The range in words."""
        return self.range.describe("a whole number" if self.kind is int else "a number")


def whole(low: int, high: int) -> Number:
    """A whole number of this range."""
    return Number(int, Within(low, high))


def real(low: float, high: float) -> Number:
    """A number of this range."""
    return Number(float, Within(low, high))


def key(name: str) -> Number:
    """A number of the kind and range that a key of the configuration has, or each of its list."""
    hint: Any = dict(iter_typed_keys())[name]
    if get_args(hint)[1:] == (...,):
        hint = get_args(hint)[0]
    kind, limits = get_args(hint)
    return Number(kind, limits)


positive = whole(1, 1_000_000)
processes = whole(1, 1000)  # or jobs, whose files are all open at once
share = real(0, 1)
frame_shift = real(1e-4, 1)
acoustic_scale = key("decode.acoustic_scale")
beam = key("decode.beam")
lm_weight = key("decode.lm_weights")
penalty = key("decode.insertion_penalties")
seed = key("seed")


def channel(text: str) -> int | Literal["mean"]:
    """A channel of a sound, counted from 0, or `mean`."""
    if text == "mean":
        return "mean"
    if not text.isdecimal() or len(text) > 4:
        raise argparse.ArgumentTypeError(f"{text} is neither a channel, counted from 0, nor mean")
    return int(text)


def add_max_skipped(
    parser: argparse.ArgumentParser, default: float, what: str = "stay unaligned"
) -> None:
    """Declare --max-skipped, the share of the utterances that may do `what`."""
    parser.add_argument(
        "--max-skipped",
        type=share,
        metavar="SHARE",
        default=default,
        help=f"of the utterances may {what} (default %(default)s)",
    )


def refuse_useless(args: argparse.Namespace, where: str, names: Iterable[str]) -> None:
    """InputError for options of these names that were given; `where` they are of no use."""
    useless = [name for name in names if _is_given(vars(args)[name])]
    if useless:
        options = ", ".join(f"--{name.replace('_', '-')}" for name in useless)
        raise InputError(f"{options}: of no use with {where}")


def refuse_overwriting(args: argparse.Namespace) -> None:
    """InputError where a file to be written is read, lies in what is, or is written twice."""
    values = {n: v if isinstance(v, list) else [v] for n, v in vars(args).items()}
    paths = [(n, x) for n, v in values.items() for x in v if isinstance(x, Path)]
    read = [x for n, x in paths if n not in WRITTEN and x.is_file()]
    folders = {real_path(x) for n, x in paths if n in READ and x.is_dir()}
    options: dict[Path, str] = {}
    for name, path in ((n, x) for n, x in paths if n in WRITTEN):
        place = real_path(path)
        inside = path.suffix not in RESULTS and folders.intersection(place.parents)
        if path.is_file() and (inside or any(map(path.samefile, read))):
            raise InputError(f"--{name} {path}: is read here, and would be lost; name another")
        if (option := options.setdefault(place, name)) != name and not path.is_char_device():
            raise InputError(f"{path}: named by --{option} and by --{name}; give each a file")


def _is_given(value: object) -> bool:
    """Whether an option says something: 0 does, while None, False, "" and [] are defaults."""
    return bool(value) or (value == 0 and value is not False)


class Formatter(argparse.HelpFormatter):
    """Help that says the range of each numeric option."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        text = super()._get_help_string(action) or ""
        if not isinstance(action.type, Number):
            return text
        return f"{text}; {action.type.describe()}" if text else action.type.describe()


class Parser(argparse.ArgumentParser):
    """A parser that refuses in one line, and names what is spelt alike."""

    def __init__(self, **options: Any) -> None:
        """Make a parser as argparse does, with our form of help."""
        super().__init__(**{"formatter_class": Formatter, **options})

    def error(self, message: str) -> NoReturn:
        """Say in one line what is wrong, and end with status 2."""
        line = " ".join(message.split())
        self.exit(2, f"{self.prog}: error: {line}; {self.prog} --help lists what there is\n")

    def parse_in_any_order(
        self, words: list[str], namespace: argparse.Namespace
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse arguments and options in any order, also options between the FILEs of a list.

        A parser of steps, or one that hands on what follows, takes its arguments first.
        """
        positionals = self._get_positional_actions()
        if any(action.nargs in (argparse.PARSER, argparse.REMAINDER) for action in positionals):
            return self.parse_known_args(words, namespace)
        return self.parse_known_intermixed_args(self._move_choices(words), namespace)

    def _move_choices(self, words: list[str]) -> list[str]:
        """The words with lists such as `--on dev test` last: a word behind is none of its list."""
        end = words.index("--") if "--" in words else len(words)
        others: list[str] = []
        lists: list[str] = []
        choices: Container[Any] = ()
        for before, word in zip(["", *words], words[:end], strict=False):
            action = self._option_string_actions.get(word)
            if action:
                choices = [*(action.choices or ())] if action.nargs == "+" else ()
            elif word not in choices and before not in self._option_string_actions:
                choices = ()
            (lists if choices else others).append(word)
        return [*others, *lists, *words[end:]]

    def refuse_strangers(self, words: list[str]) -> None:
        """Refuse words that no option or argument takes, with the option that is nearest."""
        if words:
            options = [option for action in self._actions for option in action.option_strings]
            suggestion = suggest(words[0].partition("=")[0], options)
            self.error(f"unrecognized arguments: {' '.join(words)}{suggestion}")


def is_text(word: str) -> bool:
    """Whether an argument can be written as UTF-8, as all that we write."""
    return not re.search("[\ud800-\udfff]", word)


def suggest(word: str, choices: Iterable[str]) -> str:
    """Return "; did you mean X?" for the word of `choices` that is nearest, or nothing."""
    matches = difflib.get_close_matches(word, list(choices), 1, ALIKE)
    return f"; did you mean {matches[0]}?" if matches else ""


def repeat_set(words: list[str]) -> list[str]:
    """Return the command line with `--set a=1 b=2` written as `--set a=1 --set b=2`."""
    repeated: list[str] = []
    setting = False
    for word in words:
        if setting and SETTING.match(word) and repeated[-1] != "--set":
            repeated.append("--set")
        repeated.append(word)
        setting = word.partition("=")[0] == "--set" or (setting and bool(SETTING.match(word)))
    return repeated

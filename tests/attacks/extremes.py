"""Numbers that nobody means, and every option and key that takes a number."""

from collections.abc import Iterator
from importlib import import_module
from types import ModuleType

from bayes_asr.cli import VERBS, gmm
from bayes_asr.cli.arguments import Number, Parser
from bayes_asr.config.schema import iter_typed_keys
from bayes_asr.config.values import describe

EXTREMES = (
    *("0", "-0.0", "-1", "1", "2", "0.5", "1e-45", "1e-308", "5e-324", "1e308", "1e999"),
    *(
        "inf",
        "-inf",
        "nan",
        "-nan",
        "2147483647",
        "2147483648",
        "-2147483649",
        "1000000000000000000",
    ),
    *("9223372036854775808", "9" * 5000, "1" + "0" * 400, "0x10", "1_0", "1e5", "1.5", "1,5"),
    *("", " ", "½", "٣", "１", "\u2028", "a", "true", "null", "[1]", "{}", "1 2"),
)


COMMANDS = [*(verb for verb in VERBS if verb != "gmm"), *(f"gmm {step}" for step in gmm.STEPS)]


def module_of(command: str) -> ModuleType:
    """The module of a verb, or of a verb and its step."""
    verb, _, step = command.partition(" ")
    name = verb.replace("-", "_")
    return gmm.module_of(step) if step else import_module(f"bayes_asr.cli.{name}")


def parser_of(command: str) -> Parser:
    """A parser of the arguments of a command alone."""
    parser = Parser(prog=f"bayes-asr {command}")
    module_of(command).add_arguments(parser)
    return parser


def numeric_options(command: str) -> Iterator[tuple[str, Number]]:
    """The options of a command that take a number."""
    for action in parser_of(command)._actions:
        if isinstance(action.type, Number):
            yield action.option_strings[0], action.type


def numeric_keys() -> list[str]:
    """The keys of the configuration that take a number, or several."""
    return [name for name, hint in iter_typed_keys() if "number" in describe(hint)]

"""Numbers that nobody means, and every option and key that takes a number."""

import argparse
from collections.abc import Iterator
from importlib import import_module

from bayes_asr.cli.arguments import Number
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


def numeric_options(verb: str) -> Iterator[tuple[str, Number]]:
    """The options of a verb that take a number."""
    parser = argparse.ArgumentParser()
    import_module(f"bayes_asr.cli.{verb}").add_arguments(parser)
    for action in parser._actions:
        if isinstance(action.type, Number):
            yield action.option_strings[0], action.type


def numeric_keys() -> list[str]:
    """The keys of the configuration that take a number, or several."""
    return [name for name, hint in iter_typed_keys() if "number" in describe(hint)]

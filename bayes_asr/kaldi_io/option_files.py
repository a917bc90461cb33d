"""Option files of Kaldi's scripts, such as cmvn_opts."""

import re
from collections.abc import Mapping
from pathlib import Path

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import is_there, read_text

OPTION = re.compile(r"--([\w-]+)(?:=(\S*))?", re.ASCII)
# Kaldi's ParseOptions takes these words for booleans; an option without a value is true.
TRUTH = {"true": True, "t": True, "1": True, "": True, "false": False, "f": False, "0": False}

Options = Mapping[str, int | bool]


def read_options(path: Path, defaults: Options) -> dict[str, int | bool]:
    """The options in a file, and the defaults of those that it lacks; all of them if it is absent.

    InputError for an option without a default, and for a value of another kind than its default.
    """
    options = dict(defaults)
    for word in read_text(path).split() if is_there(path) else ():
        match = OPTION.fullmatch(word)
        name = match[1].replace("_", "-") if match else ""
        if match is None or name not in defaults:
            raise InputError(
                f"{path}: the option {word} is not supported, only {', '.join(sorted(defaults))};"
                " train the model without it"
            )
        value = _parse(match[2] or "", defaults[name])
        if value is None:
            raise InputError(f"{path}: {word} has no value of its kind; correct it")
        options[name] = value
    return options


def _parse(text: str, default: int | bool) -> int | bool | None:
    if isinstance(default, bool):
        return TRUTH.get(text.lower())
    return int(text) if re.fullmatch(r"\d{1,3}", text, re.ASCII) else None

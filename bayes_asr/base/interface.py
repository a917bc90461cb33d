"""Compiled libraries behind a plain C interface, compared with what Python knows before any call.

Each library has a function PREFIX_description, which describes in lines of text the fields of the
structs that both sides share and what its functions take; base/csrc/interface.h makes the text from
the structs themselves. A library of another version, whose numbers would be read from the wrong
place, is so refused with the name of the field.
"""

import ctypes as c
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bayes_asr.base.errors import InputError

Structs = Sequence[type[c.Structure]]
Functions = Mapping[str, tuple[Any, Sequence[Any]]]
"""What each function returns and takes, as ctypes has it; names without PREFIX."""

TYPES = {
    None: "nothing",
    c.c_int32: "int32",
    c.c_int64: "int64",
    c.c_float: "float32",
    c.c_double: "float64",
}


def load(file: Path, prefix: str, structs: Structs, functions: Functions) -> c.CDLL:
    """Load a library of these structs and functions; InputError, in one line, for another."""
    if not file.exists():
        raise InputError(f"{file} is not built")
    try:
        loaded = c.CDLL(str(file))
        describe = loaded[f"{prefix}_description"]
    except OSError as error:
        raise InputError(f"{file} does not load: {error}") from error
    except AttributeError as error:
        lacks = f"it has no {prefix}_description"
        raise InputError(f"{file} was built for another version: {lacks}") from error
    describe.restype, describe.argtypes = c.c_char_p, []
    # The library describes itself in lines `name: size or types`.
    actual = dict(line.split(": ") for line in describe().decode().splitlines())
    expected = dict(expect(prefix, structs, functions))
    # What only one of the two knows is a difference too.
    for name in [*actual, *expected]:
        if expected.get(name) != actual.get(name):
            raise InputError(
                f"{file} was built for another version: {name} is {actual.get(name, 'not there')}, "
                f"not {expected.get(name, 'known')}"
            )
    for name, (result, arguments) in functions.items():
        function = getattr(loaded, f"{prefix}_{name}")
        function.restype, function.argtypes = result, arguments
    return loaded


def fault(file: Path, prefix: str, structs: Structs, functions: Functions) -> str:
    """Say in one line why `load` refuses a library; empty where it does not."""
    try:
        load(file, prefix, structs, functions)
    except InputError as error:
        return str(error)
    return ""


def expect(prefix: str, structs: Structs, functions: Functions) -> Iterator[tuple[str, str]]:
    """Each struct, field and function, and what a library that fits says of it."""
    for struct in structs:
        for name, *_ in struct._fields_:
            field = getattr(struct, name)
            # Size and offset together show a field that moved or changed its type.
            yield f"{struct.__name__}.{name}", f"{field.size} bytes at {field.offset}"
        yield struct.__name__, f"{c.sizeof(struct)} bytes"
    for name, (result, arguments) in functions.items():
        types = "".join(f" {TYPES.get(kind, 'pointer')}" for kind in arguments)
        yield f"{prefix}_{name}", f"{TYPES.get(result, 'pointer')} of{types}"

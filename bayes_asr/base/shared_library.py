"""Compiled libraries behind a plain C interface, through ctypes.

A library `_NAME.so` lies beside the Python module that calls it where a compiler was at hand at
installation; it links to nothing but the C++ library. Its function NAME_description describes in
lines of text the fields of the structs that both sides share and what its functions take;
base/csrc/interface.h makes the text from the structs themselves. A library of another version,
whose numbers would be read from the wrong place, is so refused with the name of the field.

One rule holds for all: where a library is missing or refused, its Python twin computes instead.
"""

import ctypes as c
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

Functions = Mapping[str, tuple[Any, Sequence[Any]]]
"""What each function returns and takes, as ctypes has it; names without PREFIX."""

P = c.c_void_p
INTS, LONGS, FLOATS, DOUBLES = (
    c.POINTER(kind) for kind in (c.c_int32, c.c_int64, c.c_float, c.c_double)
)
TYPES = {
    None: "nothing",
    c.c_int32: "int32",
    c.c_int64: "int64",
    c.c_float: "float32",
    c.c_double: "float64",
}
View = TypeVar("View", bound=c.Structure)


@dataclass(frozen=True)
class SharedLibrary:
    """A compiled library of some structs and of functions PREFIX_NAME."""

    file: Path
    prefix: str
    structs: Sequence[type[c.Structure]]
    functions: Functions

    @cached_property
    def fault(self) -> str:
        """Reason in one line why the library cannot be used; empty where it can."""
        try:
            self._check()
        except OSError as error:
            return str(error)
        return ""

    @property
    def usable(self) -> bool:
        """Whether the library is there, and of this version."""
        return not self.fault

    def call(self, function: str, *arguments: Any) -> Any:
        """Return what a function returns; OSError where the library has a fault."""
        if self.fault:
            raise OSError(self.fault)
        return getattr(self._loaded, f"{self.prefix}_{function}")(*arguments)

    def run(self, function: str, task: str, *arguments: Any) -> None:
        """Call a function that returns 0, or another number where memory does not suffice.

        task: the subject of the MemoryError.
        """
        if self.call(function, *arguments):
            raise MemoryError(f"{task} ran out of memory")

    def expect(self) -> Iterator[tuple[str, str]]:
        """Each struct, field and function, and what a library that fits says of it."""
        for struct in self.structs:
            for name, *_ in struct._fields_:
                field = getattr(struct, name)
                # Size and offset together show a field that moved or changed its type.
                yield f"{struct.__name__}.{name}", f"{field.size} bytes at {field.offset}"
            yield struct.__name__, f"{c.sizeof(struct)} bytes"
        for name, (result, arguments) in self.functions.items():
            types = "".join(f" {TYPES.get(kind, 'pointer')}" for kind in arguments)
            yield f"{self.prefix}_{name}", f"{TYPES.get(result, 'pointer')} of{types}"

    @cached_property
    def _loaded(self) -> c.CDLL:
        return c.CDLL(str(self.file))

    def _check(self) -> None:
        """Compare what the library says of itself with what is expected, and declare functions."""
        if not self.file.exists():
            raise OSError(f"{self.file} is not built")
        try:
            describe = self._loaded[f"{self.prefix}_description"]
        except OSError as error:
            raise OSError(f"{self.file} does not load: {error}") from error
        except AttributeError as error:
            lacks = f"it has no {self.prefix}_description"
            raise OSError(f"{self.file} was built for another version: {lacks}") from error
        describe.restype, describe.argtypes = c.c_char_p, []
        # The library describes itself in lines `name: size or types`.
        actual = dict(line.split(": ") for line in describe().decode().splitlines())
        expected = dict(self.expect())
        # What only one of the two knows is a difference too.
        for name in [*actual, *expected]:
            if expected.get(name) != actual.get(name):
                raise OSError(
                    f"{self.file} was built for another version: {name} is"
                    f" {actual.get(name, 'not there')}, not {expected.get(name, 'known')}"
                )
        for name, (result, arguments) in self.functions.items():
            function = getattr(self._loaded, f"{self.prefix}_{name}")
            function.restype, function.argtypes = result, arguments


def column_types(struct: type[c.Structure]) -> dict[str, Any]:
    """The NumPy types of the columns that a struct points to, by their names."""
    return {name: np.dtype(kind._type_) for name, kind in _pointers(struct).items()}


def view_of(struct: type[View], table: object, **members: Any) -> View:
    """A struct of the columns of a table, each found by its name.

    members: the fields that are no columns. The struct keeps what it points into alive; columns of
    another type or order are copied.
    """
    arrays = {
        name: np.ascontiguousarray(getattr(table, name), dtype)
        for name, dtype in column_types(struct).items()
    }
    pointers = {name: arrays[name].ctypes.data_as(k) for name, k in _pointers(struct).items()}
    view = struct(**members, **pointers)
    view.kept = arrays, members
    return view


def _pointers(struct: type[c.Structure]) -> dict[str, Any]:
    kinds = {INTS, LONGS, FLOATS, DOUBLES}
    return {name: kind for name, kind, *_ in struct._fields_ if kind in kinds}


def name_blas() -> str:
    """Linear algebra that NumPy and SciPy have loaded, with its code for this processor."""
    from threadpoolctl import threadpool_info  # which only records of runs need

    loaded = (library for library in threadpool_info() if library["user_api"] == "blas")
    names = {f"{blas['internal_api']} {blas.get('architecture', '')}".strip() for blas in loaded}
    return ", ".join(sorted(names)) or "none"

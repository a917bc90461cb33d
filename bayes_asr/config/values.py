"""Types of the values of keys: their ranges and choices, plain values as these types, and words."""

import dataclasses
import types
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints


@dataclass(frozen=True)
class Within:
    """The range of a number, both ends included."""

    low: float
    high: float

    def admits(self, number: float) -> bool:
        """Whether a number is in it."""
        return self.low <= number <= self.high

    def describe(self, kind: str) -> str:
        """It in words."""
        return f"{kind} between {self.low:.10g} and {self.high:.10g}"


@dataclass(frozen=True)
class OneOf:
    """The names in a table of `catalogue`."""

    table: Collection[str] = field(hash=False)

    def admits(self, name: str) -> bool:
        """Whether the table has a name."""
        return name in self.table

    def describe(self, _: str) -> str:
        """It in words."""
        return f"one of {', '.join(self.table)}"


Share = Annotated[float, Within(0, 1)]
Units = Annotated[int, Within(1, 100_000)]
Count = Annotated[int, Within(1, 10_000_000)]
Dropped = Annotated[float, Within(0, 0.95)]
Context = Annotated[int, Within(0, 50)]
Weight = Annotated[float, Within(0, 100)]

NAME = "NAME"
"""What conf/base.yaml calls the section that describes all sections of a mapping."""

NAMES = {
    int: "a whole number",
    float: "a number",
    str: "text",
    bool: "true or false",
    types.NoneType: "null",
    Any: "a value",
}


@cache
def hints(kind: type) -> dict[str, Any]:
    """The keys of a section and their types, ranges included."""
    return get_type_hints(kind, include_extras=True)


def convert(hint: Any, value: Any) -> Any:
    """`value` as the type `hint`; integers serve as floats, one value as a list of one.

    Raises ValueError where it is of another type or out of its range.
    """
    origin, arguments = get_origin(hint), get_args(hint)
    # A range lies around a type: the type is converted first and then held against the range.
    if origin is Annotated:
        number = convert(arguments[0], value)
        if not arguments[1].admits(number):
            raise ValueError
        return number
    if origin in (Union, types.UnionType):
        return _first_that_fits(arguments, value)
    if origin is tuple:
        items = value if isinstance(value, list) else [value]
        return tuple(convert(arguments[0], item) for item in items)
    if origin is Mapping:
        return _convert_mapping(arguments[0], arguments[1], value)
    if hint is Any:
        return value
    if hint is float and type(value) is int:
        try:
            return float(value)
        except OverflowError:  # of over 308 digits
            raise ValueError from None
    # The type must be the very one, since True is an int for isinstance.
    if value in arguments if origin is Literal else type(value) is hint:
        return value
    raise ValueError


def describe(hint: Any) -> str:
    """The type `hint` in words: "a number between 0 and 1"."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        limits: Within | OneOf = arguments[1]
        return limits.describe(describe(arguments[0]))
    if origin is Literal:
        return "one of " + ", ".join(map(str, arguments))
    if origin is tuple:
        return f"a list, each of it {describe(arguments[0])}"
    if origin is Mapping:
        kind = "names" if arguments[0] is str else "epochs"
        return f"a mapping of {kind}, each of it {describe(arguments[1])}"
    if dataclasses.is_dataclass(hint):
        return f"a section of {', '.join(field.name for field in dataclasses.fields(hint))}"
    if origin in (Union, types.UnionType):
        return " or ".join(describe(option) for option in arguments)
    return NAMES[hint]


def mapping_in(hint: Any) -> Any:
    """The mapping that the type `hint` is or may be, None where there is none."""
    options = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    return next((option for option in options if get_origin(option) is Mapping), None)


def records_of(hint: Any) -> Any:
    """The dataclass of the items, where the type `hint` is a list of such; else None."""
    record = get_args(hint)[0] if get_origin(hint) is tuple else None
    return record if dataclasses.is_dataclass(record) else None


def convert_name(hint: Any, name: str) -> Any:
    """A name in a mapping as the type `hint`, text or a number; ValueError as `convert`."""
    return name if hint is str else convert(hint, int(name))


def list_choices(hint: Any) -> tuple[Any, ...]:
    """The choices of the type `hint`, where it is a list of names."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return arguments
    if origin is Annotated:
        return tuple(arguments[1].table) if isinstance(arguments[1], OneOf) else ()
    if origin in (Union, types.UnionType, tuple):
        return tuple(choice for option in arguments for choice in list_choices(option))
    return ()


def _convert_mapping(name_type: Any, hint: Any, value: Any) -> dict[Any, Any]:
    if type(value) is not dict or (
        name_type is str and not all(isinstance(name, str) for name in value)
    ):
        raise ValueError
    return {convert_name(name_type, str(name)): convert(hint, item) for name, item in value.items()}


def _first_that_fits(options: tuple[Any, ...], value: Any) -> Any:
    # Options are tried in their order, so an int comes before a float that would take it.
    for option in options:
        try:
            return convert(option, value)
        except ValueError:
            continue
    raise ValueError

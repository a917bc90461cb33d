"""Ranges and choices of the values of keys, besides their types."""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Annotated


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

"""Items one after the other, taken together until they are enough."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")


def gather(items: Iterable[Item], enough: int, size: Callable[[Item], int]) -> Iterator[list[Item]]:
    """Yield lists of items, in their order, each as soon as its sizes add up to `enough`."""
    gathered: list[Item] = []
    total = 0
    for item in items:
        gathered.append(item)
        total += size(item)
        if total >= enough:
            yield gathered
            gathered, total = [], 0
    if gathered:
        yield gathered

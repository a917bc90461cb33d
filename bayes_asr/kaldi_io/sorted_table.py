"""Tables of millions of lines in two arrays; a dict takes seconds and hundreds of MB."""

from collections.abc import ItemsView, Iterable, Iterator, Mapping, Sequence, ValuesView
from pathlib import Path
from typing import Any

import numpy as np

from bayes_asr.base.errors import InputError

Tables = Sequence[tuple[Path, Mapping[str, Any]]]


class SortedTable(Mapping[str, Any]):
    """Names in byte order, as UTF-8 in an array [N], and of each a whole number or a string."""

    def __init__(self, names: np.ndarray, column: np.ndarray) -> None:
        self.names, self.column = names, column

    def place(self, name: str) -> int:
        """The index of a name in the table; KeyError if it is not there."""
        raw = np.array(name.encode())
        if raw.itemsize <= self.names.itemsize:  # else all would be converted
            place = int(np.searchsorted(self.names, raw.astype(self.names.dtype)))
            if place < len(self.names) and self.names[place] == raw:
                return place
        raise KeyError(name)

    def __getitem__(self, name: str) -> Any:
        return _value(self.column[self.place(name)].item())

    def __iter__(self) -> Iterator[str]:
        return iter(decode(self.names))

    def __len__(self) -> int:
        return len(self.names)

    def items(self) -> ItemsView[str, Any]:
        """All lines, without a search for each."""
        return _Items(self)

    def values(self) -> ValuesView[Any]:
        """All values, without a search for each."""
        return _Values(self)


class _Items(ItemsView[str, Any]):
    _mapping: SortedTable

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        return zip(self._mapping, self._mapping.values(), strict=True)


class _Values(ValuesView[Any]):
    _mapping: SortedTable

    def __iter__(self) -> Iterator[Any]:
        return map(_value, self._mapping.column.tolist())


def _value(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value


def encode(strings: Iterable[str]) -> np.ndarray:
    """Strings without zero bytes as UTF-8, in an array [N]."""
    return np.array([string.encode() for string in strings], np.bytes_)


def decode(strings: np.ndarray) -> list[str]:
    """Strings from an array of UTF-8 [N]."""
    return [raw.decode() for raw in strings.tolist()]


def split_table(
    table: Mapping[str, Any], reference: Mapping[str, Any]
) -> tuple[Mapping[str, Any], list[str]]:
    """The lines of a table whose names another one has, and the names that it has not."""
    if isinstance(table, SortedTable) and isinstance(reference, SortedTable):
        common = np.isin(table.names, reference.names)
        if common.all():
            return table, []
        return SortedTable(table.names[common], table.column[common]), decode(table.names[~common])
    names = set(reference)
    missing = [name for name in table if name not in names]
    if not missing:
        return table, []
    return {name: value for name, value in table.items() if name in names}, missing


def join_tables(tables: Tables, what: str) -> Mapping[str, Any]:
    """Join tables, each with its file or folder, in byte order of the names.

    InputError for a name that is in two tables; what: the predicate in its message.
    """
    columns = [table for _, table in tables if isinstance(table, SortedTable)]
    if len(columns) == len(tables):
        names = np.concatenate([table.names for table in columns])
        order = np.argsort(names, kind="stable")
        ordered = names[order]
        # In byte order equal names are neighbours.
        repeated = np.flatnonzero(ordered[1:] == ordered[:-1])
        if len(repeated):
            _refuse_repeated(ordered[repeated[0]].decode(), tables, what)
        return SortedTable(ordered, np.concatenate([t.column for t in columns])[order])
    joined: dict[str, Any] = {}
    for _, table in tables:
        if not joined.keys().isdisjoint(table):
            _refuse_repeated(next(name for name in table if name in joined), tables, what)
        joined.update(table.items())
    return dict(sorted(joined.items()))


def _refuse_repeated(name: str, tables: Tables, what: str) -> None:
    earlier, later, *_ = (path for path, table in tables if name in table)
    raise InputError(
        f"{later}: {name} {what} in {earlier} too; rename it in one of them (Kaldi's"
        " utils/copy_data_dir.sh --utt-prefix), or leave one of them out"
    )

"""A sorted table in arrays, against a dict."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayes_asr.kaldi_io.sorted_table import SortedTable, encode

words = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1)


@given(st.dictionaries(words, words), st.lists(words))
def test_table_of_strings_is_a_dict_in_order(items: dict[str, str], others: list[str]) -> None:
    names = sorted(items)
    table = SortedTable(encode(names), encode(items[name] for name in names))
    assert table == items
    assert list(table.items()) == sorted(items.items())
    assert list(table.values()) == [items[name] for name in names]
    for name in (*names, *others):
        assert (name in table) == (name in items)
        assert table.get(name) == items.get(name)


@given(st.dictionaries(words, st.integers(-(2**63), 2**63 - 1), min_size=1))
def test_table_of_numbers(items: dict[str, int]) -> None:
    names = sorted(items)
    table = SortedTable(encode(names), np.array([items[name] for name in names]))
    assert dict(table.items()) == items
    assert [table.place(name) for name in names] == list(range(len(names)))
    with pytest.raises(KeyError):
        table["".join(names) + "x"]

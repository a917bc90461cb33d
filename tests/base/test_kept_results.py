"""Work over items that was ended anywhere goes on, and computes nothing twice that is whole."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayes_asr.base.errors import InputError
from bayes_asr.base.kept_results import NAME, KeptResults

ITEMS = range(7)


def square(computed: list[int], items: Iterator[int]) -> Iterator[np.ndarray]:
    """Results of different lengths; `computed` gets the items."""
    for item in items:
        computed.append(item)
        yield np.arange(item) ** 2


def take(folder: Path, number: int, inputs: str = "these") -> tuple[list[list[int]], list[int]]:
    """The results and what was computed, of a call that is ended after so many results."""
    computed: list[int] = []
    results = KeptResults(folder, inputs).go_on(lambda items: square(computed, items), ITEMS)
    return [next(results).tolist() for _ in range(number)], computed


EXPECTED = [(np.arange(item) ** 2).tolist() for item in ITEMS]


@given(st.integers(0, len(ITEMS)), st.integers(0, 2000))
def test_it_goes_on_behind_the_last_whole_result(ended: int, bytes_left: int) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        take(folder, ended)
        whole = (folder / NAME).read_bytes() if ended else b""
        (folder / NAME).write_bytes(whole[:bytes_left])
        results, computed = take(folder, len(ITEMS))
        assert results == EXPECTED
        assert computed == list(ITEMS)[len(ITEMS) - len(computed) :]
        assert len(computed) == len(ITEMS) - ended or bytes_left < len(whole)
        assert take(folder, len(ITEMS)) == (EXPECTED, [])


@given(st.integers(6, 800), st.integers(1, 255))
def test_a_flipped_bit_ends_what_is_kept(place: int, change: int) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        take(folder, len(ITEMS))
        damaged = bytearray((folder / NAME).read_bytes())
        damaged[place % len(damaged)] ^= change
        (folder / NAME).write_bytes(damaged)
        results, computed = take(folder, len(ITEMS))
        assert results == EXPECTED
        assert computed


def test_results_of_other_inputs_are_thrown_away(tmp_path: Path) -> None:
    take(tmp_path, 5)
    assert take(tmp_path, len(ITEMS), "others") == (EXPECTED, list(ITEMS))


def test_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / NAME).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError, match="is a link, a pipe or a device"):
        take(tmp_path, 1)

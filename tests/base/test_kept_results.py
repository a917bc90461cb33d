"""Work over items that was ended anywhere goes on, and computes nothing twice that is whole."""

import resource
from collections.abc import Iterator
from fractions import Fraction
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayes_asr.base.errors import InputError
from bayes_asr.base.kept_results import KEPT, KeptResults

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
        whole = (folder / KEPT).read_bytes() if ended else b""
        (folder / KEPT).write_bytes(whole[:bytes_left])
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
        damaged = bytearray((folder / KEPT).read_bytes())
        damaged[place % len(damaged)] ^= change
        (folder / KEPT).write_bytes(damaged)
        results, computed = take(folder, len(ITEMS))
        assert results == EXPECTED
        assert computed


def test_results_of_other_inputs_are_thrown_away(tmp_path: Path) -> None:
    take(tmp_path, 5)
    assert take(tmp_path, len(ITEMS), "others") == (EXPECTED, list(ITEMS))


def test_results_of_two_that_wrote_at_once_are_those_of_their_items(tmp_path: Path) -> None:
    """As where a file system has no locks."""
    calls = [KeptResults(tmp_path, "these").go_on(partial(square, []), ITEMS) for _ in range(2)]
    for _ in range(3):
        for results in calls:
            next(results)
    for results in calls:
        results.close()
    assert take(tmp_path, len(ITEMS))[0] == EXPECTED


def test_what_cannot_be_loaded_is_computed_again(tmp_path: Path) -> None:
    """As of a version that had other classes."""
    strange = KeptResults(tmp_path, "these").go_on(lambda items: map(Fraction, items), ITEMS)
    assert [*strange][2] == 2
    assert take(tmp_path, len(ITEMS)) == (EXPECTED, list(ITEMS))


def test_nothing_is_kept_from_a_result_on_that_does_not_last(tmp_path: Path) -> None:
    results = KeptResults(tmp_path, "these").go_on(
        partial(square, []), ITEMS, lambda result: len(result) != 3
    )
    assert len([*results]) == len(ITEMS)
    assert take(tmp_path, len(ITEMS)) == (EXPECTED, list(ITEMS[3:]))


def test_a_full_disk_is_named_and_what_it_took_is_kept(tmp_path: Path) -> None:
    take(tmp_path, 4)
    size = (tmp_path / KEPT).stat().st_size
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 20, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large") as raised:
            take(tmp_path, len(ITEMS))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert raised.value.filename == str(tmp_path / KEPT)
    assert take(tmp_path, len(ITEMS)) == (EXPECTED, list(ITEMS[4:]))


def test_a_call_that_has_no_result_leaves_no_file(tmp_path: Path) -> None:
    def refuse(_: Iterator[int]) -> Iterator[int]:
        raise InputError("no such pdf")
        yield

    with pytest.raises(InputError, match="no such pdf"):
        next(KeptResults(tmp_path, "these").go_on(refuse, ITEMS))
    assert not [*tmp_path.iterdir()]


def test_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / KEPT).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError, match="is a link, a pipe or a device"):
        take(tmp_path, 1)

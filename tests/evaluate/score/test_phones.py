"""TIMIT phone folding against the numbers and pairs that the recipe's map is known by."""

from pathlib import Path

import pytest

from bayes_asr.base.errors import InputError
from bayes_asr.evaluate.score.phones import fold, read_phone_map, timit_map

split = str.split
# The 61 symbols of the TIMIT documentation.
TIMIT_61 = split(
    "b d g p t k dx q jh ch s sh z zh f th v dh m n ng em en eng nx l r w y hh hv el iy ih eh ey "
    "ae aa aw ay ah ao oy ow uh uw ux er ax ix axr ax-h bcl dcl gcl pcl tcl kcl pau epi h#"
)
MAP = "h# sil sil\npau sil sil\nax ax ah\nah ah ah\nq\nzh zh sh\nsh sh sh\n"


@pytest.mark.parametrize("to", [48, 39])
def test_sixty_one_phones_fold_to_the_promised_number(to: int) -> None:
    assert len(TIMIT_61) == 61
    assert len(set(fold(TIMIT_61, timit_map(to)))) == to


def test_folding_in_two_steps_equals_one() -> None:
    in_two = fold(fold(TIMIT_61, timit_map(48)), timit_map(39))
    assert in_two == fold(TIMIT_61, timit_map(39))


def test_glottal_stop_is_deleted_and_closures_are_silence() -> None:
    assert fold(split("h# q aa kcl k epi xyz"), timit_map(39)) == split("sil aa sil k sil xyz")


def test_sample_folds_to_the_known_counts(shared_data: Path) -> None:
    """Over SI and SX sentences: 4893 phones without q, 95 of q, 39 distinct."""
    files = sorted((shared_data / "timit_sample").rglob("s[ix]*.phn"))
    raw = [line.split()[2] for path in files for line in path.read_text().splitlines()]
    folded = fold(raw, timit_map(39))
    assert (len(files), len(folded), len(raw) - len(folded)) == (128, 4893, 95)
    assert len(set(folded)) == 39


def test_map_file_chooses_its_column_by_size(tmp_path: Path) -> None:
    (tmp_path / "m").write_text(MAP)
    assert fold(split("pau ax q zh"), read_phone_map(tmp_path / "m", 5)) == split("sil ax zh")
    assert fold(split("pau ax q zh"), read_phone_map(tmp_path / "m", 3)) == split("sil ah sh")


def test_map_file_without_such_a_column(tmp_path: Path) -> None:
    (tmp_path / "m").write_text(MAP)
    with pytest.raises(InputError, match=r"m: no column after the first has 39 .*\[7, 5, 3\]"):
        read_phone_map(tmp_path / "m", 39)


def test_map_file_that_contradicts_itself(tmp_path: Path) -> None:
    (tmp_path / "m").write_text("a b\na c\n")
    with pytest.raises(InputError, match="a goes to b and to c"):
        read_phone_map(tmp_path / "m", 2)

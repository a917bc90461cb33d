"""Seeded fuzzing of every reader: damaged files are refused in one line, never a crash.

BAYES_ASR_FUZZ=N makes the slow test read N inputs of each format, by default enough for 20 000.
"""

import os
from pathlib import Path

import pytest

from tests.attacks.fuzzing import FORMATS, Format, inputs, read_all, sound_file, truncated

ROUNDS = int(os.environ.get("BAYES_ASR_FUZZ", 20_500 // len(FORMATS)))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to read in, inside the working directory."""
    (tmp_path / "here" / "data").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here" / "data"


def files_below(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.name)
def test_damaged_files_are_refused_in_one_line(form: Format, folder: Path) -> None:
    found = read_all(form, folder, inputs(form, sound_file(form, folder), seed=1, rounds=25))
    assert found.refused > 0


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.name)
def test_thousands_of_damaged_files(form: Format, folder: Path, tmp_path: Path) -> None:
    sound = sound_file(form, folder)
    before = files_below(tmp_path)
    found = read_all(form, folder, inputs(form, sound, seed=2, rounds=ROUNDS))
    assert found.read == round(ROUNDS * form.share)
    assert found.refused > found.read / 10
    assert files_below(tmp_path) == before


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.name)
def test_files_cut_at_every_byte(form: Format, folder: Path) -> None:
    """What a cut leaves of an archive or a text may be one that is whole, but never too much."""
    sound = sound_file(form, folder)[:3000]
    assert read_all(form, folder, truncated(sound)).read == len(sound)

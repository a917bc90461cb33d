"""Archives of parallel jobs: all of them, or an error that names what is missing."""

import re
from pathlib import Path

import pytest

from bayes_asr.base.errors import InputError
from bayes_asr.kaldi_io.jobs import find_jobs


def folder_of(path: Path, names: str, jobs: str | None) -> Path:
    for name in names.split():
        (path / f"ali.{name}.gz").touch()
    if jobs is not None:
        (path / "num_jobs").write_text(jobs)
    return path


@pytest.mark.parametrize(
    ("names", "jobs"),
    [("1", "1\n"), ("1 2 3 10 11 4 5 6 7 8 9", "11"), ("2 1", None), ("all", None)],
)
def test_complete_archives_are_in_the_order_of_their_jobs(
    names: str, jobs: str | None, tmp_path: Path
) -> None:
    found = find_jobs(folder_of(tmp_path, names, jobs), "ali")
    wanted = sorted(names.split(), key=lambda name: int(name) if name.isdigit() else 0)
    assert [path.name for path in found] == [f"ali.{name}.gz" for name in wanted]


@pytest.mark.parametrize(
    ("names", "jobs", "message"),
    [
        ("1 3", "3\n", "ali.2.gz is missing: num_jobs says 3, but only 2 are there; copy what is"),
        ("1 2", "3\n", "ali.3.gz is missing: num_jobs says 3, but only 2 are there"),
        ("2", "4", "ali.1.gz and 2 more are missing: num_jobs says 4, but only 1 are there"),
        ("1 4", None, "ali.2.gz and 1 more are missing: ali.4.gz is there, but only 2 are there"),
        ("1 2", "999999999", "ali.3.gz and 999999996 more are missing"),
        ("1 2 3", "2", "ali.3.gz is there, but num_jobs says 2; remove what an earlier step left"),
        ("1", "1 2", "num_jobs: '1 2' is no number of jobs"),
        ("1", "-1", "num_jobs: '-1' is no number of jobs"),
        ("1", "", "num_jobs: '' is no number of jobs"),
    ],
)
def test_incomplete_archives_are_refused(
    names: str, jobs: str | None, message: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        find_jobs(folder_of(tmp_path, names, jobs), "ali")

"""The archives that the parallel jobs of a script of Kaldi's leave in a folder."""

import re
from collections.abc import Iterable
from itertools import count
from pathlib import Path

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import find_files, is_there, read_text

NUMBER = r"\.([1-9]\d{0,8})"


def find_jobs(folder: Path, kind: str, suffix: str = ".gz") -> list[Path]:
    """`kind.*.gz` in the order of their job numbers; InputError unless all jobs left theirs.

    suffix: how the names end; without one, only those that end in a number are found.
    """
    found = find_files(folder, f"{kind}.*{suffix}")
    paths = sorted(found, key=lambda path: (len(path.name), path.name))
    if not suffix:
        paths = [path for path in paths if _parse_number(path, kind, suffix)]
    check_jobs(folder, kind, paths, suffix)
    return paths


def find_alignments(directory: Path) -> list[Path]:
    """`ali.*.gz` in the order of their job numbers; InputError unless they are complete."""
    if not find_files(directory, "ali.*.gz"):
        raise InputError(f"{directory}: there is no ali.*.gz; align the data first")
    return find_jobs(directory, "ali")


def check_jobs(folder: Path, kind: str, paths: Iterable[Path], suffix: str = ".gz") -> None:
    """InputError where `paths`, some `kind.N.gz`, are not those of jobs 1 to num_jobs.

    Without the file num_jobs the highest number counts; names without a number are of no job.
    """
    there = {number for path in paths if (number := _parse_number(path, kind, suffix))}
    noted = folder / "num_jobs"
    jobs = _read_number(noted) if is_there(noted) else max(there, default=0)
    if (lacking := jobs - len(there)) > 0:
        first = next(number for number in count(1) if number not in there)
        be = "are" if lacking > 1 else "is"
        others = f" and {lacking - 1} more" if lacking > 1 else ""
        says = f"{noted.name} says {jobs}" if noted.exists() else f"{kind}.{jobs}{suffix} is there"
        raise InputError(
            f"{folder}: {kind}.{first}{suffix}{others} {be} missing: {says}, but only"
            f" {len(there)} are there; copy what is missing from where it was made, or repeat the"
            " step that makes it"
        )
    if there and max(there) > jobs:
        raise InputError(
            f"{folder}: {kind}.{max(there)}{suffix} is there, but {noted.name} says {jobs}; remove"
            f" what an earlier step left, or correct {noted.name}"
        )


def check_lattice_jobs(lattices: Iterable[Path]) -> None:
    """InputError where all `lat.N.gz` of a folder are given, but not those of all its jobs."""
    given = {*lattices}
    for folder in {path.parent for path in given}:
        there = find_files(folder, "lat.*.gz")
        if (folder / "num_jobs").exists() and {*there} <= given:
            check_jobs(folder, "lat", there)


def _parse_number(path: Path, kind: str, suffix: str) -> int:
    """The number of the job that left a file; 0 where its name has none."""
    match = re.fullmatch(NUMBER + re.escape(suffix), path.name.removeprefix(kind), re.ASCII)
    return int(match[1]) if match else 0


def _read_number(path: Path) -> int:
    text = read_text(path).strip()
    if not re.fullmatch(r"\d{1,9}", text, re.ASCII):
        raise InputError(f"{path}: {text[:40]!r} is no number of jobs; write how many there were")
    return int(text)

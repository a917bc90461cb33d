"""Archives that the parallel jobs of Kaldi's scripts leave in a folder: ali.N.gz, lat.N.gz."""

import re
from collections.abc import Iterable
from itertools import count
from pathlib import Path

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import find_files, is_there, read_text

NUMBER = r"\.([1-9]\d{0,8})"


def find_jobs(directory: Path, kind: str, suffix: str = ".gz") -> list[Path]:
    """`kind.*.gz` in the order of their job numbers; InputError unless all jobs left theirs.

    suffix: how the names end; without one, only those that end in a number are found.
    """
    archives = find_files(directory, f"{kind}.*{suffix}")
    # Shorter names first, so that job 2 comes before job 10.
    paths = sorted(archives, key=lambda path: (len(path.name), path.name))
    if not suffix:
        paths = [path for path in paths if _parse_number(path, kind, suffix)]
    check_jobs(directory, kind, paths, suffix)
    return paths


def find_alignments(directory: Path) -> list[Path]:
    """`ali.*.gz` in the order of their job numbers; InputError unless they are complete."""
    if not find_files(directory, "ali.*.gz"):
        raise InputError(f"{directory}: there is no ali.*.gz; align the data first")
    return find_jobs(directory, "ali")


def check_jobs(directory: Path, kind: str, paths: Iterable[Path], suffix: str = ".gz") -> None:
    """InputError where `paths`, some `kind.N.gz`, are not those of jobs 1 to num_jobs.

    Without the file num_jobs the highest number counts; names without a number are of no job.
    """
    numbers = {number for path in paths if (number := _parse_number(path, kind, suffix))}
    count_file = directory / "num_jobs"
    # Without num_jobs a gap in the numbers still tells that an archive is missing.
    jobs = _read_number(count_file) if is_there(count_file) else max(numbers, default=0)
    if (absent := jobs - len(numbers)) > 0:
        missing = next(number for number in count(1) if number not in numbers)
        be = "are" if absent > 1 else "is"
        extra = f" and {absent - 1} more" if absent > 1 else ""
        says = (
            f"{count_file.name} says {jobs}"
            if is_there(count_file)
            else f"{kind}.{jobs}{suffix} is there"
        )
        raise InputError(
            f"{directory}: {kind}.{missing}{suffix}{extra} {be} missing: {says}, but only"
            f" {len(numbers)} are there; copy what is missing from where it was made, or repeat the"
            " step that makes it"
        )
    if numbers and max(numbers) > jobs:
        raise InputError(
            f"{directory}: {kind}.{max(numbers)}{suffix} is there, but {count_file.name} says"
            f" {jobs}; remove what an earlier step left, or correct {count_file.name}"
        )


def _parse_number(path: Path, kind: str, suffix: str) -> int:
    """The number of the job that left a file; 0 where its name has none."""
    match = re.fullmatch(NUMBER + re.escape(suffix), path.name.removeprefix(kind), re.ASCII)
    return int(match[1]) if match else 0


def _read_number(path: Path) -> int:
    text = read_text(path).strip()
    if not re.fullmatch(r"\d{1,9}", text, re.ASCII):
        raise InputError(f"{path}: {text[:40]!r} is no number of jobs; write how many there were")
    return int(text)

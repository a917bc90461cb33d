"""Verbs that are killed or refused by the disk while they write over older files."""

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.attacks.interference import WORKS, attack
from tests.attacks.laboratory import build

MEMORY = Path("/dev/shm")  # noqa: S108 - where fsync takes no time


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with TemporaryDirectory(dir=MEMORY if os.access(MEMORY, os.W_OK) else None) as made:
        yield Path(made)


FAST = {"forward", "score"}
AT_ONCE = {"fold", "adapt", "combine", "export --onnx"}  # of which the last change is the only one


@pytest.fixture(scope="module")
def laboratory(folder: Path) -> Path:
    return build(folder / "laboratory")


@pytest.mark.parametrize(
    ("verb", "every"),
    [
        *((verb, 9) for verb in sorted(FAST)),
        # All changes of all verbs take half an hour: python -m tests.attacks.interference
        *(
            pytest.param(verb, 60 if verb in AT_ONCE else 15, marks=pytest.mark.slow)
            for verb in sorted(WORKS.keys() - FAST)
        ),
    ],
)
def test_files_that_belong_together_are_all_old_or_all_new(
    verb: str, every: int, laboratory: Path, folder: Path
) -> None:
    with TemporaryDirectory(dir=folder) as place:
        found = Counter(left for _, _, left in attack(verb, laboratory, Path(place), every))
    assert found.total() > 5
    assert verb in AT_ONCE or len(found) > 1, "some were before the change, some after"

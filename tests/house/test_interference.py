"""Verbs that are killed or refused by the disk while they write over older files."""

import os
from collections import Counter
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from bayes_asr.decode import export
from bayes_asr.decode.forward.log_likelihoods import LogLikelihoods
from tests.attacks.interference import WORKS, attack
from tests.attacks.kill_training import digest
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


@pytest.fixture
def one_translation(verb: str, request: pytest.FixtureRequest) -> None:
    """A network is translated to ONNX once: it takes seconds, and writes nothing."""
    if "--onnx" not in verb:
        return
    request.getfixturevalue("quick_onnx")
    translate, kept = export._translate, dict[str, Any]()

    def keep(network: LogLikelihoods, **options: Any) -> Any:
        name = digest((network.model.state_dict(), network.log_priors.tolist(), options))
        if name not in kept:
            kept[name] = translate(network, **options)
        return deepcopy(kept[name])

    request.getfixturevalue("monkeypatch").setattr(export, "_translate", keep)


@pytest.mark.usefixtures("one_translation")
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
